"""What else native kernels promise: rounding, refusals, the same bytes on any number of threads; how they are compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.support.small import needs_compiler, random_model
from tinylm.kernels.library import CannotCompile, Library, _processor, compiler
from tinylm.kernels.train.binding import checked_ptr
from tinylm.kernels.train.dropout import NativeAddDropout
from tinylm.kernels.train.ops import ManualGradOps, NativeOps
from tinylm.kernels.train.softmax_gradient import native_softmax_gradient

LOW = torch.bfloat16


@needs_compiler
def test_numbers_are_rounded_as_torch_rounds_them():
    """To the nearest, ties to even: as many ties as not, at every size and sign."""
    grad = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).mul_(1 << 15).view(torch.float32)
    grad = grad[grad.isfinite()].contiguous()
    x = grad.clone().requires_grad_()
    y = grad.to(LOW).requires_grad_()
    NativeAddDropout.apply(x, y, 0.0).backward(grad)
    assert torch.equal(y.grad, grad.to(LOW))


@needs_compiler
@pytest.mark.parametrize("dtype", [LOW, torch.float32])
def test_a_loss_that_is_not_finite_is_nan_and_an_unknown_word_is_refused(dtype):
    logits = torch.zeros(2, 5, dtype=dtype)
    for wrong in (-1, 5):
        with pytest.raises(IndexError):
            native_softmax_gradient(logits, torch.tensor([0, wrong]))
    logits[1, 3] = float("nan")
    assert native_softmax_gradient(logits, torch.tensor([0, 1]))[0].isnan()


def loss_and_gradients(model, ids, dtype) -> Tensor:
    """In one vector."""
    model.zero_grad()
    torch.manual_seed(3)
    with torch.autocast("cpu", LOW, enabled=dtype is LOW):
        loss = model.loss(ids[:, :-1], ids[:, 1:])
    loss.backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat([loss.detach()[None], *gradients])


@needs_compiler
@pytest.mark.parametrize("dtype", [LOW, torch.float32])
@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "post", "heads": 4},
        {"norm_kind": "rms", "activation": "relu"},
        {"norm_kind": "std"},
    ],
    ids=str,
)
def test_a_model_learns_the_same_and_the_same_bytes_on_any_number_of_threads(settings, dtype):
    ids = torch.randint(4, 31, (5, 14), generator=torch.Generator().manual_seed(3))
    results = []
    for ops in (ManualGradOps(), NativeOps()):
        torch.manual_seed(1)
        model = random_model(31, 40, ops=ops, layers=3, **settings).train()
        results.append(loss_and_gradients(model, ids, dtype))
    expected, native = results
    difference = native - expected
    loss, gradients = (0.005, 0.02) if dtype is LOW else (1e-6, 1e-5)
    assert abs(difference[0]) < loss * expected[0]
    assert 0 < difference[1:].norm() < gradients * expected[1:].norm()
    dropping = random_model(31, 40, ops=NativeOps(), layers=3, dropout=0.2, **settings).train()
    one_thread = loss_and_gradients(dropping, ids, dtype)
    torch.set_num_threads(2)
    assert torch.equal(one_thread, loss_and_gradients(dropping, ids, dtype))


@needs_compiler
@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros(2, 3, dtype=torch.float64),
        torch.zeros(3, 2),
        torch.zeros(3, 2).T,
        torch.zeros(2, 3, device="meta"),
    ],
    ids=["type", "shape", "order", "device"],
)
def test_no_kernel_is_given_other_memory_than_it_takes(wrong):
    assert checked_ptr(torch.zeros(2, 3), torch.float32, 2, 3)
    with pytest.raises(TypeError):
        checked_ptr(wrong, torch.float32, 2, 3)


@needs_compiler
@pytest.mark.skipif("avx512f" not in _processor(), reason="compiled for AVX2 in any case")
def test_the_kernels_are_the_same_when_they_are_compiled_for_avx2(tmp_path):
    """A compiler that takes the processor for one without AVX-512; the tests of each operation then run once more."""
    wrapper = tmp_path / "c++"
    wrapper.write_text(f'#!/bin/sh\nexec {compiler()} "$@" -march=haswell\n')
    wrapper.chmod(0o755)
    env = os.environ | {"CXX": str(wrapper), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", str(Path(__file__).with_name("test_ops.py"))]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.glob("tinylm/training-*.so"))


def test_choosing_a_decoding_step_does_not_load_torchs_compiler():
    """Loading it takes seconds, in each command and each trial of a bench."""
    lines = (
        "import sys",
        "from tests.support.small import random_model",
        "from tinylm.kernels.decoding.step import decoding_step",
        "print(decoding_step(random_model(9, 8)).name, 'torch._dynamo' in sys.modules)",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"


SOURCE = 'extern "C" int seven() { return SEVEN; }\n'


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.cpp").write_text(SOURCE)
    return Library("a", (tmp_path / "a.cpp",), tries=(("-DSEVEN=none",), ("-DSEVEN=7",)))


@needs_compiler
def test_the_first_flags_that_work_are_taken_and_another_source_is_another_library(
    library, tmp_path
):
    assert library.load().seven() == 7
    old = library.path()
    (tmp_path / "a.cpp").write_text(SOURCE.replace("SEVEN;", "SEVEN + 0;"))
    assert library.path() != old
    assert library.load().seven() == 7


@needs_compiler
def test_without_a_compiler_nothing_is_loaded(library, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CannotCompile):
        library.load()
