"""The command `tinylm`: find one of its commands, read its options, run it.

Each command is a module of this folder. Its docstring begins with `tinylm NAME: ` and its purpose;
what follows are notes for its --help. It has

- EXAMPLES: shown by its --help;
- add_arguments(parser): adds its arguments to its parser;
- run(arguments): carries it out. Raises InputError for bad input.

Each module imports what it computes with when it runs, so that help is quick.
"""

import argparse
import importlib
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tinylm
from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.host.command import Parser, guard

PURPOSE = "A laboratory for small language models. `dvc repro` runs the pipeline."
NAMES = (
    "generate", "attention", "lab", "describe", "check", "preset",
    "publish", "handin", "sweep", "compare", "export", "exercise",
)  # fmt: skip


def add_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Add all commands to the parser of `tinylm`; returns the parser of each."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name in NAMES:
        command = importlib.import_module(f"tinylm.cli.{name}")
        purpose, _, notes = (command.__doc__ or "").partition("\n")
        purpose = purpose.removeprefix(f"tinylm {name}: ").removesuffix(".")
        below = commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose}\n{notes}".strip(),
            epilog=f"examples:\n{command.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(below)
        below.set_defaults(run=command.run)
    return commands.choices


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Where the model is: a run's folder or an export, which holds its own tokenizer."""
    add = parser.add_argument
    models = "the trained model, or an export (default %(default)s)"
    add("--models", default=paths.MODELS, metavar="FOLDER", help=models)
    vocab = "its tokenizer (default: the export's, or data/vocab/tokenizer.json next to FOLDER)"
    add("--vocab", metavar="FILE", help=vocab)


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


def check_clone() -> None:
    """Raise InputError unless the current folder is a clone of the project."""
    if not Path("dvc.yaml").is_file():
        raise InputError(f"{Path.cwd()}: no dvc.yaml here; cd into the clone of tinylm")


def _run(words: Sequence[str]) -> None:
    if isinstance(sys.stdin, io.TextIOWrapper):  # undecodable input stops no command
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    parser = Parser(prog="tinylm", description=PURPOSE, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"tinylm {tinylm.__version__}")
    commands = add_commands(parser)
    arguments, unknown = parser.parse_known_args(words or ["--help"])
    if unknown:  # the command's own parser names its help
        command = commands.get(arguments.command, parser)
        command.error(f"unrecognized arguments: {' '.join(unknown)}")
    arguments.run(arguments)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, see `guard`."""
    given = sys.argv[1:] if words is None else words
    return guard(lambda: _run(given), prints=True)
