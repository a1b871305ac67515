"""The runs of the line `loss`: each in a process of its own, timed from its start, kept in a JSON as it ends."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tinylm.base.files import read_json, write_json
from tinylm.benchmarks import record
from tinylm.benchmarks.contenders.to_loss import TRAINED, score
from tinylm.benchmarks.interleaved import ROOT
from tinylm.benchmarks.options import Options
from tinylm.benchmarks.shape import Shape
from tinylm.host.command import CommandFailed

Task = dict[str, Any]


def key(task: Mapping[str, Any]) -> str:
    """What makes a run that run, whatever the order of its settings."""
    return json.dumps(task, sort_keys=True)


def launch(task: Task, where: Mapping[str, Any]) -> dict[str, Any]:
    """Run a task; {seconds from its start to the end of training, held_out, evaluation}. CommandFailed if it dies."""
    command = [sys.executable, "-m", "tinylm.benchmarks.contenders.to_loss", json.dumps(task | dict(where))]
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seconds = None
        for line in process.stdout:
            if line.strip() == TRAINED:
                seconds = time.perf_counter() - start
            elif line.startswith("{"):
                answer = json.loads(line)
        said = process.stderr.read()
    if process.returncode or seconds is None:
        raise CommandFailed(f"loss: {key(task)} failed: {said.strip()[-400:]}")
    return {"seconds": round(seconds, 2)} | answer


def here(task: Task, where: Mapping[str, Any]) -> dict[str, Any]:
    """A task in this process, its scoring timed with it: for tests."""
    start = time.perf_counter()
    told = score(task | dict(where))
    return {"seconds": round(time.perf_counter() - start, 2)} | told


class Runs:
    """All runs so far, in a file; `do` runs what is not there yet."""

    def __init__(self, path: Path, options: Options, folder: Path, shape: Shape) -> None:
        self.path, self.options = path, options
        self.found: dict[str, dict[str, Any]] = read_json(path) if path.exists() else {}
        self.where = {"folder": str(folder), "threads": options.threads}
        self.shape = vars(shape)

    def do(self, task: Task) -> dict[str, Any]:
        """The result of a task, from the file where it is there."""
        name = key(task)
        if name not in self.found:
            shape = self.shape | ({"dropout": task["dropout"]} if "dropout" in task else {})
            where: dict[str, Any] = self.where | {"shape": shape}
            if task["side"] == "nanoGPT":
                where["clone"] = str(self.options.nanogpt)
            result = (here if self.options.inline else launch)(task, where) | {
                "load": record.load_average(),
                "at": record.stamp(),
            }
            self.found[name] = result
            write_json(self.path, self.found)
            print(f"{name}: {result['seconds']:.1f} s, evaluation {result['evaluation']:.4f}", flush=True)
        return self.found[name]

    def mean(self, tasks: Iterable[Task], figure: str) -> float:
        return statistics.fmean(self.do(task)[figure] for task in tasks)
