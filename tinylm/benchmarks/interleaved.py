"""The two sides of a comparison take turns, so that what the machine does meanwhile falls on both."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tinylm.benchmarks.serve import prepare
from tinylm.host.command import CommandFailed

ROOT = Path(__file__).parents[2]
_SHOWN = 400  # characters of what a dead process said


class Side:
    """One side, prepared in a process of its own; `turn` asks it for one measurement.

    target: `module:function` for `serve`; python: the interpreter of its environment. With `inline` it lives in this
    process: for tests. Raises CommandFailed where it cannot be prepared or a turn fails.
    """

    def __init__(
        self,
        name: str,
        target: str,
        setup: Mapping[str, Any],
        python: str = sys.executable,
        inline: bool = False,
    ) -> None:
        self.name, self.ready_s = name, 0.0
        self._step = prepare(target, setup) if inline else None
        if inline:
            return
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process lives)
        self._process = subprocess.Popen(
            [python, "-m", "tinylm.benchmarks.serve", target],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.ready_s = self._ask(setup)["ready_s"]

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        sender, receiver = self._process.stdin, self._process.stdout
        assert sender is not None
        assert receiver is not None
        answer = _exchange(sender, receiver, request)
        if answer is None:
            code = self._process.wait()
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()[-_SHOWN:]
            answer = {"error": f"its process ended ({code}); it said: {said}"}
        if "error" in answer:
            self.close()
            raise CommandFailed(f"{self.name}: {answer['error']}")
        return answer

    def turn(self, **request: Any) -> dict[str, Any]:
        """One measurement: what the side's step answers."""
        return self._step(request) if self._step else self._ask(request)

    def close(self) -> None:
        """End the process."""
        if self._step is None:
            self._process.kill()
            self._process.wait()
            self._said.close()

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _exchange(sender: IO[str], receiver: IO[str], request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Send a request, wait for the answer; None where the other end is gone."""
    try:
        sender.write(json.dumps(request) + "\n")
        sender.flush()
    except BrokenPipeError:
        return None
    line = receiver.readline()
    return json.loads(line) if line else None


def in_turn(
    sides: Mapping[str, Callable[[], Mapping[str, Any]]], turns: int, warm_up: int = 1
) -> dict[str, list[Mapping[str, Any]]]:
    """Let each side measure once a round, `turns` rounds; the first `warm_up` rounds do not count."""
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in sides}
    for number in range(warm_up + turns):
        for name, measure in sides.items():
            answer = measure()
            if number >= warm_up:
                found[name].append(answer)
    return found


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median, lowest and highest of the turns, to six digits, and how many they were."""
    found = sorted(values)
    figures = {"median": statistics.median(found), "low": found[0], "high": found[-1]}
    return {name: float(f"{value:.6g}") for name, value in figures.items()} | {"turns": len(found)}


def rates(turns: Sequence[Mapping[str, Any]], amount: str = "tokens") -> list[float]:
    """Amount a second of each turn."""
    return [turn[amount] / turn["seconds"] for turn in turns]
