import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinylm.base.config import InputError
from tinylm.download.in_order import AHEAD, FEW, in_groups, map_in_order
from tinylm.host import memory
from tinylm.host.command import CommandFailed
from tinylm.host.memory import own_peak_mib, peak_memory
from tinylm.host.workers import cores

ROOT = Path(__file__).parents[2]
ORPHANS = """
import os, time
from tests.download.test_in_order import slowly
from tinylm.download.in_order import FEW, map_in_order
if __name__ == "__main__":
    for process in map_in_order(slowly, [0.0] * (FEW + 2) + [60.0, 60.0], 2):
        print(process, flush=True)
"""


def square(number):
    time.sleep(0.02 * (number % 3 == 0))
    return number * number


def slowly(seconds):
    time.sleep(seconds)
    return os.getpid()


def fail_from_20(number):
    if number >= 20:
        raise InputError(f"number {number}")


def die_outside(parent):
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def test_results_come_in_order_whatever_the_number_of_processes():
    expected = [number * number for number in range(30)]
    for count in (1, 2):
        assert list(map_in_order(square, range(30), count)) == expected


@pytest.mark.parametrize("count", [1, 2])
def test_what_a_worker_raises_is_raised_here(count):
    with pytest.raises(InputError, match=r"^number 20$"):
        list(map_in_order(fail_from_20, range(30), count))


def test_a_worker_that_is_killed_ends_the_work_with_one_line():
    with pytest.raises(CommandFailed, match=r"runtime\.workers"):
        list(map_in_order(die_outside, [os.getpid()] * (FEW + 2), 2))


def test_tasks_are_taken_as_they_are_needed():
    taken = []
    results = map_in_order(square, (taken.append(n) or n for n in range(100)), 2)
    for number in range(FEW + 1):
        assert next(results) == number * number
    assert len(taken) <= FEW + 2 * AHEAD + 1
    results.close()


def test_groups_are_of_one_size_and_the_last_one_shorter():
    assert list(in_groups(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(in_groups([], 2)) == []


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(ORPHANS)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        processes = {int(parent.stdout.readline()) for _ in range(FEW + 2)} - {parent.pid}
        parent.kill()
    assert processes
    until = time.monotonic() + 20
    while any(
        Path(f"/proc/{process}").exists() and not is_zombie(process) for process in processes
    ):
        assert time.monotonic() < until
        time.sleep(0.05)


def is_zombie(process):
    try:
        return "State:\tZ" in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return True


def test_peak_memory_counts_what_was_given_back():
    code = "from tinylm.host.memory import own_peak_mib as p; a = p(); x = b'x' * (64 << 20); del x; print(p() - a)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert 60 < float(done.stdout) < 80


def test_peak_memory_counts_the_workers(monkeypatch):
    monkeypatch.setattr(memory, "_workers_mib", 0.0)
    assert set(peak_memory()) == {"peak_mib"}
    list(map_in_order(square, range(FEW + 4), 2))
    figures = peak_memory()
    assert figures["workers_peak_mib"] > 10
    assert figures["peak_mib"] == pytest.approx(own_peak_mib() + figures["workers_peak_mib"], abs=1)
    memory.note_workers(1.0)  # a smaller group leaves the larger one's figure
    assert peak_memory()["workers_peak_mib"] == figures["workers_peak_mib"]


def test_without_proc_the_system_is_asked(monkeypatch):
    monkeypatch.setattr("builtins.open", lambda *_, **__: (_ for _ in ()).throw(OSError()))
    assert own_peak_mib() > 5


def test_cores_are_those_of_this_process():
    assert re.fullmatch(r"[1-9]\d*", str(cores()))
