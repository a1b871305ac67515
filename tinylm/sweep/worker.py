"""A process that works on a sweep's runs, one after another: `python -m tinylm.sweep.worker NAME`.

`tinylm sweep` starts it in a slot (`recording.make_slot`); elsewhere it refuses to run, since it
resets the folder that it works in. It imports torch and the stages once, and forks a
process for each stage of a run, which calls the stage's main(). Locks decide which worker has a
run. So any number of workers can work on a sweep, on all hosts that share the folder. A run whose
worker was killed is free again, and continues from its snapshot.
"""

import contextlib
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
from collections.abc import Mapping
from hashlib import sha256
from typing import IO, Any

from tinylm.base import paths
from tinylm.base.files import read_json, write_json
from tinylm.host.command import FAILED, CommandFailed, Interrupted, guard, one_line
from tinylm.host.processes import end_with_parent, locked
from tinylm.sweep import plan
from tinylm.sweep.plan import Sweep
from tinylm.sweep.recording import Slot, check_slot

_WAIT_S = 0.2  # between two looks for a free run


class Worker:
    """Works on the runs of one sweep in the current folder."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.number = 0  # of the run
        self.log: IO[str] | None = None  # of the run
        self.child = 0  # process id of the stage
        self.signal = 0  # the signal that asked the worker to end
        self.shared: set[str] = set()  # shared outputs that this folder has had
        self.slot = Slot(sweep, self.run_stage)
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, number: int, _: object) -> None:
        """Let the stage write its snapshot and end; then end too."""
        self.signal = number
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, number)

    def _end_if_asked(self) -> None:
        if self.signal:
            name = self.sweep.name
            raise Interrupted(self.signal, f"{name}: stopped; tinylm sweep --resume continues it")

    def run_stage(self, stage: Any) -> None:
        """Run DVC's stage `python -m stages.NAME` in a forked process.

        Raises CommandFailed if it fails or is killed.
        """
        assert self.log is not None
        self._end_if_asked()
        _, _, module, *arguments = shlex.split(stage.cmd)
        log_size = os.fstat(self.log.fileno()).st_size
        sys.stdout.flush()
        self.child = os.fork()
        if not self.child:
            self._exec_stage(module, arguments)
        _, status = os.waitpid(self.child, 0)
        self.child = 0
        code = os.waitstatus_to_exitcode(status)
        self._end_if_asked()
        if code < 0:
            reason = f"signal {-code}: out of memory, or by hand"
            raise CommandFailed(f"stage {stage.addressing} was killed ({reason})")
        if code:
            self.log.seek(log_size)
            errors = [line for line in self.log if line.startswith("error: ")]
            message = errors[0] if errors else f"exit code {code}"
            raise CommandFailed(message.removeprefix("error: ").strip())

    def _exec_stage(self, module: str, arguments: list[str]) -> None:
        """The forked process: the same as `python -m MODULE ARGUMENTS` after its imports."""
        code = FAILED
        try:
            end_with_parent(signal.SIGKILL)
            assert self.log is not None
            for stream in (1, 2):
                os.dup2(self.log.fileno(), stream)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # it arrives from the sweep, as SIGTERM
            if self.sweep.memory_gib:
                limit = int(self.sweep.memory_gib * 2**30)
                with contextlib.suppress(ValueError):  # macOS may refuse it
                    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            sys.argv = [module, *arguments]
            sys.orig_argv = [sys.executable, "-m", *sys.argv]
            stage = importlib.import_module(module)
            sys.modules["__main__"] = stage
            code = guard(stage.main)
            sys.stdout.flush()
        finally:
            os._exit(code)

    def work(self) -> None:
        """Work on the runs that are free until all have ended, here or elsewhere."""
        while left := self.sweep.left():
            worked = False
            for number in left:
                self._end_if_asked()
                self.sweep.run(number).mkdir(parents=True, exist_ok=True)
                with locked(self.sweep.run(number) / "log.txt") as log:
                    if log is not None and not self.sweep.state(number):
                        self.number = number
                        self.log = log
                        self._run_one()
                        worked = True
            if not worked:
                time.sleep(_WAIT_S)

    def _run_one(self) -> None:
        """One run, from where an earlier process left it to its experiment and its state."""
        began = time.monotonic()
        folder = self.sweep.run(self.number)
        try:
            end = self._reproduce()
        except Exception as error:
            end = {"state": plan.FAILED, "why": one_line(error)}
        self.sweep.end(self.number, **end, seconds=round(time.monotonic() - began, 3))
        if end["state"] != plan.FAILED:
            shutil.rmtree(folder / "runs", ignore_errors=True)

    def _reproduce(self) -> plan.State:
        """Run the stages and record them; returns the run's state."""
        params = self.slot.enter(self.number, self.sweep.runs[self.number - 1])
        self._ensure_shared(params)
        self.slot.reproduce(self.sweep.target)
        self.slot.record(self.number)
        path = paths.results("train")
        if not os.path.exists(path):
            return {"state": plan.DONE}
        metrics = read_json(path)
        write_json(self.sweep.run(self.number) / "metrics.json", metrics)
        return {"state": plan.DONE, "held_out": math.log(metrics["held_out_perplexity"])}

    def _ensure_shared(self, params: Mapping[str, Any]) -> None:
        """Make what runs share once: the first worker does it, the others wait for the cache."""
        values = {section: params.get(section) for section in plan.SHARED_SECTIONS}
        text = json.dumps(values, sort_keys=True, default=str)
        name = sha256(text.encode()).hexdigest()[:16]
        while name not in self.shared:
            with locked(self.sweep.folder / f"shared-{name}.lock") as handle:
                if handle is not None:
                    self.slot.reproduce(plan.SHARED_STAGE)
                    self.shared.add(name)
                    return
            self._end_if_asked()
            time.sleep(_WAIT_S)


def main() -> None:
    end_with_parent(signal.SIGTERM)  # so that a stage writes its snapshot
    # from the terminal, and from SLURM before a time limit: the parent handles them
    for number in (signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    sweep = plan.open_sweep(sys.argv[1])
    check_slot(sweep)
    importlib.import_module("stages.train")
    importlib.import_module("stages.evaluate")
    worker = Worker(sweep)
    gc.collect()
    gc.freeze()  # imports stay: without this, each collection of garbage takes 0.25 s
    worker.work()


if __name__ == "__main__":
    sys.exit(guard(main))
