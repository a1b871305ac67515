"""The command line: sub-commands and their options. Each command imports what it needs when it runs."""

import argparse
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import tinylm
from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.cli import compare, export, handin, plan, publish, sweep
from tinylm.host.command import Parser, guard

Arguments = argparse.Namespace


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"tinylm {tinylm.__version__}")
        parser.exit()


def _runner(name: str) -> Callable[[Arguments], None]:
    """`run` of tinylm/cli/NAME.py, imported when it is called."""
    return lambda arguments: importlib.import_module(f"tinylm.cli.{name}").run(arguments)


def _command(commands: Any, name: str, examples: str, *more: str) -> argparse.ArgumentParser:
    purpose = PURPOSES[name]
    parser = commands.add_parser(
        name,
        description="\n\n".join([f"{purpose[0].upper()}{purpose[1:]}.", *more]),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=name, run=_runner(name))
    return parser


def _add_model_options(parser: argparse.ArgumentParser, uses: bool = False) -> None:
    """Where the model is; `uses`: it is only read, and may be an export, which has its own tokenizer."""
    models = "the trained model, or an export" if uses else "the trained model"
    parser.add_argument(
        "--models", default=paths.MODELS, metavar="FOLDER", help=f"{models} (default %(default)s)"
    )
    beside = "the export's, or data/vocab/tokenizer.json beside FOLDER"
    parser.add_argument(
        "--vocab",
        default=None if uses else paths.TOKENIZER,
        metavar="FILE",
        help=f"its tokenizer (default {beside if uses else '%(default)s'})",
    )


PURPOSES = {
    "generate": "continue a text, printed word by word as it is generated",
    "attention": "draw what each head attends to in a text",
    "lab": "write one HTML file in which the trained model runs",
    "describe": "print the model that params.yaml gives: parts, shapes, parameters, operations",
    "check": "check params.yaml, data and machine before any work",
    "preset": "write a preset over params.yaml",
    "publish": "put the model, its card and its report on the Hugging Face hub",
    "handin": "pack what a course asks for: code, report, plots, samples, settings, model card",
    "sweep": "run many settings and seeds, each a DVC experiment, here or on a cluster",
    "compare": "what two or more runs differ in, and how sure the difference is",
    "plan": "how many seeds and stories show a difference of a given size, by the noise of earlier runs",
    "export": "write the model as transformers or llama.cpp loads it",
    "import": "read an export back, to the same bytes",
}
ANYWHERE = ("generate", "attention", "lab", "export", "import")  # they need no pipeline
IN_A_CLONE = (
    "check",
    "preset",
    "sweep",
)  # without dvc.yaml, what they propose or write would be of no use
GENERATE_NOTES = """\
Several prompts are continued side by side and printed when all are done. A prompt '-', or none where standard
input is no terminal, is read from there. Options left out come from section decode of params.yaml."""
GENERATE_EXAMPLES = """\
  tinylm generate "once upon a time"
  tinylm generate "the dog" "the dog" --seed 7      two samples of one prompt
  tinylm generate "the dog" --beams 5 --n-best 3
  echo "once upon a time" | tinylm generate --greedy --log-probs
"""


