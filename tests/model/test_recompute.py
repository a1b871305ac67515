import contextlib

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.support.small import needs_compiler
from tinylm.kernels.train.ops import ManualGradOps, NativeOps
from tinylm.model.recompute import RunRecomputing, recompute, recompute_counts

VARIANTS = [
    {},
    {"dropout": 0.3},
    {"dropout": 0.3, "norm": "post", "heads": 4},
    {"embedding": "frozen", "dropout": 0.2},
    {"embedding": "frozen", "norm": "post", "tied_output": False},
    {
        "dropout": 0.3,
        "norm_kind": "rms",
        "positions": "learned",
        "tied_output": False,
        "output_bias": True,
    },
    {"dropout": 0.3, "norm_kind": "std", "positions": "none", "norm": "post", "qkv_bias": False},
    {"dropout": 0.3, "positions": "rotary", "head_width": 6},
    {
        "embedding": "frozen",
        "norm": "post",
        "positions": "learned",
        "output_bias": True,
        "heads": 1,
    },
]


def autocast(precision: str):
    return (
        contextlib.nullcontext() if precision == "fp32" else torch.autocast("cpu", torch.bfloat16)
    )


def one_step(model, ids, precision: str):
    """Loss, all gradients over two accumulated mini-batches, and the random stream's next draw."""
    model.zero_grad()
    torch.manual_seed(5)
    losses = []
    for rows in (ids[:2], ids[2:]):
        with autocast(precision):
            loss = model.loss(rows, rows)
        loss.backward()
        losses.append(loss.detach())
    return losses, {name: p.grad for name, p in model.named_parameters()}, torch.rand(3)


@pytest.mark.parametrize(
    ("settings", "precision", "kept"),
    [
        pytest.param(
            settings, precision, kept, marks=needs_compiler if precision == "native bf16" else ()
        )
        for number, settings in enumerate(VARIANTS)
        for offset, precision in enumerate(("fp32", "bf16", "native bf16"))
        for kept in [("blocks", "blocks+loss", "sqrt")[(number + offset) % 3]]
    ],
)
def test_recomputation_changes_no_bit_of_loss_gradient_or_random_stream(
    new_model, ids, settings, precision, kept
):
    ops = NativeOps() if precision == "native bf16" else ManualGradOps()
    steps = []
    for on in ("none", kept):
        torch.manual_seed(1)
        model = new_model(ops=ops, run_blocks=RunRecomputing(on), **{"layers": 4} | settings)
        steps.append(one_step(model.float().train(), ids, precision))
    without, with_it = steps
    assert all(map(torch.equal, without[0], with_it[0]))
    for name, gradient in without[1].items():
        if name == "embedding" and settings.get("embedding") == "frozen":
            assert gradient is None
            assert with_it[1][name] is None
        else:
            assert torch.equal(gradient, with_it[1][name]), name
            assert gradient.abs().sum() > 0, name
    assert torch.equal(without[2], with_it[2])


def test_the_last_block_of_all_and_of_a_group_is_computed_once_less():
    assert [recompute_counts(4, kept) for kept in ("none", "blocks", "blocks+loss")] == [
        [0] * 4,
        [1, 1, 1, 0],
        [1] * 4,
    ]
    assert [recompute_counts(layers, "sqrt") for layers in (1, 3, 4, 5)] == [
        [0],
        [1, 1, 0],
        [2, 1, 2, 1],
        [2, 1, 2, 1, 1],
    ]


@pytest.mark.parametrize("kept", ["blocks", "sqrt"])
def test_recomputation_costs_further_forward_passes_of_blocks(new_model, ids, kept):
    counts = {}
    for on in ("none", kept):
        model = new_model(layers=5, run_blocks=RunRecomputing(on)).train()
        with FlopCounterMode(display=False) as forward:
            loss = model.loss(ids, ids)
        with FlopCounterMode(display=False) as backward:
            loss.backward()
        counts[on] = forward.get_total_flops(), backward.get_total_flops()
    with FlopCounterMode(display=False) as blocks, torch.no_grad():
        model.hidden_states(ids)
    assert counts[kept][0] == counts["none"][0]
    again = sum(recompute_counts(5, kept)) * blocks.get_total_flops() // 5
    assert counts[kept][1] == counts["none"][1] + again


def test_groups_of_blocks_keep_fewer_inputs(new_model, ids):
    sizes = {}
    for on in ("none", "blocks", "sqrt"):
        model = new_model(layers=9, run_blocks=RunRecomputing(on)).train()
        with torch.autograd.profiler.profile(profile_memory=True) as profiler:
            loss = model.loss(ids, ids)
        assert loss.requires_grad  # and so all that it keeps is alive
        sizes[on] = sum(
            e.nbytes() for e in profiler.kineto_results.events() if e.name() == "[memory]"
        )
        del loss
    assert sizes["sqrt"] < sizes["blocks"] < sizes["none"]


def test_a_block_keeps_only_its_input():
    weight = torch.randn(7, 7, requires_grad=True)
    calls, kept = [], []

    def block(x, mask):
        calls.append(torch.is_grad_enabled())
        return (x @ weight).relu() @ weight + mask

    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        y = recompute(block, torch.randn(5, 7, requires_grad=True), torch.zeros(1))
    assert kept == [(5, 7), (1,)]
    assert calls == [False]
    y.sum().backward()
    assert calls == [False, True]
    assert weight.grad is not None


def test_without_gradients_nothing_is_recomputed(new_model, ids, monkeypatch):
    model = new_model(run_blocks=RunRecomputing("blocks"))
    monkeypatch.setattr("tinylm.model.recompute.recompute", None)
    with torch.no_grad():
        model(ids)
        model.hidden_states(ids, cache=model.new_cache(5))
