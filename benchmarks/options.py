"""The options of `make bench`, and the contenders that a line starts."""

import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.frame import ROOT, Contender
from tinylm.base.config import InputError
from tinylm.host.workers import cores

PEERS = ("transformers", "ctranslate2", "llama_cpp", "playwright")
RESULTS = Path("benchmarks/results.json")


class Entry(NamedTuple):
    """A contender to start: a function of `contenders` as `module:function`, and its setup.

    needs: the package of the peers' environment in which it runs; "" for the environment of tinylm.
    """

    target: str
    setup: Mapping[str, Any]
    needs: str = ""


@dataclass(frozen=True)
class Options:
    """trials: of each contender; tiny: sizes at which a line only shows that it runs; work: what is kept between runs.

    nanogpt: a clone of nanoGPT; python: the interpreter of the peers' environment; horizons: tokens of line `loss`.
    """

    trials: int = 5
    tiny: bool = False
    threads: int = 2
    work: Path = Path(".bench")
    results: Path = RESULTS
    nanogpt: Path | None = None
    python: str = sys.executable
    horizons: tuple[int, ...] = (500_000, 1_000_000, 2_000_000, 4_000_000)

    def contender(self, name: str, entry: Entry) -> Contender:
        """One contender, prepared."""
        self.work.mkdir(parents=True, exist_ok=True)
        python = self.python if entry.needs else sys.executable
        target = f"benchmarks.contenders.{entry.target}"
        setup = {"threads": self.threads, **entry.setup}
        return Contender(name, target, setup, python, is_ours=target.endswith(":ours"))

    @contextlib.contextmanager
    def contenders(self, entries: Mapping[str, Entry]) -> Iterator[dict[str, Contender]]:
        """All contenders, prepared; those whose packages are missing are left out and named."""
        prepared = {}
        with contextlib.ExitStack() as stack:
            for name, entry in entries.items():
                if entry.needs and entry.needs not in versions(self.python):
                    print(f"{name}: {entry.needs} is not installed for {self.python}", flush=True)
                    continue
                print(f"preparing {name}", flush=True)
                prepared[name] = stack.enter_context(self.contender(name, entry))
            yield prepared


_VERSIONS = """
import importlib.metadata, importlib.util, json, sys
names = importlib.metadata.packages_distributions()
installed = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
print(json.dumps({name: importlib.metadata.version(names[name][0]) for name in installed}))
"""


@functools.cache
def versions(python: str) -> dict[str, str]:
    """Versions of torch and of the peers in the environment of this interpreter."""
    command = [python, "-c", _VERSIONS, "torch", *PEERS]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def count(text: str) -> int:
    """A whole number from 1, also written as 5e5, for argparse."""
    value = float(text)
    if not (1 <= value < 1e15 and value.is_integer()):
        raise argparse.ArgumentTypeError(f"{text}; allowed: a whole number >= 1")
    return int(value)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every line."""
    parser.add_argument("--trials", type=count, default=Options.trials, help="default %(default)s")
    parser.add_argument("--tiny", action="store_true", help="show only that a line runs")
    parser.add_argument("--threads", type=count, default=cores(), help="default: all cores")
    parser.add_argument("--work", type=Path, default=Options.work, help="default %(default)s")
    parser.add_argument("--results", type=Path, help=f"default {RESULTS}; of --tiny in --work")
    parser.add_argument("--horizons", type=count, nargs="+", help="tokens of line loss")


def _nanogpt() -> Path | None:
    folder = os.environ.get("NANOGPT")
    if not folder:
        return None
    if not (Path(folder) / "model.py").is_file():
        raise InputError(f"NANOGPT={folder}: no model.py there; allowed: a clone of nanoGPT")
    return Path(folder).absolute()


def options_of(arguments: argparse.Namespace) -> Options:
    """Options from the command line and from NANOGPT and PEERS_PYTHON. Raises InputError."""
    environment = ROOT / ".venv-peers/bin/python"
    default = str(environment) if environment.exists() else sys.executable
    tiny_results = arguments.work / "results-tiny.json"
    return Options(
        trials=arguments.trials,
        tiny=arguments.tiny,
        threads=arguments.threads,
        work=arguments.work,
        results=arguments.results or (tiny_results if arguments.tiny else RESULTS),
        nanogpt=_nanogpt(),
        python=os.environ.get("PEERS_PYTHON", default),
        horizons=tuple(arguments.horizons or Options.horizons),
    )
