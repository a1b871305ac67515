"""Where the workers of a sweep run: processes of this machine, or jobs of a SLURM cluster."""

import contextlib
import itertools
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tinylm.base.config import InputError
from tinylm.base.files import read_json, write_json
from tinylm.host.command import CommandFailed, Interrupted
from tinylm.host.processes import exclusive_lock, locked
from tinylm.host.progress import Progress, duration
from tinylm.host.workers import cores
from tinylm.sweep import plan
from tinylm.sweep.plan import Sweep
from tinylm.sweep.recording import make_slot

LOOK_S, LOOK_SLURM_S = 0.25, 2.0  # between two looks at what has ended
GRACE_S = 60.0  # for the stages to write their snapshots after Ctrl-C
LAST_S = 600.0  # at most between the signals that end a job of the cluster
SLOW, SLOW_S = (
    3.0,
    30.0,
)  # a run is said to be slow that takes so many times as long as the others, and so much longer
MOST_TIMEOUTS = 1000  # of a job, before submitit gives it up
DEATHS = 3  # of workers in a row before any run ends


class _Watch:
    """Prints a line for each run that ends, and for each that is slow."""

    def __init__(self, sweep: Sweep, progress: Progress) -> None:
        self.sweep, self.progress = sweep, progress
        self.left = [number for number in sweep.numbers if not sweep.state(number)]
        self.times: list[float] = []
        self.slow: set[int] = set()
        progress.resume(len(sweep.runs) - len(self.left))

    def look(self) -> bool:
        """Whether any run has ended since the last look."""
        ended = [(number, state) for number in self.left if (state := self.sweep.state(number))]
        for number, state in ended:
            self.left.remove(number)
            self.times.append(state.get("seconds", 0.0))
            loss = state.get("held_out")
            what = (
                f", held-out loss {loss:.4f}"
                if loss is not None
                else f": {state['why']}"
                if "why" in state
                else ""
            )
            took = f" in {state['seconds']:.1f} s" if "seconds" in state else ""
            self.progress.write(
                f"run {number} ({self.sweep.label(number)}) {state['state']}{took}{what}"
            )
            self.progress.advance(1)
        return bool(ended)

    def name_slow(self) -> None:
        """Say once of each run that takes far longer than the others."""
        usual = statistics.median(self.times) if self.times else float("inf")
        for number in self.left:
            log = self.sweep.run(number) / "progress.json"
            with contextlib.suppress(OSError):
                taken = time.time() - log.stat().st_mtime
                slow = number not in self.slow and taken > max(SLOW * usual, usual + SLOW_S)
                if slow and plan.now(self.sweep, number) == plan.RUNNING:
                    self.slow.add(number)
                    self.progress.write(
                        f"run {number} ({self.sweep.label(number)}): nothing new for {duration(taken)}; the "
                        f"others took {duration(usual)}"
                    )


@contextlib.contextmanager
def _watch(sweep: Sweep, every_s: float) -> Iterator[_Watch]:
    with Progress(sweep.name, len(sweep.runs), "runs", every_s) as progress:
        yield _Watch(sweep, progress)


def _start(
    sweep: Sweep, slot: Path, numbers: list[int], log: IO[Any] | None
) -> "subprocess.Popen[bytes]":
    make_slot(sweep, slot)
    words = [sys.executable, "-m", "tinylm.sweep.worker", sweep.name, *map(str, numbers)]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    return subprocess.Popen(
        words, cwd=slot, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )


class _Local:
    """The workers of this machine, each in a slot and, where there are enough, on cores of its own."""

    def __init__(self, sweep: Sweep, workers: int) -> None:
        self.sweep = sweep
        self.slots = [sweep.folder / "slots" / f"{platform.node()}-{n}" for n in range(workers)]
        self.each = cores() // workers
        self.allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.running: list[subprocess.Popen[bytes] | None] = [None] * workers
        self.deaths = 0

    def keep(self, watch: _Watch) -> None:
        """Start the workers that are missing."""
        for n, process in enumerate(self.running):
            if process is not None and (code := process.poll()) is not None:
                self.running[n] = None
                if code:
                    self._died(n, code, watch)
            if self.running[n] is not None or len(watch.left) <= self._alive():
                continue
            if not any(plan.now(self.sweep, number) == plan.WAITING for number in watch.left):
                return  # others have them: of this machine, or of another
            with locked(f"{self.slots[n]}.log") as log:
                if log is None:
                    continue  # what is left of the one before is about to end
                self.running[n] = started = _start(self.sweep, self.slots[n], [], log)
            if self.each and self.allowed:
                os.sched_setaffinity(started.pid, self.allowed[n * self.each : (n + 1) * self.each])

    def _alive(self) -> int:
        return sum(process is not None for process in self.running)

    def _died(self, n: int, code: int, watch: _Watch) -> None:
        how = f"was killed (signal {-code})" if code < 0 else f"ended with exit code {code}"
        lines = (
            Path(f"{self.slots[n]}.log").read_text(encoding="utf-8", errors="replace").splitlines()
        )
        said = next((line for line in reversed(lines) if line.startswith("error: ")), "")
        watch.progress.write(
            f"worker {n + 1} {how}{said and ': ' + said.removeprefix('error: ')}; another takes its place"
        )
        self.deaths += 1
        if code > 0 and self.deaths >= DEATHS:
            raise CommandFailed(
                f"{DEATHS} workers ended before a run did: {said.removeprefix('error: ') or how}"
            )

    def end(self) -> None:
        """Ask the workers to end: their stages write snapshots; kill those that take too long."""
        alive = [
            process for process in self.running if process is not None and process.poll() is None
        ]
        for process in alive:
            process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in alive:
            try:
                process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_local(sweep: Sweep, workers: int, every_s: float) -> None:
    """All runs that are left, by so many processes of this machine. Raises Interrupted on a signal."""
    with (
        exclusive_lock(sweep.folder / f"{platform.node()}.lock", f"sweep {sweep.name}"),
        _watch(sweep, every_s) as watch,
    ):
        local = _Local(sweep, max(1, min(workers, len(watch.left))))
        try:
            while watch.left:
                local.keep(watch)
                if watch.look():
                    local.deaths = 0
                watch.name_slow()
                time.sleep(LOOK_S)
        except (KeyboardInterrupt, Interrupted) as error:
            local.end()
            number = error.number if isinstance(error, Interrupted) else signal.SIGINT
            raise Interrupted(
                number, f"{plan.summary(sweep)}; tinylm sweep --resume {sweep.name} goes on"
            ) from None
        finally:
            local.end()


