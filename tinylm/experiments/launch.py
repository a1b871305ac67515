"""Where the workers of a sweep run: processes of this machine, or jobs of a SLURM cluster."""

import contextlib
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from tinylm.base.command import CommandFailed, Interrupted
from tinylm.base.config import InputError
from tinylm.base.processes import exclusive_lock, locked
from tinylm.base.progress import Progress
from tinylm.experiments import sweeps
from tinylm.experiments.slots import make_slot
from tinylm.experiments.sweeps import Sweep

POLL_S = 0.25
POLL_SLURM_S = 2.0
GRACE_S = 60.0  # for the stages to write their snapshots after Ctrl-C
PREEMPTION_S = 600.0  # at most between the signals that end a job of the cluster
TIMEOUTS = 1000  # of a job, before submitit gives it up


class _Watch:
    """Prints a line for each run that ends."""

    def __init__(self, sweep: Sweep, progress: Progress) -> None:
        self.sweep = sweep
        self.progress = progress
        self.left = sweep.left()
        progress.resume(len(sweep.runs) - len(self.left))

    def update(self) -> None:
        """Print the runs that have ended since the last call."""
        states = {number: self.sweep.state(number) for number in self.left}
        ended = {number: state for number, state in states.items() if state}
        for number, state in ended.items():
            self.left.remove(number)
            line = f"run {number} ({self.sweep.label(number)}) {state['state']}"
            line += f" in {state['seconds']:.1f} s"
            if "why" in state:
                line += f": {state['why']}"
            elif state.get("held_out") is not None:
                line += f", held-out loss {state['held_out']:.4f}"
            self.progress.write(line)
            self.progress.advance(1)


def _worker_module(slot: Path) -> str:
    """The worker's module in the slot's code, which is older if release 0.4 began the sweep."""
    is_older = (slot / "tinylm/sweep/worker.py").exists()
    return "tinylm.sweep.worker" if is_older else "tinylm.experiments.worker"


def _start_worker(sweep: Sweep, slot: Path, log: IO[Any] | None) -> "subprocess.Popen[bytes]":
    make_slot(sweep, slot)
    words = [sys.executable, "-m", _worker_module(slot), sweep.name]
    environment = dict(os.environ)
    for name in ("PYTHONPATH", "PYTHONSAFEPATH"):  # the slot's code is run, no other
        environment.pop(name, None)
    return subprocess.Popen(
        words, cwd=slot, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )


def run_local(sweep: Sweep, count: int) -> None:
    """All runs that are left, by `count` processes here.

    Raises CommandFailed if all of them end before the runs, and Interrupted on a signal.
    """
    with contextlib.ExitStack() as stack:
        lock = sweep.folder / f"{platform.node()}.lock"
        stack.enter_context(exclusive_lock(lock, f"sweep {sweep.name}"))
        progress = stack.enter_context(Progress(sweep.name, len(sweep.runs), "runs"))
        watch = _Watch(sweep, progress)
        hint = f"tinylm sweep --resume {sweep.name} continues it"
        workers: list[subprocess.Popen[bytes]] = []
        try:
            for number in range(min(count, len(watch.left))):
                workers.append(_start_here(sweep, number))
            while watch.left:
                alive = [worker for worker in workers if worker.poll() is None]
                watch.update()
                if watch.left and not alive:
                    raise CommandFailed(f"the workers ended too early: {_log(sweep, 0)}; {hint}")
                if watch.left and len(alive) < len(workers):
                    progress.write(f"a worker has died; {len(alive)} of {len(workers)} are left")
                    workers = alive
                time.sleep(POLL_S)
        except (KeyboardInterrupt, Interrupted) as error:
            _end(workers)  # before their states are counted
            number = error.number if isinstance(error, Interrupted) else signal.SIGINT
            raise Interrupted(number, f"{sweeps.summary(sweep)}; {hint}") from None
        finally:
            _end(workers)


def _log(sweep: Sweep, number: int) -> Path:
    """The log of a worker of this machine; its slot has the same name."""
    return sweep.folder / "slots" / f"{platform.node()}-{number}.log"


def _start_here(sweep: Sweep, number: int) -> "subprocess.Popen[bytes]":
    """Start a worker, which holds the lock on its log as long as it lives."""
    path = _log(sweep, number)
    with locked(path) as log:
        if log is None:
            raise InputError(f"{path}: an earlier worker is still exiting; try again in a minute")
        return _start_worker(sweep, path.with_suffix(""), log)


def _end(workers: "list[subprocess.Popen[bytes]]") -> None:
    """Ask the workers to end, so that their stages write snapshots; kill those that do not."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        try:
            worker.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


class Job:
    """One worker as a job: submitit calls it, and `checkpoint` before its time ends."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, number: int) -> None:
        os.chdir(self.folder)
        sweep = sweeps.open_sweep(Path(self.folder).name)
        slot = sweep.folder / "slots" / f"job-{number}"
        self.process = _start_worker(sweep, slot, None)
        code = self.process.wait()
        if code == 128 + signal.SIGTERM:  # preempted: SLURM will end this job and queue it again
            time.sleep(PREEMPTION_S)
        if code:
            raise CommandFailed(f"worker {number} ended with exit code {code}")

    def checkpoint(self, number: int) -> Any:
        """End the worker, whose stage writes a snapshot; the job is queued again."""
        import submitit

        if self.process is not None:
            self.process.terminate()
            # not process.wait(), whose lock the call that this signal interrupted may hold
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        return submitit.helpers.DelayedSubmission(Job(self.folder), number)


def _submit(sweep: Sweep, count: int, options: dict[str, Any]) -> list[Any]:
    """The jobs of `count` workers. Raises InputError if they are refused."""
    try:
        import submitit
    except ModuleNotFoundError:
        raise InputError("--on slurm: submitit is missing; run pip install submitit") from None
    try:
        executor = submitit.AutoExecutor(
            sweep.folder / "jobs", cluster="slurm", slurm_max_num_timeout=TIMEOUTS
        )
        executor.update_parameters(name=sweep.name, **options)
        return list(executor.map_array(Job(str(sweep.folder)), range(count)))
    except (OSError, RuntimeError, TypeError, ValueError, subprocess.SubprocessError) as error:
        line = " ".join(str(error).split())[:500]
        raise InputError(f"--on slurm: {line}") from None


def run_jobs(sweep: Sweep, count: int, options: dict[str, Any]) -> None:
    """All runs that are left, by `count` workers, each a job of the cluster.

    Raises CommandFailed if the jobs end before the runs, and Interrupted on Ctrl-C.
    """
    with Progress(sweep.name, len(sweep.runs), "runs") as progress:
        watch = _Watch(sweep, progress)
        jobs = _submit(sweep, min(count, len(watch.left)), options)
        ids = " ".join(sorted({job.job_id.partition("_")[0] for job in jobs}))
        try:
            while watch.left:
                all_ended = all(job.done() for job in jobs)
                watch.update()
                if watch.left and all_ended:
                    reason = str(jobs[0].exception()).strip().splitlines()[-1]
                    raise CommandFailed(f"jobs {ids} ended too early: {reason}")
                time.sleep(POLL_SLURM_S)
        except KeyboardInterrupt:
            hint = f"the jobs keep running (scancel {ids} ends them); --resume starts new ones"
            raise Interrupted(signal.SIGINT, f"{sweeps.summary(sweep)}; {hint}") from None
