"""Each operation of training, by each kernel, against the plain reference: results and gradients."""

import contextlib
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.small import model_settings, needs_compiler
from tinylm.kernels.train import cuda_output_loss
from tinylm.kernels.train import linear as fp32_linear
from tinylm.kernels.train import output_loss as module
from tinylm.kernels.train.dropout import keep_level, new_seed
from tinylm.kernels.train.ops import ManualGradOps, NativeOps
from tinylm.kernels.train.output_loss import output_loss
from tinylm.kernels.train.softmax_gradient import fused_softmax_gradient
from tinylm.model import ops as plain_module
from tinylm.model.ops import REFERENCE
from tinylm.model.transformer import Norm, causal_mask, rope_table

B, T, H, DH, D, INNER, V = 3, 11, 2, 5, 24, 37, 61
NATIVE = pytest.param(NativeOps, marks=needs_compiler)
TOLERANCE = {"fp64": 1e-12, "fp32": 2e-6, "bf16": 0.012}  # of a result's or gradient's length


def random_bits(seed: int, count: int) -> np.ndarray:
    """What the kernels draw, written once more: SplitMix64 (Steele, Lea and Flood 2014), four numbers of each word."""
    words = np.arange(1, -(-count // 4) + 1, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    ) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return (words ^ (words >> np.uint64(31))).view(np.int16)[:count]


def dropped(x: Tensor, dropout: float) -> Tensor:
    """dropout(x) with the kernels' random numbers."""
    if not dropout:
        return x
    level, factor = keep_level(dropout)
    bits = torch.from_numpy(random_bits(new_seed(), x.numel()).copy()).view(x.shape)
    return x * (bits >= level) * factor


def like(x: Tensor) -> tuple[float, Tensor]:
    """Scale and causal mask, in float32 but for a float64 x."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    positions = torch.arange(x.shape[1])
    return SCALE, causal_mask(positions[None], positions, dtype)


class Layer(NamedTuple):
    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


SCALE = 0.4
ROPE = rope_table(T, 6)[None]
TARGETS = torch.randint(V, (B * T,), generator=torch.Generator().manual_seed(2))
TARGETS[::4] = -1
# operation: (sizes of the tensors that get gradients, a call with them)
CASES = {
    "attention": ([(B, T, 3, H, DH)], lambda ops, x: ops.attention(x, *like(x), 0.0)),
    "attention over several blocks": (
        [(1, 150, 3, H, 40)],
        lambda ops, x: ops.attention(x, *like(x), 0.0),
    ),
    "attention, equal large scores": (
        [(1, 70, 1, H, DH)],
        lambda ops, x: ops.attention(torch.cat([x * 0 + 3e3] * 2 + [x], 2), *like(x), 0.0),
    ),
    "attention, rotary positions": (
        [(B, T, 3, H, 6)],
        lambda ops, x: ops.attention(x, *like(x), 0.0, ROPE),
    ),
    "layer norm": ([(B, T, D), (D,), (D,)], lambda ops, *x: ops.norm(*x, 1e-5, "layer")),
    "rms norm": ([(B, T, D), (D,)], lambda ops, *x: ops.norm(*x, None, 1e-5, "rms")),
    "std norm": ([(B, T, D), (D,), (D,)], lambda ops, *x: ops.norm(*x, 1e-5, "std")),
    "linear": (
        [(B, T, D), (INNER, D), (INNER,)],
        lambda ops, x, *weight_and_bias: ops.linear(x, Layer(*weight_and_bias)),
    ),
    "linear, no bias": (
        [(B, T, D), (INNER, D)],
        lambda ops, x, weight: ops.linear(x, Layer(weight, None)),
    ),
    "dropout of nothing": ([(B, T, D)], lambda ops, x: ops.dropout(x, 0.0) * 1.0),
    "residual": ([(B, T, D), (B, T, D)], lambda ops, x, y: ops.add_dropout(x, y, 0.0)),
    "output loss": ([(B * T, D), (V, D), (V,)], lambda ops, *x: ops.output_loss(*x, TARGETS)),
}


def results(ops, case: str, dtype: torch.dtype, autocast: bool) -> list[Tensor]:
    sizes, call = CASES[case]
    generator = torch.Generator().manual_seed(7)
    inputs = [
        torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for size in sizes
    ]
    if case.startswith("attention") and autocast:
        inputs = [x.bfloat16() for x in inputs]
    inputs = [x.requires_grad_() for x in inputs]
    with torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
        y = call(ops, *inputs)
    toward = torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype)
    y.backward(toward if y.dim() else None)
    return [y.detach().double(), *(x.grad.double() for x in inputs)]


@pytest.mark.parametrize("precision", ["fp64", "fp32", "bf16"])
@pytest.mark.parametrize("kernel", [ManualGradOps, NATIVE])
@pytest.mark.parametrize("case", CASES)
def test_an_operation_equals_the_reference(case, kernel, precision):
    if kernel is NativeOps and precision == "fp64":
        pytest.skip("native kernels take float32 and bfloat16")
    exact = results(REFERENCE, case, torch.float64, False)
    dtype = torch.float64 if precision == "fp64" else torch.float32
    ours = results(kernel(), case, dtype, precision == "bf16")
    for one, other in zip(ours, exact, strict=True):
        assert (one - other).norm() <= TOLERANCE[precision] * other.norm()


@needs_compiler
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_native_kernels_drop_what_their_random_numbers_say(dropout, low):
    x = torch.randn(B, T, D)
    y = torch.randn(B, T, D).to(low)
    qkv = torch.randn(B, T, 3, H, DH).to(low)

    class Drawn(type(REFERENCE)):  # the reference with these numbers
        def dropout(self, x, dropout):
            return dropped(x, dropout)

    def results(ops, dtype=None):
        """(result, gradients) of each operation that drops."""
        inputs = [
            tensor.detach().to(dtype or tensor.dtype).requires_grad_() for tensor in (x, y, qkv)
        ]
        results = []
        for call in (
            lambda x, y, qkv: ops.dropout(x, dropout),
            lambda x, y, qkv: ops.add_dropout(x, y, dropout),
            lambda x, y, qkv: ops.attention(qkv, *like(qkv), dropout),
        ):
            torch.manual_seed(5)
            with torch.autocast("cpu", low, enabled=dtype is None and low is torch.bfloat16):
                z = call(*inputs)
            grads = torch.autograd.grad(z.double().square().sum(), inputs, allow_unused=True)
            results.append([z.double(), *(g.double() for g in grads if g is not None)])
        return results

    native = results(NativeOps())
    exact = results(Drawn(), torch.float64)
    for ours, wanted in zip(native, exact, strict=True):
        for one, other in zip(ours, wanted, strict=True):
            assert (one - other).norm() < (0.015 if low is torch.bfloat16 else 2e-6) * other.norm()
    dropped_share = (native[0][0] == 0).double().mean().item()
    assert torch.equal(native[0][0] == 0, exact[0][0] == 0)
    assert dropped_share == pytest.approx(dropout, abs=0.06)


def test_torchs_own_attention_is_the_same_and_drops_while_training():
    qkv = torch.randn(B, T, 3, H, 6, dtype=torch.float64)
    mask = causal_mask(torch.arange(T)[None], torch.arange(T), torch.float64)
    fused = ManualGradOps(fused_attention=True)
    for rope in (None, ROPE):
        expected = REFERENCE.attention(qkv, SCALE, mask, 0.0, rope)
        torch.testing.assert_close(fused.attention(qkv, SCALE, mask, 0.0, rope), expected)
    assert not torch.equal(*(fused.attention(qkv, SCALE, mask, 0.5) for _ in range(2)))


@pytest.mark.parametrize("ops", [ManualGradOps(fused_attention=True), NativeOps()])
def test_fused_attention_refuses_a_mask_for_each_row(ops):
    qkv = torch.zeros(B, T, 3, H, 6)
    with pytest.raises(ValueError, match=f"got {B} masks"):
        ops.attention(qkv, SCALE, torch.zeros(B, 1, T, T), 0.0)


@pytest.mark.parametrize("kind", ["layer", "std"])
def test_a_constant_row_gives_the_bias_and_a_finite_gradient(kind):
    norm = Norm(7, model_settings(norm_kind=kind), ManualGradOps()).train()
    with torch.no_grad():
        norm.bias.copy_(torch.arange(7.0))
    x = torch.full((2, 7), 5.0, requires_grad=True)
    y = norm(x)
    y.square().sum().backward()
    assert torch.equal(y[0], torch.arange(7.0))
    assert torch.isfinite(x.grad).all()


PAD, WORDS, WIDTH = -1, 29, 7


def example(rows: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    hidden = torch.randn(rows, WIDTH, dtype=dtype, requires_grad=True)
    weight = torch.randn(WORDS, WIDTH, dtype=dtype, requires_grad=True)
    bias = torch.randn(WORDS, dtype=dtype, requires_grad=True)
    targets = torch.randint(0, WORDS, (rows,))
    targets[::5] = PAD
    return hidden, weight, bias, targets


def plain(hidden, weight, bias, targets):
    return F.cross_entropy(
        F.linear(hidden, weight, bias), targets, ignore_index=PAD, reduction="sum"
    )


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("rows", [1, 12, 13, 14, 26, 40])  # around borders of chunks of 13
def test_output_loss_matches_torch(monkeypatch, rows, with_bias):
    monkeypatch.setattr(module, "LOGITS_BYTES", 13 * 8 * WORDS)
    monkeypatch.setattr(module, "PART_ROWS", 13)
    monkeypatch.setattr(plain_module, "CHUNK_ROWS", 13)
    hidden, weight, bias, targets = example(rows)
    targets[0] = 5
    bias = bias if with_bias else None
    inputs = [t for t in (hidden, weight, bias) if t is not None]
    ours = output_loss(hidden, weight, bias, targets)
    theirs = plain(hidden, weight, bias, targets)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    gradients = torch.autograd.grad(ours * 3, inputs)
    wanted = torch.autograd.grad(theirs * 3, inputs)
    torch.testing.assert_close(gradients, wanted, rtol=1e-11, atol=1e-12)
    with torch.no_grad():
        assert output_loss(hidden, weight, bias, targets).item() == pytest.approx(theirs.item())


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("with_bias", [True, False])
def test_the_output_loss_of_cuda_matches_torch_where_it_pads(monkeypatch, with_bias, compiled):
    """On the CPU and without the compiler; tests/cuda runs all of it on a card."""
    monkeypatch.setattr(cuda_output_loss, "TORCH_CHUNK_ROWS", 13)
    monkeypatch.setattr(cuda_output_loss, "COMPILED_CHUNK_ROWS", 13)
    monkeypatch.setattr(
        cuda_output_loss, "compiled_softmax_gradient", lambda: fused_softmax_gradient
    )
    hidden, weight, bias, targets = example(40)
    bias = bias if with_bias else None
    inputs = [t for t in (hidden, weight, bias) if t is not None]
    ours = cuda_output_loss.CudaOutputLoss.apply(hidden, weight, bias, targets, compiled)
    theirs = plain(hidden, weight, bias, targets)
    tolerance = (
        {"rtol": 1e-5, "atol": 1e-6} if compiled else {"rtol": 1e-11, "atol": 1e-12}
    )  # the former in float32
    torch.testing.assert_close(ours, theirs, **tolerance)
    gradients = torch.autograd.grad(ours * 3, inputs)
    wanted = torch.autograd.grad(theirs * 3, inputs)
    torch.testing.assert_close(gradients, wanted, **tolerance)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("frozen", [(), (1,), (2,), (1, 2)], ids=str)
def test_bfloat16_stays_close_to_float32_and_sums_in_float32(monkeypatch, padded, frozen):
    """Over several chunks, whatever is frozen, with a gradient from above that is not 1."""
    inputs = example(1400, torch.float32)
    monkeypatch.setattr(module, "LOGITS_BYTES", 500 * 2 * len(inputs[1]))
    if not padded:
        inputs[3].clamp_(min=0)
    for number in frozen:
        inputs[number].requires_grad_(False)
    learns = [tensor for tensor in inputs[:3] if tensor.requires_grad]
    expected = plain(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        loss = output_loss(*inputs)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=5e-3)
    gradients = torch.autograd.grad(3 * loss, learns)
    wanted = torch.autograd.grad(3 * expected, learns)
    for one, other in zip(gradients, wanted, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.02 * other.norm()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_batch_without_a_scored_row_has_no_loss_and_no_gradient(precision):
    hidden, weight, bias, targets = example(9, torch.float32)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        loss = output_loss(hidden, weight, bias, torch.full_like(targets, PAD))
    loss.backward()
    assert loss == 0
    assert all(tensor.grad.eq(0).all() for tensor in (hidden, weight, bias))


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["attention", "layer norm", "output loss"])
def test_a_kernel_does_not_depend_on_torchs_default_type(name, dtype):
    sizes, operation = CASES[name]
    tensors = [torch.randn(size) for size in sizes]
    expected = operation(NativeOps(), *tensors)
    torch.set_default_dtype(dtype)
    try:
        found = operation(NativeOps(), *tensors)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "changed",
    [
        lambda x, weight, bias: x @ weight.T,  # no bias
        lambda x, weight, bias: F.linear(x, weight, bias) + 1e-3,
        lambda x: x,  # other arguments
    ],
)
def test_an_operation_of_torch_that_has_changed_is_not_used(monkeypatch, changed):
    monkeypatch.setattr(fp32_linear, "_onednn_linear", changed)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    fp32_linear._has_onednn.cache_clear()
    assert not fp32_linear.uses_onednn(torch.ones(2, 2))
    fp32_linear._has_onednn.cache_clear()
