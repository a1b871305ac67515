"""The command `tinylm`: find one of its commands, read its options, run it.

Each command is a module of this folder with a `COMMAND`. Only the module of the command that runs
is imported, and each module imports what it computes with when it runs, so that help is quick.
"""

import argparse
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
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
)
NOTHING, PARAMS, CLONE = "nothing", "params.yaml", "a clone"  # what a command needs around it


@dataclass(frozen=True)
class Command:
    """One command of tinylm.

    purpose: half a sentence, for the list of commands.
    needs: of the current folder; NOTHING, PARAMS or CLONE.
    add_arguments: adds the command's arguments to its parser.
    run: carries it out. Raises InputError for bad input.
    notes, examples: shown by its --help.
    """

    name: str
    purpose: str
    needs: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    examples: str
    notes: str = ""

    def parser(self) -> argparse.ArgumentParser:
        """The parser of what follows the command's name."""
        purpose = f"{self.purpose[0].upper()}{self.purpose[1:]}."
        parser = Parser(
            prog=f"tinylm {self.name}",
            description=f"{purpose}\n\n{self.notes}".strip(),
            epilog=f"examples:\n{self.examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_arguments(parser)
        return parser


def find(name: str) -> Command:
    """The command of this name, its module imported."""
    command: Command = importlib.import_module(f"tinylm.cli.{name}").COMMAND
    return command


def help_text() -> str:
    """What `tinylm --help` prints."""
    lines = ["usage: tinylm [--version] COMMAND ...", ""]
    lines += ["A small laboratory for language models. `dvc repro` runs the pipeline.", ""]
    lines += ["commands:", *(f"  {name:9}  {find(name).purpose}" for name in NAMES), ""]
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
        help="its tokenizer (default: the export's, or data/vocab/tokenizer.json beside FOLDER)",
    )


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
    first = words[0] if words else "--help"
    if first in ("-h", "--help"):
        print(help_text())
        return
    if first == "--version":
        print(f"tinylm {tinylm.__version__}")
        return
    if first not in NAMES:
        raise InputError(f"tinylm: no command {first!r}; allowed: {', '.join(NAMES)}")
    command = find(first)
    arguments = command.parser().parse_args(words[1:])
    check_folder(command.name, command.needs)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _show_warning
        command.run(arguments)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, see `guard`."""
    given = sys.argv[1:] if words is None else words
    return guard(lambda: _run(given), prints=True)
