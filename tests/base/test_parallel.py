import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError
from tinylm.base.parallel import INLINE_TASKS, PREFETCH, map_in_order

ROOT = Path(__file__).parents[2]
PARENT = """
from tests.base.test_parallel import process_after
from tinylm.base.parallel import INLINE_TASKS, map_in_order
if __name__ == "__main__":
    for process in map_in_order(process_after, [0.0] * (INLINE_TASKS + 2) + [60.0, 60.0], 2):
        print(process, flush=True)
"""


def square(number):
    return number * number


def process_after(seconds):
    time.sleep(seconds)
    return os.getpid()


def fail_from_20(number):
    if number >= 20:
        raise InputError(f"number {number}")


def die_outside(parent):
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("workers", [1, 2])
def test_results_and_errors_come_in_order(workers):
    assert list(map_in_order(square, range(30), workers)) == [n * n for n in range(30)]
    with pytest.raises(InputError, match="number 20"):
        list(map_in_order(fail_from_20, range(30), workers))


def test_a_worker_that_is_killed_ends_the_work_with_one_line():
    with pytest.raises(CommandFailed, match="taskset"):
        list(map_in_order(die_outside, [os.getpid()] * (INLINE_TASKS + 2), 2))


def test_tasks_are_taken_as_they_are_needed():
    taken = []
    results = map_in_order(square, (taken.append(n) or n for n in range(100)), 2)
    for number in range(INLINE_TASKS + 1):
        assert next(results) == number * number
    assert len(taken) <= INLINE_TASKS + 2 * PREFETCH + 1
    results.close()


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        workers = {int(parent.stdout.readline()) for _ in range(INLINE_TASKS + 2)} - {parent.pid}
        processes = [psutil.Process(worker) for worker in workers]
        parent.kill()
    assert processes
    assert psutil.wait_procs(processes, timeout=60)[1] == []
