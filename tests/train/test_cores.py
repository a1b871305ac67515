"""Work on several cores: the results do not depend on how items are divided."""

import os
import subprocess
import sys
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tinylm.train.cores import MAX_THREADS, cores, map_on_cores, one_thread


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


sizes = st.lists(st.integers(0, 1000), max_size=12)


@given(sizes, st.integers(1, MAX_THREADS))
def test_every_item_is_computed_once_and_results_keep_the_order(items, count):
    computed = []

    def double(item):
        computed.append(item)
        return 2 * item

    assert map_on_cores(double, items, count, size=float) == [2 * item for item in items]
    assert sorted(computed) == sorted(items)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12), st.integers(1, MAX_THREADS))
def test_each_core_has_a_thread_and_loads_differ_by_at_most_the_largest_item(items, count):
    used = min(count, len(items))
    started = threading.Barrier(used, timeout=10)
    loads = {}

    def note(item):
        thread = threading.get_ident()
        if thread not in loads:
            started.wait()  # for all threads, so that none computes the items of two cores
        loads[thread] = loads.get(thread, 0) + item

    map_on_cores(note, items, count, size=float)
    assert len(loads) == used
    idle = [0] * (count - used)
    assert max(loads.values()) - min([*loads.values(), *idle]) <= max(items)


def test_torchs_threads_are_divided_and_restored(two_threads):
    used = map_on_cores(lambda item: torch.get_num_threads(), [1, 2], 2)
    assert used == [1, 1]
    assert torch.get_num_threads() == 2
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_any_core_is_raised(two_threads, failing):
    def fail(item):
        if item == failing:
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match=f"item {failing}"):
        map_on_cores(fail, [0, 1], 2)
    assert torch.get_num_threads() == 2


FORKED = """
import os
import torch
from tinylm.train.cores import map_on_cores
torch.set_num_threads(2)
map_on_cores(abs, [1, 2], 2)
if os.fork() == 0:
    os._exit(map_on_cores(abs, [3, 4], 2) != [3, 4])
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_has_threads_of_its_own():
    command = [sys.executable, "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "0\n"


def test_only_work_on_a_cpu_is_divided(two_threads):
    assert cores(torch.device("cpu")) == 2
    assert cores(torch.device("cpu"), most=1) == 1
    assert cores(torch.device("meta")) == 1


def test_within_an_item_one_thread_does_the_work():
    """Else items that wait for items of their own could wait for each other for ever."""

    def is_alone(item):
        used = map_on_cores(lambda number: threading.get_ident(), range(4), 4)
        return set(used) == {threading.get_ident()}

    assert map_on_cores(is_alone, range(2), 2) == [True, True]
