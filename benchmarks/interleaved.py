"""Contenders measured in interleaved trials, so that other load on the machine affects all of them alike."""

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.serve import OWN, prepare
from tinylm.host.command import CommandFailed
from tinylm.host.progress import Progress, duration

ROOT = Path(__file__).parents[1]
SAID_EVERY_S = 60.0  # while one contender is waited for
_SHOWN = 400  # characters of what a process that died said

Trials = dict[str, list[dict[str, Any]]]


class Contender:
    """One contender, prepared in its own process; `measure` asks it for one trial.

    target: `module:function` for `serve`; python: the interpreter of its environment; own: whether its threads are set
    up as our commands set up theirs. With `inline` it runs in this process, for tests. Raises CommandFailed if it
    cannot be prepared or a trial fails.
    """

    def __init__(
        self,
        name: str,
        target: str,
        setup: Mapping[str, Any],
        python: str = sys.executable,
        inline: bool = False,
        own: bool = False,
    ) -> None:
        self.name = name
        self._step = prepare(target, setup) if inline else None
        if inline:
            return
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process lives)
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.serve", target, *([OWN] if own else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self._ask(setup, "prepared")

    def _ask(self, request: Mapping[str, Any], doing: str = "measured") -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            start = time.monotonic()
            while not select.select([self._process.stdout], [], [], SAID_EVERY_S)[0]:
                print(
                    f"{self.name}: being {doing} for {duration(time.monotonic() - start)}",
                    flush=True,
                )
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            answer = json.loads(line)
        else:  # the process is gone
            code = self._process.wait()
            self._log.seek(0)
            last = self._log.read().decode(errors="replace").strip()[-_SHOWN:]
            answer = {"error": f"its process ended ({code}); it said: {last}"}
        if "error" in answer:
            self.__exit__()
            raise CommandFailed(f"{self.name}: {answer['error']}")
        return answer

    def measure(self, **request: Any) -> dict[str, Any]:
        """One trial: what the contender's step answers."""
        return self._step(request) if self._step else self._ask(request)

    def __enter__(self) -> "Contender":
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        if self._step is None:
            self._process.kill()
            self._process.communicate()
            self._log.close()


def trials(
    contenders: Mapping[str, Contender], count: int, warm_up: int = 1, **request: Any
) -> Trials:
    """Every contender once per round, `count` rounds after `warm_up` rounds that do not count; answers by name."""
    answers: Trials = {name: [] for name in contenders}
    with Progress("measuring", (warm_up + count) * len(contenders), "trials") as progress:
        for number in range(warm_up + count):
            for name, contender in contenders.items():
                answer = contender.measure(**request)
                progress.advance(1, name)
                if number >= warm_up:
                    answers[name].append(answer)
    return answers


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median, lowest and highest of the trials, to six digits, and the number of trials."""
    ordered = sorted(values)
    figures = {"median": statistics.median(ordered), "low": ordered[0], "high": ordered[-1]}
    return {name: float(f"{value:.6g}") for name, value in figures.items()} | {
        "turns": len(ordered)
    }


def spreads(
    ours: Iterable[Mapping[str, Any]], theirs: Iterable[Mapping[str, Any]], figure: str
) -> tuple[dict[str, float], dict[str, float]]:
    """The spreads of one figure of two contenders' trials."""
    return spread(trial[figure] for trial in ours), spread(trial[figure] for trial in theirs)


def rates(
    answers: Mapping[str, Sequence[Mapping[str, Any]]], amount: str = "tokens"
) -> dict[str, dict[str, float]]:
    """Amount per second of each contender, over its trials."""
    return {
        name: spread(each[amount] / each["seconds"] for each in trial)
        for name, trial in answers.items()
    }
