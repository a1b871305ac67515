"""The frame of every benchmark: contenders in their own processes, interleaved trials, rows, and their JSON record."""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.serve import OWN
from tinylm.base.files import read_json, write_json
from tinylm.host.command import CommandFailed

ROOT = Path(__file__).parents[1]
COLUMNS = ("line", "measured", "tinylm", "compared with", "ratio")
_SHOWN = 400  # characters of the last output of a process that died

Spread = dict[str, float]  # median, low, high, trials


class Contender:
    """One contender, prepared in its own process; `measure` makes one trial.

    target: `module:function` for `serve`; python: the interpreter of its environment; is_ours: whether its threads are set
    up as our commands set them up. Raises CommandFailed if it cannot be prepared or a trial fails.
    """

    def __init__(
        self, name: str, target: str, setup: Mapping[str, Any], python: str, is_ours: bool
    ) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process lives)
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.serve", target, *([OWN] if is_ours else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        self._request(setup)

    def _request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            pass
        answer = json.loads(line) if line else {"error": self._last_output()}
        if "error" in answer:
            self.__exit__()
            raise CommandFailed(f"{self.name}: {answer['error']}")
        return answer

    def _last_output(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        output = self._log.read().decode(errors="replace").strip()
        return f"its process ended with code {code}: {output[-_SHOWN:]}"

    def measure(self, **request: Any) -> dict[str, Any]:
        """One trial: the answer of the contender's step."""
        return self._request(request)

    def __enter__(self) -> "Contender":
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()


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


def keep(
    path: Path, line: str, rows: Sequence[Row], conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """Replace a line's earlier rows in the JSON record; returns the whole record."""
    record = read_json(path) if path.exists() else {}
    record[line] = {
        "conditions": dict(conditions),
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    write_json(path, record)
    return record


def _number(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _with_range(values: Spread | None, unit: str) -> str:
    if values is None:
        return "not reached"
    low, high = _number(values["low"]), _number(values["high"])
    around = "" if low == high else f" ({low} to {high})"
    return f"{_number(values['median'])}{around} {unit}"


def table(record: Mapping[str, Any]) -> str:
    """A record as a Markdown table: medians, with the lowest and the highest trial."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|---|---|---|"]
    for name, line in record.items():
        for row in line["rows"]:
            peer, ratio = "–", "–"
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
        raise CommandFailed(f"{' '.join(command)}: {done.stderr.strip()[-_SHOWN:]}")
