"""The frame of every benchmark: contenders in their own processes, interleaved trials, rows, and their JSON record."""

import contextlib
import dataclasses
import importlib.metadata
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tinylm.base.command import CommandFailed
from tinylm.base.files import read_json, write_json
from tinylm.base.processes import cores

ROOT = Path(__file__).parents[1]
PEERS = ("ctranslate2", "llama-cpp-python")
COLUMNS = ("line", "measured", "tinylm", "compared with", "ratio")
_OUTPUT_SHOWN = 400  # last characters of the output of a command that failed

Setup = Mapping[str, Any]
Step = Callable[[Mapping[str, Any]], dict[str, Any]]  # one trial: from a request to its answer
Spread = dict[str, float]  # median, low, high, trials


@dataclasses.dataclass
class Options:
    """The options of the command; their defaults are those of `python -m benchmarks`.

    trials: of each contender. tiny: sizes at which a line only shows that it runs. work: what is kept
    between runs. nanogpt: a clone of it. horizons: training tokens of nanoGPT in line `loss`.
    """

    trials: int = 5
    tiny: bool = False
    threads: int = cores()
    work: Path = Path(".bench")
    nanogpt: Path | None = None
    horizons: Sequence[int] = (500_000, 1_000_000, 2_000_000, 4_000_000)


def versions() -> dict[str, str]:
    """The versions of the peers that are installed."""
    installed = {}
    for name in PEERS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Entry(NamedTuple):
    """A contender to start: a function of `contenders` that makes its step from a setup.

    needs: the package that it imports.
    """

    make_step: Callable[[Setup], Step]
    setup: Setup
    needs: str = ""


_steps: list[Step] = []  # in a contender's process: its step


def _prepare(make_step: Callable[[Setup], Step], setup: Setup) -> None:
    _steps.append(make_step(setup))


def _measure(request: Mapping[str, Any]) -> dict[str, Any]:
    return _steps[0](request)


class Contender:
    """One contender, prepared in its own process; `measure` makes one trial.

    Raises CommandFailed if it cannot be prepared or a trial fails.
    """

    def __init__(self, name: str, entry: Entry) -> None:
        self.name = name
        self._process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self._call(_prepare, entry.make_step, entry.setup)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._process.submit(function, *arguments).result()
        except Exception as error:
            self.__exit__()
            raise CommandFailed(f"{self.name}: {type(error).__name__}: {error}") from error

    def measure(self, **request: Any) -> dict[str, Any]:
        """One trial: the answer of the contender's step."""
        answer: dict[str, Any] = self._call(_measure, request)
        return answer

    def __enter__(self) -> "Contender":
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.shutdown()


@contextlib.contextmanager
def prepared(entries: Mapping[str, Entry]) -> Iterator[dict[str, Contender]]:
    """All contenders; those whose packages are missing are left out and named."""
    contenders = {}
    with contextlib.ExitStack() as stack:
        for name, entry in entries.items():
            if entry.needs and entry.needs not in versions():
                print(f"{name}: {entry.needs} is not installed", flush=True)
                continue
            print(f"preparing {name}", flush=True)
            contenders[name] = stack.enter_context(Contender(name, entry))
        yield contenders


def trials(
    contenders: Mapping[str, Contender], count: int, **request: Any
) -> dict[str, list[dict[str, Any]]]:
    """Every contender once per round, `count` rounds after one warm-up round; the answers by name.

    Trials are interleaved, so that other load on the machine affects all contenders alike.
    """
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    for number in range(1 + count):
        for name, contender in contenders.items():
            answer = contender.measure(**request)
            if number > 0:
                answers[name].append(answer)
    return answers


def spread(values: Iterable[float]) -> Spread:
    """Median, lowest and highest of the trials, to six digits, and the number of trials."""
    ordered = sorted(values)
    result = {"median": statistics.median(ordered), "low": ordered[0], "high": ordered[-1]}
    return {key: float(f"{value:.6g}") for key, value in result.items()} | {"trials": len(ordered)}


def rates(answers: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Spread]:
    """Tokens per second of each contender, over its trials."""
    return {
        name: spread(answer["tokens"] / answer["seconds"] for answer in answers_of_one)
        for name, answers_of_one in answers.items()
    }


def fastest(rate: Mapping[str, Spread], prefix: str) -> str:
    """The contender with the highest median whose name begins with the prefix; "" if there is none."""
    names = [name for name in rate if name.startswith(prefix)]
    return max(names, key=lambda name: rate[name]["median"], default="")


@dataclasses.dataclass(frozen=True)
class Row:
    """One result: our spread in `unit`, and that of a peer unless there is none."""

    what: str
    unit: str
    tinylm: Spread | None
    peer: Spread | None = None
    peer_name: str = ""
    note: str = ""


def compared(what: str, rate: Mapping[str, Spread], ours: str, peer: str) -> list[Row]:
    """A row that compares two contenders' tokens per second; none if the peer was not measured."""
    if peer not in rate:
        return []
    return [Row(what, "tokens/s", rate[ours], rate[peer], peer)]


def as_record(rows: Sequence[Row], conditions: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the JSON record."""
    return {"conditions": dict(conditions), "rows": [dataclasses.asdict(row) for row in rows]}


def keep(path: Path, name: str, line: Mapping[str, Any]) -> None:
    """Replace a line in the JSON record; the others stay."""
    record = read_json(path) if path.exists() else {}
    write_json(path, record | {name: line})


def _number(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _with_range(values: Spread | None, unit: str) -> str:
    if values is None:
        return "not reached"
    low = _number(values["low"])
    high = _number(values["high"])
    around = "" if low == high else f" ({low} to {high})"
    return f"{_number(values['median'])}{around} {unit}"


def table(record: Mapping[str, Any]) -> str:
    """A record as a Markdown table: medians, with the lowest and the highest trial."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|---|---|---|"]
    for name, line in record.items():
        for row in line["rows"]:
            peer = ratio = "–"
            if row["peer"] is not None:
                peer = f"{row['peer_name']}: {_with_range(row['peer'], row['unit'])}"
                if row["tinylm"] is not None:
                    ratio = _number(row["tinylm"]["median"] / row["peer"]["median"])
            what = f"{row['what']}; {row['note']}" if row["note"] else row["what"]
            ours = _with_range(row["tinylm"], row["unit"])
            lines.append(f"| `{name}` | {what} | {ours} | {peer} | {ratio} |")
    return "\n".join(lines)


def run_command(*command: str, folder: Path = ROOT) -> None:
    """Run `python -m command` in a folder, with this repository's code. Raises CommandFailed."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise CommandFailed(f"{' '.join(command)}: {done.stderr.strip()[-_OUTPUT_SHOWN:]}")
