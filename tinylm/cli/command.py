"""The command `tinylm`: find one of its commands, read its options, run it.

Each command is a module of this folder. Its docstring begins with `tinylm NAME: ` and its purpose,
for the list of commands. It has

- NEEDS: what it needs of the current folder: NOTHING, PARAMS or CLONE;
- NOTES and EXAMPLES: shown by its --help;
- add_arguments(parser): adds its arguments to its parser;
- run(arguments): carries it out. Raises InputError for bad input.

Only the module of the command that runs is imported, and each module imports what it computes with
when it runs, so that help is quick.
"""

import argparse
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import tinylm
from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.host.command import Parser, guard

NAMES = (
    "generate",
    "attention",
    "lab",
    "describe",
    "check",
    "preset",
    "publish",
    "handin",
    "sweep",
    "compare",
    "export",
    "exercise",
)
NOTHING, PARAMS, CLONE = "nothing", "params.yaml", "a clone"  # what a command needs around it


def find(name: str) -> ModuleType:
    """The module of a command."""
    return importlib.import_module(f"tinylm.cli.{name}")


def purpose(name: str) -> str:
    """What a command is for, from the first line of its module."""
    first_line = (find(name).__doc__ or "").splitlines()[0]
    return first_line.removeprefix(f"tinylm {name}: ").removesuffix(".")


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of what follows the command's name."""
    command = find(name)
    parser = Parser(
        prog=f"tinylm {name}",
        description=f"{purpose(name)}\n\n{command.NOTES}".strip(),
        epilog=f"examples:\n{command.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser


def help_text() -> str:
    """What `tinylm --help` prints."""
    lines = ["usage: tinylm [--version] COMMAND ...", ""]
    lines += ["A small laboratory for language models. `dvc repro` runs the pipeline.", ""]
    lines += ["commands:", *(f"  {name:9}  {purpose(name)}" for name in NAMES), ""]
    lines += ["`tinylm COMMAND --help` shows a command's options and examples."]
    return "\n".join(lines)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Where the model is: a run's folder or an export, which holds its own tokenizer."""
    parser.add_argument(
        "--models",
        default=paths.MODELS,
        metavar="FOLDER",
        help="the trained model, or an export (default %(default)s)",
    )
    parser.add_argument(
        "--vocab",
        metavar="FILE",
        help="its tokenizer (default: the export's, or data/vocab/tokenizer.json next to FOLDER)",
    )


def number(kind: type, low: float, high: float) -> Callable[[str], Any]:
    """For add_argument's `type`: a whole or decimal number from `low` to `high`."""

    def read(text: str) -> Any:
        allowed = f"allowed: {low:,} to {high:,}"
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}; {allowed}") from None
        if not low <= value <= high:  # NaN too
            raise argparse.ArgumentTypeError(f"{text}; {allowed}")
        return value

    return read


def check_folder(name: str, needs: str) -> None:
    """Raise InputError if the current folder lacks what the command `name` needs."""
    here = Path.cwd()
    if needs == NOTHING:
        return
    if not Path(PARAMS_FILE).exists():
        for above in here.parents:
            if (above / PARAMS_FILE).is_file() and (above / "dvc.yaml").is_file():
                raise InputError(
                    f"{here}: no {PARAMS_FILE} here; tinylm {name} works in the pipeline's folder: "
                    f"cd {above}"
                )
    if needs == CLONE and not Path("dvc.yaml").is_file():
        raise InputError(
            f"{here}: no dvc.yaml here, so this is not a clone of tinylm; cd into the clone"
        )


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr, flush=True)


def _run(words: Sequence[str]) -> None:
    if isinstance(sys.stdin, io.TextIOWrapper):  # undecodable input stops no command
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    name = words[0] if words else "--help"
    if name in ("-h", "--help"):
        print(help_text())
        return
    if name == "--version":
        print(f"tinylm {tinylm.__version__}")
        return
    if name not in NAMES:
        raise InputError(f"tinylm: no command {name!r}; allowed: {', '.join(NAMES)}")
    arguments = parser_of(name).parse_args(words[1:])
    command = find(name)
    check_folder(name, command.NEEDS)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _show_warning
        command.run(arguments)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, see `guard`."""
    given = sys.argv[1:] if words is None else words
    return guard(lambda: _run(given), prints=True)
