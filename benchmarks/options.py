"""What `make bench` and `make growth` can be told, and the contenders that they start."""

import argparse
import contextlib
import dataclasses
import functools
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.interleaved import ROOT, Contender
from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.base.paths import output_file
from tinylm.host.runtime import MOST_THREADS
from tinylm.host.workers import cores

CLONES = {
    "nanogpt": "model.py",
    "nanochat": "nanochat/gpt.py",
    "llama2c": "run.c",
}  # each with a file of it
PEERS = ("transformers", "tokenizers", "ctranslate2", "fasttext", "ftfy", "llama_cpp")


class Entry(NamedTuple):
    """A contender to start: a function of `contenders` as `module:function`, and its setup.

    peer: whether it runs in the peers' environment; needs: the package without which it is left out.
    """

    target: str
    setup: Mapping[str, Any]
    peer: bool = False
    needs: str = ""


@dataclasses.dataclass(frozen=True)
class Options:
    """trials: of each contender; size: full | tiny (does it run at all?); work: folder of what is made once and kept.

    nanogpt, nanochat, llama2c: clones that the user named; python: the interpreter of the peers' environment; inline:
    contenders live in this process, for tests.
    """

    trials: int = 5
    size: str = "full"
    threads: int = 2
    work: Path = Path(".bench")
    results: Path = Path("benchmarks/results.json")
    page: Path = Path("docs/reference/benchmarks.md")
    nanogpt: Path | None = None
    nanochat: Path | None = None
    llama2c: Path | None = None
    python: str = sys.executable
    inline: bool = False

    @property
    def tiny(self) -> bool:
        return self.size == "tiny"

    def contender(self, name: str, entry: Entry) -> Contender:
        """One contender, prepared."""
        self.work.mkdir(parents=True, exist_ok=True)
        python = self.python if entry.peer else sys.executable
        target = f"benchmarks.contenders.{entry.target}"
        setup = {"threads": self.threads} | dict(entry.setup)
        return Contender(name, target, setup, python, self.inline, own=not entry.peer)

    @contextlib.contextmanager
    def contenders(self, entries: Mapping[str, Entry]) -> Iterator[dict[str, Contender]]:
        """All contenders, prepared; peers whose packages are missing are left out and named."""
        missing = {entry.needs for entry in entries.values()} - versions(self.python).keys() - {""}
        for peer in sorted(missing):
            print(f"{peer} is not installed for {self.python}: it was not measured", flush=True)
        wanted = {name: entry for name, entry in entries.items() if entry.needs not in missing}
        prepared = {}
        with contextlib.ExitStack() as stack:
            for number, (name, entry) in enumerate(wanted.items(), start=1):
                print(f"preparing {name} ({number} of {len(wanted)})", flush=True)
                prepared[name] = stack.enter_context(self.contender(name, entry))
            yield prepared


_VERSIONS = """
import importlib.metadata, importlib.util, json, sys
known = importlib.metadata.packages_distributions()
found = (name for name in sys.argv[1:] if importlib.util.find_spec(name))
print(json.dumps({name: importlib.metadata.version(known[name][0]) for name in found}))
"""


@functools.cache
def versions(python: str) -> dict[str, str]:
    """Versions of the peers in the environment of this interpreter."""
    made = subprocess.run([python, "-c", _VERSIONS, *PEERS], capture_output=True, text=True)
    return json.loads(made.stdout) if made.returncode == 0 else {}


def add_options(parser: argparse.ArgumentParser, results: Path = Options.results) -> None:
    """The options of every line; `results`: where full runs are kept, which a tiny one leaves alone."""
    defaults = Options(results=results)
    parser.set_defaults(full_results=results)
    parser.add_argument(
        "--turns", dest="trials", metavar="N", type=count, default=defaults.trials,
        help="trials of each contender (default %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--size", choices=("full", "tiny"), default="full", help="tiny: does it run at all?"
    )
    parser.add_argument("--threads", type=count, default=cores(), help="default: all cores")
    for name in ("work", "results", "page"):
        parser.add_argument(
            f"--{name}", type=Path, default=getattr(defaults, name), help="default %(default)s"
        )


def above_zero(text: str) -> float:
    """A finite number above 0, for argparse."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}; allowed: a number above 0")
    return value


def count(text: str) -> int:
    """A whole number from 1, also written as 5e5, for argparse."""
    value = float(text)
    if not (1 <= value < 1e15 and value.is_integer()):
        raise argparse.ArgumentTypeError(f"{text}; allowed: a whole number >= 1")
    return int(value)


def clone(name: str, holds: str) -> Path | None:
    """The folder that an environment variable names; None if it is not set. InputError if it lacks the file `holds`."""
    value = os.environ.get(name)
    if not value:
        return None
    if not (Path(value) / holds).is_file():
        raise InputError(
            f"{name}={value}: holds no {holds}; allowed: a clone of the peer's repository"
        )
    return Path(value).absolute()


def _check_outputs(results: Path, page: Path) -> None:
    """InputError, before anything is measured, for files that are not those of benchmarks."""
    output_file("page", page)
    if output_file("results", results) == page.resolve():
        raise InputError(f"--results and --page are both {page}; allowed: two files")
    try:
        lines = read_json(results).values() if results.exists() else ()
        ours = all("conditions" in line for line in lines)
    except (InputError, AttributeError, TypeError):  # no JSON, no object, or one of something else
        ours = False
    if not ours:
        raise InputError(
            f"--results {results}: not the results of a benchmark; allowed: these, or a new file"
        )


def options_of(arguments: argparse.Namespace) -> Options:
    """Options from the command line and the environment (NANOGPT, NANOCHAT, LLAMA2C, PEERS_PYTHON)."""
    own = ROOT / ".venv-peers/bin/python"
    python = os.environ.get("PEERS_PYTHON") or (str(own) if own.exists() else sys.executable)
    given = {
        name: getattr(arguments, name)
        for name in ("trials", "size", "threads", "work", "results", "page")
    }
    _check_outputs(given["results"], given["page"])
    if given["threads"] > MOST_THREADS:
        raise InputError(f"--threads {given['threads']}; allowed: 1 to {MOST_THREADS}")
    if given["work"].exists() and not given["work"].is_dir():
        raise InputError(f"--work {given['work']}: a file; allowed: a folder, or a new one")
    if (
        arguments.size == "tiny" and arguments.results == arguments.full_results
    ):  # never mixed with the real ones
        given["results"] = arguments.work / "results-tiny.json"
    clones: dict[str, Any] = {name: clone(name.upper(), holds) for name, holds in CLONES.items()}
    return Options(**given, **clones, python=python)


def known(names: list[str], allowed: Mapping[str, Any], kind: str) -> list[str]:
    """The names, or all if none is given. Raises InputError if one is unknown."""
    unknown = sorted(set(names) - set(allowed))
    if unknown:
        raise InputError(f"{' '.join(unknown)}: no such {kind}; allowed: {' '.join(allowed)}")
    return names or list(allowed)