class Task:
    """One run as a job of the cluster; submitit calls it, and on a time limit or preemption asks for `checkpoint`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, number: int) -> None:
        os.chdir(self.folder)
        sweep = plan.open_sweep(Path(self.folder).name)
        for n in itertools.count():
            slot = sweep.folder / "slots" / f"{platform.node()}-{n}"
            with locked(f"{slot}.log") as mine:
                if mine is not None:
                    self.process = _start(sweep, slot, [number], None)
                    code = self.process.wait()
                    break
        if (
            code == 128 + signal.SIGTERM
        ):  # SLURM is about to end the job, and to queue it again if it was preempted
            time.sleep(LAST_S)
        if not sweep.state(number):
            raise CommandFailed(f"run {number} has not ended (exit code {code})")

    def checkpoint(self, number: int) -> Any:
        """End the worker, whose stage writes a snapshot; the job is queued again."""
        import submitit

        if self.process is not None:
            self.process.terminate()
            with contextlib.suppress(
                ChildProcessError
            ):  # wait() takes a lock that the call interrupted here holds
                os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        return submitit.helpers.DelayedSubmission(Task(self.folder), number)


def _queued(jobs: dict[str, str]) -> dict[str, str]:
    """{run: its state in the queue} of the jobs {run: job} that SLURM still has."""
    listed = subprocess.run(["squeue", "-h", "-r", "-o", "%i %T"], capture_output=True, text=True)
    if listed.returncode:
        raise CommandFailed(f"squeue: {(listed.stderr.strip().splitlines() or ['failed'])[-1]}")
    states = dict(line.split() for line in listed.stdout.splitlines())
    return {run: states[job] for run, job in jobs.items() if job in states}


def _submit(
    sweep: Sweep, numbers: list[int], workers: int, options: dict[str, Any]
) -> dict[str, str]:
    try:
        import submitit
    except ModuleNotFoundError:
        raise InputError("--on slurm: the package is not installed; pip install submitit") from None
    try:
        executor = submitit.AutoExecutor(
            folder=sweep.folder / "slurm", cluster="slurm", slurm_max_num_timeout=MOST_TIMEOUTS
        )
        memory = {"mem_gb": sweep.memory_gib} if sweep.memory_gib else {}
        executor.update_parameters(
            name=sweep.name, slurm_array_parallelism=workers, **memory, **options
        )
        jobs = executor.map_array(Task(str(sweep.folder)), numbers)
    except (
        RuntimeError,
        TypeError,
        ValueError,
        subprocess.SubprocessError,
        submitit.core.utils.FailedJobError,
    ) as error:
        said = " ".join(str(error).split())[:500]
        raise InputError(f"--on slurm: {said}") from None
    return {str(number): job.job_id for number, job in zip(numbers, jobs)}


def run_slurm(sweep: Sweep, workers: int, every_s: float, options: dict[str, Any]) -> None:
    """Submit the runs that are left and not in the queue, at most `workers` at once, and watch until all have ended."""
    noted = sweep.folder / "slurm.json"
    jobs: dict[str, str] = read_json(noted) if noted.exists() else {}
    with _watch(sweep, every_s) as watch:
        queued = _queued(jobs)
        if new := [number for number in watch.left if str(number) not in queued]:
            jobs |= _submit(sweep, new, workers, options)
            write_json(noted, jobs)
        gone: set[int] = set()
        try:
            while watch.left:
                queued = _queued(jobs)
                watch.look()
                absent = {number for number in watch.left if str(number) not in queued}
                for number in (
                    absent & gone
                ):  # twice: a shared folder may be slow to show how the run ended
                    sweep.end(number, state=plan.FAILED, why=_why(sweep, jobs[str(number)]))
                gone = absent
                watch.name_slow()
                time.sleep(LOOK_SLURM_S)
        except KeyboardInterrupt:
            ids = " ".join(sorted({jobs[run].partition("_")[0] for run in queued}))
            raise Interrupted(
                signal.SIGINT,
                f"{plan.summary(sweep)}; the jobs go on (scancel {ids} ends them): --resume watches again",
            ) from None


def _why(sweep: Sweep, job: str) -> str:
    """The last line of a job's own errors."""
    logs = sorted((sweep.folder / "slurm").glob(f"{job}_*_log.err"))
    lines = logs[-1].read_text(encoding="utf-8", errors="replace").split("\n") if logs else []
    said = [line for line in lines if line.strip()]
    return f"job {job} left the queue before its end: {said[-1][:300] if said else 'it left no message'}"
