"""The command `tinylm`: find one of its commands, read its options, run it.

Each command is a module of this folder. Its docstring is the text of its --help, and it has

- EXAMPLES: shown at the end of its --help;
- add_arguments(parser): adds its arguments to its parser;
- run(arguments): carries it out. Raises InputError for bad input.

Each module imports what it computes with when it runs, so that help is quick.
"""

import argparse
import importlib
import inspect
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tinylm
from tinylm.base import paths
from tinylm.base.command import Parser, run_command
from tinylm.base.config import InputError

PURPOSE = "Train, take apart and rebuild a small language model. `make repro` trains the first one."
COMMANDS = {
    "Try the model": {
        "generate": "continue a text",
        "truth": "compare the model with the generator of its stories, word by word",
        "lab": "write an HTML page that runs the model",
    },
    "Inspect": {
        "describe": "print the model that params.yaml describes: parts, parameters, operations",
        "check": "check params.yaml, the data and this machine before a run",
    },
    "Learn": {
        "exercise": "write parts of a model yourself, or find the bug; each is graded",
    },
    "Experiment": {
        "preset": "write a preset into params.yaml",
        "sweep": "run many settings and seeds as DVC experiments, here or on a cluster",
        "compare": "compare runs: what differs, and whether it is significant",
    },
    "Share": {
        "export": "write the model for transformers or llama.cpp",
        "publish": "publish the model, its card and its report on the Hugging Face hub",
        "handin": "pack code, report and results into one zip file",
    },
}


def overview() -> str:
    """What `tinylm --help` prints: every command in one line."""
    lines = [PURPOSE]
    for group, commands in COMMANDS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<10} {purpose}" for name, purpose in commands.items()]
    return "\n".join([*lines, "", 'Start with: tinylm generate "once upon a time"'])


def add_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Add all commands to the parser of `tinylm`; returns the parser of each."""
    commands = parser.add_subparsers(
        prog="tinylm", metavar="COMMAND", dest="command", help=argparse.SUPPRESS
    )
    for group in COMMANDS.values():
        for name in group:
            module = importlib.import_module(f"tinylm.cli.{name}")
            below = commands.add_parser(
                name,
                description=inspect.getdoc(module),
                epilog=f"examples:\n{module.EXAMPLES}",
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
            module.add_arguments(below)
            below.set_defaults(run=module.run)
    return commands.choices


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Where the model is: a run's folder or an export, which has its own tokenizer."""
    add = parser.add_argument
    models = "the trained model, or an export (default %(default)s)"
    add("--models", default=paths.MODELS, metavar="FOLDER", help=models)
    vocab = "its tokenizer (default: the export's, or data/vocab/tokenizer.json next to FOLDER)"
    add("--vocab", metavar="FILE", help=vocab)


def number_between(kind: type, low: float, high: float) -> Callable[[str], Any]:
    """For add_argument's `type`: a whole or decimal number from `low` to `high`."""

    def read(text: str) -> Any:
        problem = f"expected a number from {low:,} to {high:,}, got {text!r}"
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(problem) from None
        if not low <= value <= high:  # NaN too
            raise argparse.ArgumentTypeError(problem)
        return value

    return read


def check_clone() -> None:
    """Raise InputError unless the current folder is a clone of the project."""
    if not Path("dvc.yaml").is_file():
        raise InputError(f"{Path.cwd()} has no dvc.yaml; cd into the clone of tinylm")


def _run(words: Sequence[str]) -> None:
    if isinstance(sys.stdin, io.TextIOWrapper):  # undecodable input stops no command
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    parser = Parser(
        prog="tinylm",
        usage="tinylm COMMAND ...",
        description=overview(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tinylm {tinylm.__version__}")
    add_commands(parser)
    arguments = parser.parse_args(words or ["--help"])
    if arguments.command is None:
        parser.error("expected a command")
    arguments.run(arguments)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, see `run_command`."""
    given = sys.argv[1:] if words is None else words
    return run_command(lambda: _run(given), prints=True)
