"""What else native kernels promise: rounding, refusals, any number of threads."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.small import needs_compiler, random_model
from tinylm.kernels.train.attention import NativeAttention
from tinylm.kernels.train.binding import checked_ptr
from tinylm.kernels.train.dropout import NativeAddDropout
from tinylm.kernels.train.ops import ManualGradOps, NativeOps
from tinylm.kernels.train.output_loss import native_softmax_gradient, output_loss
from tinylm.model.loss import token_loss
from tinylm.model.transformer import causal_mask

B, T, H, WIDTH = 3, 11, 2, 5
LOW = torch.bfloat16
ROUNDING = 2.0**-8  # the largest relative error of one rounding to bfloat16


def found(function, toward: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Result and gradients, in float64."""
    own = [x.detach().clone().requires_grad_() for x in inputs]
    torch.manual_seed(5)
    y = function(*own)
    y.backward(toward.to(y.dtype))
    return [t.detach().double() for t in (y, *(x.grad for x in own))]


def assert_near(ours: list[Tensor], exact: list[Tensor], share: float) -> None:
    for one, other in zip(ours, exact, strict=True):
        assert other.norm() > 0
        assert (one - other).norm() < share * other.norm()


@needs_compiler
def test_what_a_mask_hides_weighs_nothing():
    joined = torch.randn(1, T, 3, H, WIDTH).to(LOW)
    mask = causal_mask(torch.arange(T)[None], torch.arange(T), torch.float32)
    results = []
    for last in (0.0, 50.0):
        joined[0, -1] = last  # no other position sees it
        results.append(NativeAttention.apply(joined, torch.ones(H, 1, 1), mask, 0.0, None))
    assert torch.equal(*(y[:, :-1] for y in results))
    assert not torch.equal(*results)


@needs_compiler
def test_numbers_are_rounded_as_torch_rounds_them():
    """To the nearest, ties to even: as many ties as not, at every size and sign."""
    grad = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).mul_(1 << 15).view(torch.float32)
    grad = grad[grad.isfinite()].contiguous()
    _, _, by_y = found(lambda x, y: NativeAddDropout.apply(x, y, 0.0), grad, grad, grad.to(LOW))
    assert torch.equal(by_y, grad.to(LOW).double())


@needs_compiler
def test_powers_are_exact_to_a_millionth():
    for x in torch.linspace(-80, 0, 161).to(LOW):
        exact = x.double().exp().log1p().item()
        nats, _ = native_softmax_gradient(torch.stack([x, x * 0])[None], torch.tensor([1]))
        assert nats.item() == pytest.approx(exact, 5e-7, 1e-7)


@needs_compiler
@pytest.mark.parametrize("words", [31, 1003])
def test_softmax_and_its_loss(words):
    logits, targets = (torch.randn(B * T, words) * 4).to(LOW), torch.randint(words, (B * T,))
    exact = logits.double()
    by = torch.softmax(exact, -1) - F.one_hot(targets, words)
    ours, shares = native_softmax_gradient(logits, targets)
    assert ours == pytest.approx(token_loss(exact, targets).sum().item(), rel=1e-6)
    assert ((logits.double() * shares - by).abs() <= 1.01 * ROUNDING * by.abs() + 1e-7).all()


@needs_compiler
def test_a_loss_of_what_is_no_number_is_none_and_a_word_that_is_none_is_refused():
    logits = torch.zeros(2, 5, dtype=LOW)
    for wrong in (-1, 5):
        with pytest.raises(IndexError, match="0 to 4"):
            native_softmax_gradient(logits, torch.tensor([0, wrong]))
    logits[1, 3] = float("nan")
    assert native_softmax_gradient(logits, torch.tensor([0, 1]))[0].isnan()


@needs_compiler
@pytest.mark.parametrize("scored", [0, 700, 1500])
def test_the_output_layer(scored):
    """Of 1,500 rows, which are two chunks."""
    hidden, weight, bias = torch.randn(1500, 24), torch.randn(61, 24), torch.randn(61)
    targets = torch.randint(61, (1500,))
    targets[torch.randperm(1500)[scored:]] = -1
    results = []
    for native in (True, False):
        loss = partial(output_loss, targets=targets, native=native)
        with torch.autocast("cpu", LOW):
            results.append(found(loss, torch.ones(()), hidden, weight, bias))
    for one, other in zip(*results, strict=True):
        assert (one - other).norm() <= 0.003 * other.norm()


def one_pass(model, ids) -> tuple[Tensor, Tensor]:
    model.zero_grad()
    torch.manual_seed(3)
    with torch.autocast("cpu", LOW):
        loss = model.loss(ids[:, :-1], ids[:, 1:])
    loss.backward()
    return loss.detach(), torch.cat(
        [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    )


@needs_compiler
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm": "post", "heads": 4},
        {"norm_kind": "rms", "activation": "relu"},
        {"norm_kind": "std"},
    ],
    ids=["pre", "post, ragged heads", "rms, relu", "std"],
)
def test_a_model_learns_the_same_and_the_same_bytes_on_any_number_of_threads(settings):
    settings = {"layers": 3, **settings}
    ids = torch.randint(4, 31, (5, 14), generator=torch.Generator().manual_seed(3))
    passes = []
    for ops in (ManualGradOps(), NativeOps()):
        torch.manual_seed(1)
        passes.append(one_pass(random_model(31, 40, ops=ops, **settings).train(), ids))
    plain, native = passes
    assert abs(native[0] - plain[0]) < 0.005 * plain[0]
    assert 0 < (native[1] - plain[1]).norm() < 0.02 * plain[1].norm()
    model = random_model(31, 40, ops=NativeOps(), dropout=0.2, **settings).train()
    one = one_pass(model, ids)
    torch.set_num_threads(2)
    assert all(map(torch.equal, one, one_pass(model, ids)))


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
    with pytest.raises(
        TypeError, match=r"a kernel was given .*; allowed: torch.float32 \(2, 3\) in order on cpu"
    ):
        checked_ptr(wrong, torch.float32, 2, 3)