def _add_generate(commands: Any) -> None:
    parser = _command(commands, "generate", GENERATE_EXAMPLES, GENERATE_NOTES)
    parser.add_argument(
        "prompts", nargs="*", metavar="PROMPT", help="the text to continue; '' starts a story"
    )
    _add_model_options(parser, uses=True)
    parser.add_argument(
        "--max-tokens", type=int, default=200, metavar="N", help="new tokens (default %(default)s)"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--temperature", type=float, metavar="T", help="0 is greedy, above 1 is bolder"
    )
    how.add_argument(
        "--greedy", action="store_true", help="always the likeliest word (temperature 0)"
    )
    how.add_argument(
        "--beams", type=int, metavar="K", help="beam search of width K in place of sampling"
    )
    parser.add_argument(
        "--temperature-end",
        type=float,
        metavar="T",
        help="the temperature moves to this as it goes on",
    )
    parser.add_argument(
        "--top-k", type=int, metavar="K", help="draw from the K likeliest words, 0: from all"
    )
    parser.add_argument(
        "--top-p",
        type=float,
        metavar="P",
        help="draw from the likeliest words that make up P, 1: all",
    )
    parser.add_argument(
        "--fallback-mass",
        type=float,
        metavar="P",
        help="where the K hold less than P, draw from a nucleus; 0 is off",
    )
    parser.add_argument(
        "--fallback-top-p", type=float, metavar="P", help="the nucleus of --fallback-mass"
    )
    parser.add_argument("--repetition-penalty", type=float, metavar="X", help="1 is off")
    parser.add_argument(
        "--repetition-window", type=int, metavar="N", help="penalise the last N tokens only"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the random numbers")
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="A",
        help="with --beams: log-probability / length ** A",
    )
    parser.add_argument(
        "--n-best", type=int, metavar="N", help="with --beams: print the N best (default 1)"
    )
    parser.add_argument(
        "--slide", choices=("half", "one"), help="how the window moves past the context"
    )
    parser.add_argument(
        "--step",
        choices=("plain", "compiled", "auto"),
        help="default: compiled where that is ready and the ids stay",
    )
    parser.add_argument(
        "--precision", choices=("fp32", "bf16", "int8", "auto"), help="of weights and products"
    )
    parser.add_argument(
        "--no-cache", action="store_true", help="without the KV cache: same text, slower"
    )
    parser.add_argument(
        "--log-probs", action="store_true", help="then each token's log-probability, in nats"
    )


ATTENTION_EXAMPLES = """\
  tinylm attention "the cat sat on the mat" -o cat.png
  tinylm attention "the cat sat on the mat" -o head.svg --layer 1 --head 3
  tinylm attention "the cat sat on the mat" -o early.png --epoch 0.0627      as in models/moments
"""


def _add_attention(commands: Any) -> None:
    parser = _command(commands, "attention", ATTENTION_EXAMPLES)
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="picture to write, .png or .svg"
    )
    parser.add_argument(
        "--layer", type=int, metavar="N", help="one layer, counted from 1 (default: all)"
    )
    parser.add_argument(
        "--head", type=int, metavar="N", help="one head, counted from 1 (default: all)"
    )
    parser.add_argument(
        "--epoch",
        type=float,
        metavar="E",
        help="the weights kept after so many epochs (default: the last ones)",
    )
    _add_model_options(parser, uses=True)


LAB_EXAMPLES = """\
  tinylm lab
  tinylm lab -o story.html --models out/my-model    a run's models/ or an export
"""


def _add_lab(commands: Any) -> None:
    parser = _command(commands, "lab", LAB_EXAMPLES)
    parser.add_argument(
        "-o", "--output", default="lab.html", metavar="FILE", help="the page (default %(default)s)"
    )
    parser.add_argument(
        "--weights",
        choices=("int8", "float32"),
        default="int8",
        help="how the page holds them (default %(default)s)",
    )
    _add_model_options(parser, uses=True)


DESCRIBE_EXAMPLES = """\
  tinylm describe                                   after `dvc repro vocab`
  tinylm describe --vocab-size 15000 --width 300
  tinylm describe --times                           where the time of a mini-batch goes
"""


def _add_describe(commands: Any) -> None:
    parser = _command(commands, "describe", DESCRIBE_EXAMPLES)
    parser.add_argument(
        "--vocab", default=paths.TOKENIZER, metavar="FILE", help="tokenizer (default %(default)s)"
    )
    parser.add_argument(
        "--vocab-size", type=int, metavar="V", help="number of ids, in place of the tokenizer's"
    )
    parser.add_argument(
        "--width", type=int, metavar="D", help="width, in place of embedding.width of params.yaml"
    )
    parser.add_argument(
        "--times",
        action="store_true",
        help="measure each part of a mini-batch, beside its operations",
    )


