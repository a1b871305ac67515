"""A training that other programs slow down says so once, with a remedy."""

import time

import pytest
import torch

from tinylm.train.core_share import CoreShare


@pytest.mark.parametrize(("threads", "remedy"), [(1, "stop them"), (2, "runtime.threads to 1")])
def test_a_starved_thread_is_told_once(monkeypatch, threads, remedy):
    wall, busy = [0.0], [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: wall[0])
    monkeypatch.setattr(time, "thread_time", lambda: busy[0])
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    share = CoreShare()
    wall[0], busy[0] = 30.0, 29.0
    assert not share.warning()  # alone
    wall[0], busy[0] = 45.0, 30.0
    assert not share.warning()  # a moment
    wall[0], busy[0] = 60.0, 35.0
    assert "only 20% of a core" in (warning := share.warning())
    assert warning.endswith(remedy)
    wall[0] = 90.0
    assert not share.warning()
