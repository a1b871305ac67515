"""A process that works on a sweep's runs, one after another: `python -m tinylm.experiments.worker NAME`.

`tinylm sweep` starts it in a slot (`slots.make_slot`); elsewhere it refuses to run, since it
resets the folder that it works in. Locks decide which worker has a run. So any number of workers
can work on a sweep, on all hosts that share the folder. A run whose worker was killed is free
again, and continues from its snapshot.
"""

import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from typing import IO, Any

from tinylm.base import paths
from tinylm.base.command import CommandFailed, Interrupted, one_line, run_command
from tinylm.base.files import read_json, write_json
from tinylm.base.processes import end_with_parent, locked
from tinylm.experiments import sweeps
from tinylm.experiments.slots import Slot, check_slot
from tinylm.experiments.sweeps import Sweep

_WAIT_S = 0.2  # between two looks for a free run


class Worker:
    """Works on the runs of one sweep in the current folder."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.number = 0  # of the run
        self.log: IO[str] | None = None  # of the run
        self.child: subprocess.Popen[str] | None = None  # the stage
        self.signal = 0  # the signal that asked the worker to end
        self.slot = Slot(sweep, self.run_stage)
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, number: int, _: object) -> None:
        """Let the stage write its snapshot and end; then end too."""
        self.signal = number
        if self.child:
            self.child.send_signal(number)

    def _end_if_asked(self) -> None:
        if self.signal:
            name = self.sweep.name
            raise Interrupted(self.signal, f"{name}: stopped; tinylm sweep --resume continues it")

    def run_stage(self, stage: Any) -> None:
        """Run DVC's stage `python -m stages.NAME` as a process that ends with this one.

        Raises CommandFailed if it fails or is killed.
        """
        assert self.log is not None
        self._end_if_asked()
        log_size = os.fstat(self.log.fileno()).st_size
        _, *arguments = shlex.split(stage.cmd)
        self.child = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=self.log,
            stderr=self.log,
            text=True,
            preexec_fn=functools.partial(end_with_parent, signal.SIGKILL),
        )
        code = self.child.wait()
        self._end_if_asked()
        if code < 0:
            reason = f"signal {-code}: out of memory, or by hand"
            raise CommandFailed(f"stage {stage.addressing} was killed ({reason})")
        if code:
            self.log.seek(log_size)
            errors = [line for line in self.log if line.startswith("error: ")]
            message = errors[0] if errors else f"exit code {code}"
            raise CommandFailed(message.removeprefix("error: ").strip())

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
            end = {"state": sweeps.FAILED, "why": one_line(error)}
        self.sweep.end(self.number, **end, seconds=round(time.monotonic() - began, 3))
        if end["state"] != sweeps.FAILED:
            shutil.rmtree(folder / "runs", ignore_errors=True)

    def _reproduce(self) -> sweeps.State:
        """Run the stages and record them; returns the run's state."""
        self.slot.enter(self.number, self.sweep.runs[self.number - 1])
        self.slot.reproduce(self.sweep.target)
        self.slot.record(self.number)
        path = paths.results("train")
        if not os.path.exists(path):
            return {"state": sweeps.DONE}
        metrics = read_json(path)
        write_json(self.sweep.run(self.number) / "metrics.json", metrics)
        return {"state": sweeps.DONE, "held_out": metrics["held_out_loss"]}


def main() -> None:
    end_with_parent(signal.SIGTERM)  # so that a stage writes its snapshot
    # from the terminal, and from SLURM before a time limit: the parent handles them
    for number in (signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    sweep = sweeps.open_sweep(sys.argv[1])
    check_slot(sweep)
    Worker(sweep).work()


if __name__ == "__main__":
    sys.exit(run_command(main))