CHECK_NOTES = """\
Stories are read, split and encoded as the stages will do it, and held against what each later stage needs. Of a large
corpus only the beginning is read. `make repro` does this first; where nothing was wrong and nothing changed since,
--quiet does it only once."""
CHECK_EXAMPLES = """\
  tinylm check && dvc repro
"""
PRESET_EXAMPLES = """\
  tinylm preset --list
  tinylm preset storybook
  tinylm preset word-50k --hub                      with TinyStories from the Hugging Face hub
  tinylm preset word-50k --force                    over a params.yaml that was edited by hand
"""


def _add_preset(commands: Any) -> None:
    parser = _command(commands, "preset", PRESET_EXAMPLES)
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument(
        "--force", action="store_true", help="also where params.yaml was edited by hand"
    )
    parser.add_argument(
        "--hub",
        action="store_true",
        help="with its data from the Hugging Face hub, not from a folder",
    )
    parser.add_argument(
        "--list", action="store_true", help="name the presets; * marks the one in params.yaml"
    )


def _add_exchange(commands: Any) -> None:
    there = _command(commands, "export", export.EXPORT_EXAMPLES, export.EXPORT_NOTES)
    back = _command(commands, "import", export.IMPORT_EXAMPLES)
    back.set_defaults(run=export.run_import)
    export.add_export(there)
    export.add_import(back)
    _add_model_options(there, uses=True)
    _add_model_options(back)


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    listed = "\n".join(f"  {name:9}  {purpose}" for name, purpose in PURPOSES.items())
    parser = Parser(
        prog="tinylm",
        description="A small laboratory for language models. `dvc repro` runs the pipeline.",
        epilog=f"commands:\n{listed}\n\n`tinylm COMMAND --help` shows a command's options and examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and end")
    commands = parser.add_subparsers(metavar="COMMAND", help="one of those below")
    _add_generate(commands)
    _add_attention(commands)
    _add_lab(commands)
    _add_describe(commands)
    check = _command(commands, "check", CHECK_EXAMPLES, CHECK_NOTES)
    check.add_argument("--quiet", action="store_true", help="print problems, notes and one line")
    _add_preset(commands)
    sweep.add_options(_command(commands, "sweep", sweep.EXAMPLES, sweep.NOTES))
    publish.add_options(_command(commands, "publish", publish.EXAMPLES, publish.NOTES))
    handin.add_options(_command(commands, "handin", handin.EXAMPLES, handin.NOTES))
    compare.add_options(_command(commands, "compare", compare.EXAMPLES, compare.NOTES))
    plan.add_options(_command(commands, "plan", plan.EXAMPLES, plan.NOTES))
    _add_exchange(commands)
    return parser


def only_prints(arguments: Arguments) -> bool:
    """Whether printing is all that the command does: it writes and sends nothing, and its exit code judges nothing."""
    asked = vars(arguments)
    if arguments.command == "compare":
        return not (asked["json"] or asked["html"])
    return arguments.command in ("generate", "describe", "plan") or any(
        asked.get(option) not in (None, False) for option in ("list", "table", "status")
    )


def _check_folder(arguments: Arguments) -> None:
    """Raise InputError if the command is about the pipeline and was started below its folder, or far from any."""
    here, command = Path.cwd(), arguments.command
    if command in ANYWHERE:
        return
    if not Path(PARAMS_FILE).exists():
        for above in here.parents:
            if (above / PARAMS_FILE).is_file() and (above / "dvc.yaml").is_file():
                raise InputError(
                    f"{here}: no {PARAMS_FILE} here; tinylm {command} works in the pipeline's folder: cd {above}"
                )
    if command in IN_A_CLONE and not vars(arguments).get("list") and not Path("dvc.yaml").is_file():
        raise InputError(
            f"{here}: no dvc.yaml here, so this is not a clone of tinylm; cd into the clone"
        )


def _open_streams() -> None:
    """Replace undecodable input, so it stops no command."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr, flush=True)


def _run(words: Sequence[str] | None) -> None:
    _open_streams()
    try:
        arguments = make_parser().parse_args(words)
    finally:
        sys.stdout.flush()  # of --help: here a closed pipe is still seen by `guard`
    if "command" not in arguments:
        make_parser().print_help()
        return
    _check_folder(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _show_warning
        arguments.run(arguments)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, see `guard`."""
    return guard(lambda: _run(words), prints=True)  # as --help does
