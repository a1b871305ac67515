"""make fuzz: damaged files for every parser and reader; each must be refused in one line or read as something valid.

    python -m tests.fuzz.run                         10,000 cases
    python -m tests.fuzz.run --cases 500 --first 10000
    python -m tests.fuzz.run --only vec --case 17    one case, in this process, with its traceback

A case has 5 seconds of processor time and 1 GiB of memory above what its process holds at its start. It follows from
its target and its number alone. What is found is written to a folder, one folder a case, to be kept in
tests/fuzz/corpus.
"""

import argparse
import collections
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path

import psutil

from tests.fuzz.cases import FOUND, READ, Seeds, damaged, read, run_case
from tests.fuzz.seeds import make_seeds
from tests.fuzz.targets import TARGETS

SECONDS, ASLEEP, BYTES = 5.0, 60.0, 1 << 30
Case = tuple[str, int]


def plan(cases: int, first: int, only: str | None) -> list[Case]:
    """The cases, shared out among the targets."""
    chosen = {name: share for name, (_, share) in TARGETS.items() if only in (None, name)}
    whole = sum(chosen.values())
    return [
        (name, first + number)
        for name, share in chosen.items()
        for number in range(-(-cases * share // whole))
    ]


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _work(pipe: Connection, seeds: Seeds) -> None:
    """A process that reads one case after another."""
    import torch

    torch.set_num_threads(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # libraries that panic say so there
    for target, inputs in seeds.items():  # all imports are then made, and count for no case
        for files in inputs:
            assert read(target, files)[0] == READ, f"{target}: a valid input is refused"
    _limit_memory()
    pipe.send(None)
    while (case := pipe.recv()) is not None:
        pipe.send(run_case(seeds, *case))


class Worker:
    """One process and the case that it is at."""

    def __init__(self, seeds: Seeds) -> None:
        self.seeds = seeds
        self.case: Case | None = None
        self.start()

    def start(self) -> None:
        """A new process in place of one that crashed or hangs."""
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.seeds), daemon=True)
        self.process.start()
        theirs.close()
        self.pipe.recv()  # it is ready

    def _seconds(self) -> float:
        """Processor time that it took so far: others may take the processor away."""
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return times.user + times.system

    def give(self, case: Case) -> None:
        """Have it read a case."""
        self.case, self.since, self.spent = case, time.monotonic(), self._seconds()
        self.pipe.send(case)

    def result(self) -> tuple[str, str] | None:
        """What came out of its case, None where it is still at it; a crash and a hang are finds."""
        if self.pipe.poll():
            try:
                return self.pipe.recv()
            except EOFError:
                self.process.join()
                code = self.process.exitcode
                self.start()
                return FOUND, f"the process died ({code})"
        if self._seconds() - self.spent > SECONDS or time.monotonic() - self.since > ASLEEP:
            self.process.kill()
            self.process.join()
            self.start()
            return FOUND, f"more than {SECONDS:g} s"
        return None


def run(cases: list[Case], seeds: Seeds, processes: int) -> dict[Case, tuple[str, str]]:
    """What came out of each case."""
    workers = [Worker(seeds) for _ in range(processes)]
    results: dict[Case, tuple[str, str]] = {}
    left = iter(cases)
    for worker in workers:
        worker.give(next(left, cases[0]))
    busy = list(workers)
    while busy:
        wait([worker.pipe for worker in busy], timeout=0.2)
        for worker in list(busy):
            found = worker.result()
            if found is None:
                continue
            assert worker.case is not None
            results[worker.case] = found
            case = next(left, None)
            if case is None:
                worker.process.kill()
                busy.remove(worker)
            else:
                worker.give(case)
    return results


def _keep(folder: Path, case: Case, said: str, seeds: Seeds) -> None:
    files, _ = damaged(seeds, *case)
    place = folder / f"{case[0]}-{case[1]}"
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    (place / "said.json").write_text(json.dumps({"case": case, "said": said}, indent=2))


def main() -> int:
    """Run the cases, print a table, keep what is found; 1 where something is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first case of each target"
    )
    parser.add_argument("--only", choices=list(TARGETS))
    parser.add_argument("--case", type=int, help="with --only: this one, in this process")
    parser.add_argument("--keep", type=Path, default=Path("runs/fuzz"), metavar="FOLDER")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tinylm-fuzz-") as folder:
        seeds = make_seeds(Path(folder))
    if options.case is not None:
        print(*run_case(seeds, options.only, options.case))
        return 0
    results = run(plan(options.cases, options.first, options.only), seeds, options.processes)
    print(f"{'reader':10} {'cases':>6} {'refused':>8} {'read':>6} {'found':>6}")
    for name in TARGETS:
        counts = collections.Counter(
            kind for (target, _), (kind, _) in results.items() if target == name
        )
        if counts:
            kinds = (counts["refused"], counts["read"], counts[FOUND])
            print(f"{name:10} {sum(kinds):6} {kinds[0]:8} {kinds[1]:6} {kinds[2]:6}")
    finds = {case: said for case, (kind, said) in results.items() if kind == FOUND}
    for case, said in finds.items():
        print(f"{case[0]} {case[1]}: {said}")
        _keep(options.keep, case, said, seeds)
    print(f"{len(results)} cases in {time.monotonic() - start:.0f} s; {len(finds)} found")
    return bool(finds)


if __name__ == "__main__":
    sys.exit(main())
