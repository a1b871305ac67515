"""The compiled step takes one thread where all of them would wait for a core that another process has."""

import pytest

from tinylm.kernels.decoding.threads import Threads


def after(threads, steps, seconds):
    """The share of steps that one thread took; seconds: of a step by the number of threads."""
    alone = 0
    for _ in range(steps):
        alone += threads.now == 1
        threads.took(seconds[threads.now])
    return alone / steps


def test_all_threads_where_they_are_faster():
    assert after(Threads(2), 4000, {1: 1.0, 2: 0.6}) < 0.03


def test_one_thread_where_all_wait_for_a_core_and_all_again_afterwards():
    threads = Threads(2)
    after(threads, 200, {1: 1.0, 2: 0.6})
    assert after(threads, 2000, {1: 1.0, 2: 2.1}) > 0.85
    after(threads, 2 * threads.BACK * threads.BLOCK, {1: 1.0, 2: 0.6})
    assert after(threads, 2000, {1: 1.0, 2: 0.6}) < 0.05


def test_a_slow_block_costs_one_turn_of_the_other():
    threads = Threads(4)
    after(threads, 400, {1: 1.0, 4: 0.3})
    after(threads, Threads.BLOCK, {4: 3.0, 1: 1.0})
    assert after(threads, 400, {1: 1.0, 4: 0.3}) <= 2 * Threads.BLOCK / 400


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_one_thread_stays_one(seconds):
    threads = Threads(1)
    assert after(threads, 2000, {1: seconds}) == 1.0
