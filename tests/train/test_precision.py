"""What is chosen for a machine: precision, compilation of blocks, native kernels; a busy machine is said."""

import time

import pytest
import torch

from tinylm.base.config import InputError
from tinylm.train import settings as module
from tinylm.train.core_share import CoreShare
from tinylm.train.graphs import records_graphs

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("chosen", "device", "fast", "expected"),
    [
        ("auto", "cpu", True, "bf16"),
        ("auto", "cpu", False, "fp32"),
        ("tf32", "cpu", True, "fp32"),
        ("tf32", "cuda", True, "tf32"),
        ("bf16", "cpu", False, "bf16"),
    ],
)
def test_auto_is_bf16_where_the_machine_multiplies_in_it(
    monkeypatch, new_settings, chosen, device, fast, expected
):
    monkeypatch.setattr(module, "multiplies_in_bf16", lambda device: fast)
    settings = new_settings(precision=chosen).resolved(torch.device(device))
    assert settings.precision == expected


@pytest.mark.parametrize(
    ("device", "changes", "expected"),
    [
        ("cpu", {}, ("false", False, "own")),
        ("cuda", {}, ("false", True, "torch")),
        ("cuda", {"layout": "stream"}, ("true", True, "torch")),
        ("cuda", {"layout": "stream", "recompute": "blocks"}, ("true", False, "torch")),
        ("cuda", {"processes": 2}, ("false", False, "torch")),
        (
            "cuda",
            {"layout": "stream", "compile": "false", "attention": "own"},
            ("false", True, "own"),
        ),
    ],
)
def test_a_card_compiles_full_windows_and_replays_updates(new_settings, device, changes, expected):
    auto = {"compile": "auto", "attention": "auto"}
    chosen = new_settings(**(auto | changes))
    settings = chosen.resolved(torch.device(device))
    graphs = records_graphs(chosen, torch.device(device))
    assert (settings.compile, graphs, settings.attention) == expected


def test_compilation_is_refused_on_a_cpu(new_settings):
    settings = new_settings(compile="true")
    with pytest.raises(InputError, match=r"train\.compile"):
        settings.resolved(torch.device("cpu"))
    assert settings.resolved(torch.device("cuda")).compile == "true"


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
