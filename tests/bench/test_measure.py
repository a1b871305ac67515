import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.bench import measure
from tinylm.host.command import is_out_of_memory

CPU = torch.device("cpu")
MIB_FLOATS = (1 << 20) // 4


def test_peak_is_what_lives_at_once():
    def step():
        first = torch.empty(3 * MIB_FLOATS)
        del first
        second, third = torch.empty(2 * MIB_FLOATS), torch.empty(5 * MIB_FLOATS)
        return len(second) + len(third)

    assert measure.peak_mib(step, CPU) == pytest.approx(7, abs=0.01)


def test_peak_leaves_out_what_was_there_before():
    weights = torch.ones(6 * MIB_FLOATS)
    assert measure.peak_mib(
        lambda: torch.empty(2 * MIB_FLOATS) + len(weights), CPU
    ) == pytest.approx(4, abs=0.01)


def test_peak_counts_the_release_of_what_before_allocated():
    held = []

    def step():
        held.clear()
        held.append(torch.empty(8 * MIB_FLOATS))
        return torch.empty(MIB_FLOATS)

    peak = measure.peak_mib(step, CPU, before=lambda: held.append(torch.empty(8 * MIB_FLOATS)))
    assert peak == pytest.approx(1, abs=0.01)


def test_peak_of_gradients_in_a_backward_pass():
    weight = torch.ones(MIB_FLOATS, requires_grad=True)

    def step():
        weight.grad = None
        weight.sum().backward()

    assert measure.peak_mib(step, CPU) == pytest.approx(1, abs=0.01)
    weight.grad = None
    assert measure.peak_mib(step, CPU, before=step) == pytest.approx(0, abs=0.01)


def test_peak_is_none_where_nothing_was_recorded():
    assert measure.peak_mib(lambda: None, CPU) is None


def test_own_process_returns_the_dict_and_is_another_process():
    assert measure.in_own_process(dict, [("a", 1)]) == {"a": 1}
    assert measure.in_own_process(os.getpid) != os.getpid()


@pytest.mark.parametrize(
    ("function", "argument", "error"),
    [
        (bytearray, 1 << 60, "oom"),
        (signal.raise_signal, signal.SIGKILL, measure.KILLED),
        (os._exit, 3, "its process ended with exit code 3"),
        (int, "three", "ValueError: invalid literal"),
    ],
)
def test_own_process_that_fails_or_dies_is_an_error_of_its_setting(function, argument, error):
    assert measure.in_own_process(function, argument)["error"].startswith(error)


def test_own_process_passes_bad_input_on(tmp_path):
    with pytest.raises(InputError, match=r"absent\.json is missing"):
        measure.in_own_process(read_json, str(tmp_path / "absent.json"))


@pytest.mark.parametrize(
    "text", ["[enforce fail] DefaultCPUAllocator: can't allocate memory", "CUDA out of memory."]
)
def test_torch_allocators_errors_are_oom(text):
    assert is_out_of_memory(RuntimeError(text))
    assert not is_out_of_memory(RuntimeError("size mismatch"))


def test_median_leaves_the_warm_up_out(monkeypatch):
    clock = iter([0.0, 200.0, 201.0, 300.0, 302.0, 400.0, 409.0])  # the warm-up is not stopped
    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    calls = []
    assert measure.median_seconds(lambda: calls.append(1), repeats=3, device=CPU) == 2.0
    assert len(calls) == 4


BUSY = """
import os, sys
from tests.bench.test_measure import busy
from tinylm.bench import measure
if __name__ == "__main__":
    measure.in_own_process(busy, sys.argv[1])
"""


def busy(note):
    """Computes without a pause, as a bench does, once its process id is known."""
    Path(note).with_suffix(".new").write_text(str(os.getpid()))
    Path(note).with_suffix(".new").rename(note)
    x = torch.rand(200, 200)
    while True:
        x = torch.tanh(x @ x)


def test_what_measures_ends_when_its_parent_is_killed(tmp_path):
    """The process is a child of the fork server, not of the stage that is killed, and held the server alive too."""
    note, root = tmp_path / "pid", str(Path(__file__).parents[2])
    words = [sys.executable, "-c", BUSY, str(note)]
    with subprocess.Popen(words, cwd=root, env=os.environ | {"PYTHONPATH": root}) as parent:
        while not note.exists():
            assert parent.poll() is None
            time.sleep(0.02)
        child = psutil.Process(int(note.read_text()))
        server = child.parent()
        parent.kill()
    _, alive = psutil.wait_procs([child, server], timeout=20)
    for process in alive:
        process.kill()
    assert alive == []
