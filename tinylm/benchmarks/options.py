"""What every line of `make bench` can be told, and how one runs by itself."""

import argparse
import dataclasses
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.benchmarks import record
from tinylm.benchmarks.interleaved import ROOT, Side
from tinylm.host.command import guard
from tinylm.host.runtime import conditions
from tinylm.host.workers import cores

PEERS = ("transformers", "tokenizers", "ctranslate2", "fasttext", "ftfy")
LINES = (
    "training", "loss", "one_prompt", "twenty_prompts", "start", "corpus", "vectors", "checkpointing", "repro",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options:
    """turns: measurements of each side; size: full | tiny (a smoke test); work: what is made once and kept.

    nanogpt, llama2c: clones that the user named; python: the interpreter of the peers' environment; inline: the
    sides live in this process, for tests.
    """

    turns: int = 5
    size: str = "full"
    threads: int = 2
    work: Path = Path(".bench")
    results: Path = Path("docs/benchmarks.json")
    page: Path = Path("docs/reference/benchmarks.md")
    nanogpt: Path | None = None
    llama2c: Path | None = None
    python: str = sys.executable
    inline: bool = False

    @property
    def tiny(self) -> bool:
        return self.size == "tiny"

    def has(self, peer: str) -> bool:
        """Whether the peers' environment holds a package; where not, a line says what is left out."""
        found = peer in versions(self.python)
        if not found:
            print(f"{peer} is not installed for {self.python}: it was not measured", flush=True)
        return found

    def side(self, name: str, target: str, setup: dict[str, Any], peer: bool = False) -> Side:
        """One side of a comparison; `target` is a function of `sides`, a peer's runs in the peers' environment."""
        python = self.python if peer else sys.executable
        self.work.mkdir(parents=True, exist_ok=True)
        setup = {"threads": self.threads} | setup
        return Side(name, f"tinylm.benchmarks.contenders.{target}", setup, python, self.inline)


def clone(name: str) -> Path | None:
    """The folder that an environment variable names; None where it is not set. InputError where it is not there."""
    value = os.environ.get(name)
    if not value:
        return None
    if not Path(value).is_dir():
        raise InputError(f"{name}={value}: no such folder; allowed: a clone of the peer's repository")
    return Path(value).absolute()


_VERSIONS = """
import importlib.metadata, json, sys
found = {name: importlib.metadata.version(name) for name in sys.argv[1:] if importlib.util.find_spec(name)}
print(json.dumps(found))
"""


@functools.cache
def versions(python: str) -> dict[str, str]:
    """Versions of the peers in the environment of this interpreter."""
    made = subprocess.run([python, "-c", "import importlib.util" + _VERSIONS, *PEERS], capture_output=True, text=True)
    return json.loads(made.stdout) if made.returncode == 0 else {}


def add_options(parser: argparse.ArgumentParser, results: Path = Options.results) -> None:
    """The options of every line; `results`: where full runs are kept, which a tiny one leaves alone."""
    defaults = Options(results=results)
    parser.set_defaults(full_results=results)
    parser.add_argument("--turns", type=int, default=defaults.turns, help="of each side (default %(default)s)")
    parser.add_argument("--size", choices=("full", "tiny"), default="full", help="tiny: does it run at all?")
    parser.add_argument("--threads", type=int, default=cores(), help="default: all cores")
    for name in ("work", "results", "page"):
        parser.add_argument(f"--{name}", type=Path, default=getattr(defaults, name), help="default %(default)s")


def options_of(arguments: argparse.Namespace) -> Options:
    """Options from the command line and the environment (NANOGPT, LLAMA2C, PEERS_PYTHON)."""
    own = ROOT / ".venv-peers/bin/python"
    python = os.environ.get("PEERS_PYTHON") or (str(own) if own.exists() else sys.executable)
    names = [field.name for field in dataclasses.fields(Options)]
    given = {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}
    if arguments.size == "tiny" and arguments.results == arguments.full_results:  # never among the real ones
        given["results"] = arguments.work / "results-tiny.json"
    return Options(**given, nanogpt=clone("NANOGPT"), llama2c=clone("LLAMA2C"), python=python)


def run_line(name: str, run: Callable[[Options], Sequence[record.Row]], options: Options) -> None:
    """Run one line, print and keep what it found, and write the page anew where there is one."""
    told = conditions(None, options.threads) | {"load": record.load_average(), "turns": options.turns}
    if options.tiny:
        told |= {"size": "tiny: no figure of this line means anything"}
    print(f"{name}: {record.in_words(told)}", flush=True)
    rows = run(options)
    told |= {
        "load_after": record.load_average(),
        "peers": record.in_words(versions(options.python)),
        "written": record.stamp(),
    }
    found = record.keep(options.results, name, rows, told)
    print(record.table({name: found[name]}, [name]), flush=True)
    if options.page.exists() and not options.tiny:
        record.put(options.page, record.RESULTS, record.table(found, LINES))


def command(name: str, run: Callable[[Options], Sequence[record.Row]]) -> None:
    """The line as a command of its own: `python -m tinylm.benchmarks.NAME`; ends the process."""
    parser = argparse.ArgumentParser(prog=f"python -m tinylm.benchmarks.{name}", description=run.__doc__)
    add_options(parser)
    sys.exit(guard(lambda: run_line(name, run, options_of(parser.parse_args()))))
