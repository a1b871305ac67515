"""A process that works on a sweep's runs one after the other: `python -m tinylm.sweep.worker NAME [RUN ...]`.

It is started in a slot (`recording.make_slot`). It imports torch and the stages once and forks a process for each stage
of a run, which calls the stage's main(). Which run is whose is decided by locks alone, so that any number of workers on
any hosts with a common folder can work on a sweep. A run whose process was killed is free again, and goes on from its
snapshot.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import math
import os
import resource
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from os.path import exists
from typing import IO, Any

from tinylm.base import paths
from tinylm.base.files import read_json, write_json
from tinylm.host import loggers
from tinylm.host.command import FAILED, CommandFailed, Interrupted, guard, one_line
from tinylm.host.processes import locked
from tinylm.sweep import plan
from tinylm.sweep.halving import hopeless
from tinylm.sweep.plan import Sweep
from tinylm.sweep.recording import Slot

TRIES = 5  # times that a run is begun without getting any further
_WAIT_S = 0.2  # between two looks whether what runs share is ready


class Killed(Exception):
    """A signal that nobody here has sent ended a stage; the message names both."""


def _die_with_parent(number: int) -> None:
    ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG


class Worker:
    """Works on the runs of one sweep in the current folder."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, self.number = sweep, 0
        self.stopping = 0  # number of the signal that asked to
        self.child = 0
        self.stage_s = 0.0  # of this run's stages, without what DVC and git take
        self.log: IO[str] | None = None
        self.shared: set[str] = set()  # what runs share and this folder has had
        self.slot = Slot(sweep, self.run_stage)
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, number: int, _: object) -> None:
        """Let the stage write its snapshot and end; then end too."""
        self.stopping = number
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, number)

    def refuse_if_stopping(self) -> None:
        """Raise Interrupted if the worker was asked to end."""
        if self.stopping:
            raise Interrupted(
                self.stopping, f"{self.sweep.name}: stopped; tinylm sweep --resume goes on"
            )

    def run_stage(self, stage: Any) -> None:
        """What DVC calls for `python -m stages.NAME`: fork, and call its main(). Raises CommandFailed or Killed."""
        assert self.log is not None
        self.refuse_if_stopping()
        _, _, module, *arguments = shlex.split(stage.cmd)
        since = os.fstat(self.log.fileno()).st_size
        began = time.monotonic()
        sys.stdout.flush()
        self.child = os.fork()
        if not self.child:
            self._stage(module, arguments)
        _, status = os.waitpid(self.child, 0)
        self.child, code = 0, os.waitstatus_to_exitcode(status)
        self.stage_s += time.monotonic() - began
        self.refuse_if_stopping()
        if code < 0:
            raise Killed(
                f"stage {stage.addressing} was killed (signal {-code}; too little memory, or somebody ended it)"
            )
        if code:
            self.log.seek(since)
            said = [line for line in self.log if line.startswith("error: ")] or [
                f"exit code {code}"
            ]
            raise CommandFailed(said[0].removeprefix("error: ").strip())

    def _stage(self, module: str, arguments: list[str]) -> None:
        """The forked process: what `python -m MODULE ARGUMENTS` does, from its imports on."""
        code = FAILED
        try:
            _die_with_parent(signal.SIGKILL)
            assert self.log is not None
            for stream in (1, 2):
                os.dup2(self.log.fileno(), stream)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # it comes from the sweep, as SIGTERM
            if self.sweep.memory_gib:
                most = int(self.sweep.memory_gib * 2**30)
                resource.setrlimit(resource.RLIMIT_DATA, (most, most))
            sys.argv = [module, *arguments]
            sys.orig_argv = [sys.executable, "-m", *sys.argv]
            sys.modules["__main__"] = stage = importlib.import_module(module)
            loggers.also_to(self.heard)
            code = guard(stage.main)
            sys.stdout.flush()
        finally:
            os._exit(code)

    def heard(self, update: int, figures: Mapping[str, float]) -> None:
        """In a stage: note each held-out loss, and end a hopeless run."""
        loss = figures.get("held_out_loss")
        if loss is None:
            return
        noted = {"update": update, "tokens": figures.get("tokens"), "held_out": loss}
        known = self.sweep.progress(self.number)
        place = self.sweep.run(self.number) / "progress.json"
        if update and hopeless(self.sweep, self.number, update, loss):
            why = f"stopped by successive halving after update {update}, held-out loss {loss:.4f}"
            write_json(place, known | noted | {"stopped": why})
            raise CommandFailed(why)
        write_json(place, known | noted)

    def do_all(self, numbers: Sequence[int], wait: bool = False) -> None:
        """Work on runs until none of these is free; or, where another process has one, wait until that has ended.

        wait: as a job of the cluster must, which may have been queued again while its first host is cut off, not lost.
        """
        left = list(numbers)
        while left:
            worked = False
            for number in list(left):
                self.refuse_if_stopping()
                if self.sweep.state(number):
                    left.remove(number)
                    continue
                self.sweep.run(number).mkdir(parents=True, exist_ok=True)
                with locked(self.sweep.run(number) / "log.txt") as log:
                    if log is not None and not self.sweep.state(number):
                        self.number, self.log, self.stage_s = number, log, 0.0
                        self.do(number)
                        worked = True
            if not worked and not wait:
                return
            if not worked and left:
                time.sleep(_WAIT_S)

    def do(self, number: int) -> None:
        """One run, from where an earlier process left it to its experiment, and how it ended."""
        sweep, run, began = self.sweep, self.sweep.run(number), time.monotonic()
        progress = sweep.progress(number)
        reached = max(
            (path.stem for path in run.glob("runs/**/[0-9]*.safetensors")), default=""
        )  # its newest snapshot
        tries = progress.get("tries", 0) + 1 if progress.get("reached") == reached else 1
        write_json(run / "progress.json", progress | {"tries": tries, "reached": reached})
        end: dict[str, Any]
        try:
            if sweep.timed:  # in one piece: neither from a snapshot nor from DVC's cache
                shutil.rmtree(run / "runs", ignore_errors=True)
            params = self.slot.enter(number, sweep.runs[number - 1])
            self.make_shared(params)
            target = sweep.targets[number - 1]
            self.slot.reproduce(target, anew=sweep.timed)
            if "@" in target:  # a part of a run: what it made is in DVC's cache, for dvc repro
                end = {"state": plan.DONE}
            else:
                self.slot.record(number)
                end = {"state": plan.DONE, **self.figures()}
        except Killed as killed:
            if tries < TRIES:
                return
            end = {"state": plan.FAILED, "why": f"{killed}, {tries} times at the same place"}
        except Exception as error:
            why = sweep.progress(number).get("stopped")
            end = (
                {"state": plan.STOPPED, "why": why}
                if why
                else {"state": plan.FAILED, "why": one_line(error)}
            )
        except Interrupted:  # asked to, which is no failure
            write_json(run / "progress.json", sweep.progress(number) | {"tries": 0})
            raise
        seconds = {"seconds": round(time.monotonic() - began, 3), "stage_s": round(self.stage_s, 3)}
        sweep.end(number, **end, **seconds)
        if end["state"] != plan.FAILED:
            shutil.rmtree(run / "runs", ignore_errors=True)

    def make_shared(self, params: Mapping[str, Any]) -> None:
        """Make what runs share, once for all workers: whoever comes first does it, the others wait for the cache."""
        text = json.dumps(plan.shared_values(params), sort_keys=True, default=str)
        name = sha256(text.encode()).hexdigest()[:16]
        while name not in self.shared:
            with locked(self.sweep.folder / f"shared-{name}.lock") as mine:
                if mine is not None:
                    self.slot.reproduce(plan.SHARED[0])
                    self.shared.add(name)
                    return
            self.refuse_if_stopping()
            time.sleep(_WAIT_S)

    def figures(self) -> dict[str, Any]:
        """Keep the run's figures; the held-out loss and, if it was scored, the perplexity on the evaluation stories."""
        run = self.sweep.run(self.number)
        known = {
            name: read_json(paths.figures(name))
            for name in ("train", "evaluate")
            if exists(paths.figures(name))
        }
        for timed in run.glob(
            f"{paths.TIMES}/train/*.json"
        ):  # none if DVC had the model of an earlier run
            known |= {key: read_json(timed)[key] for key in ("seconds", "conditions")}
        if self.sweep.timed:
            known["seconds"] += sum(
                read_json(made)["seconds"] for made in run.glob(f"{paths.TIMES}/vocab/*.json")
            )
        write_json(run / "figures.json", known)
        held_out = known.get("train", {}).get("held_out_perplexity")
        loss = math.log(held_out) if held_out else None
        return {"held_out": loss, "perplexity": known.get("evaluate", {}).get("perplexity")}


def main() -> None:
    _die_with_parent(signal.SIGTERM)  # so that a stage writes its snapshot
    for number in (
        signal.SIGINT,
        signal.SIGUSR2,
    ):  # from the terminal, from SLURM before a time limit: for the parent
        signal.signal(number, signal.SIG_IGN)
    sweep = plan.open_sweep(sys.argv[1])
    importlib.import_module("stages")  # sets what torch reads when it is imported
    for name in ("stages.train", "stages.evaluate", *(["optuna"] if sweep.halving else [])):
        importlib.import_module(name)
    worker = Worker(sweep)
    gc.collect()
    gc.freeze()  # what was imported stays: looking through it for garbage takes a quarter of a second each time
    mine = [int(word) for word in sys.argv[2:]]
    worker.do_all(mine or sweep.numbers, wait=bool(mine))


if __name__ == "__main__":
    sys.exit(guard(main))
