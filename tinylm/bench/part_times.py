"""Where the time of an update goes: each part's forward and backward pass measured, beside what it computes."""

import dataclasses
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from tinylm.kernels.train.ops import training_ops
from tinylm.model.checkpoint import new_model
from tinylm.model.describe import describe
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Block, TinyLM, causal_mask

TRIALS = 5
WHOLE = "forward and backward pass"


@dataclasses.dataclass(frozen=True)
class PartTime:
    """Seconds of all blocks' parts of one kind, or of the whole: median, lowest and highest trial; operations of its
    products (forward and backward, backward counted as twice the forward pass)."""

    part: str
    seconds: float
    low: float
    high: float
    flop: int


def _passes(model: TinyLM, rows: int, precision: str) -> dict[str, Callable[[], Tensor]]:
    """A forward pass of each part on random input, as a number to differentiate: the first block's, the output, all."""
    settings, block = model.settings, model.blocks[0]
    assert isinstance(block, Block)
    attention, device = block.attention, model.embedding.device
    shape = rows, settings.context
    ids, targets = (torch.randint(model.vocab_size, shape, device=device) for _ in range(2))
    places = torch.arange(settings.context, device=device)
    mask = causal_mask(places[None], places, torch.float32)
    turns = None if attention.turns is None else attention.turns[None]
    x, hidden = (torch.randn(*shape, model.width, device=device).requires_grad_() for _ in range(2))
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        qkv = attention.project(x).detach().requires_grad_()
        mixed = (
            model.ops.attention(qkv, attention.scale, mask, 0.0, turns).detach().requires_grad_()
        )
    output = model.output
    weight, bias = (
        (model.embedding, model.output_bias) if output is None else (output.weight, output.bias)
    )
    return {
        "projections": lambda: (
            attention.project(x).float().sum() + attention.join(mixed).float().sum()
        ),
        "attention": lambda: (
            model.ops.attention(qkv, attention.scale, mask, 0.0, turns).float().sum()
        ),
        "feed-forward": lambda: block.feed_forward(x).float().sum(),
        "output, loss": lambda: model.ops.output_loss(
            hidden.flatten(0, 1), weight, bias, targets.flatten()
        ),
        WHOLE: lambda: model.loss(ids, targets),
    }


def _flop(model: TinyLM, tokens: int) -> dict[str, int]:
    """Operations of each part's products, forward and backward."""
    parts = describe(model)
    by = {
        "projections": sum(part.flop for part in parts if part.name == "attention"),
        "attention": sum(part.attention_flop for part in parts),
        "feed-forward": sum(part.flop for part in parts if part.name == "feed-forward"),
        "output, loss": sum(part.flop for part in parts if part.kind == "output"),
    }
    return {name: 3 * tokens * flop for name, flop in (by | {WHOLE: sum(by.values())}).items()}


def part_times(
    settings: ModelSettings,
    vocab_size: int,
    width: int,
    rows: int,
    precision: str,
    device: torch.device,
) -> list[PartTime]:
    """Measure a model of random weights on a mini-batch of `rows` full contexts, without dropout and optimizer.

    The parts are measured alone, in interleaved trials after a warm-up; norms, residual additions and the embedding
    are what the parts leave of the whole.
    """
    settings = dataclasses.replace(settings, dropout=0.0)
    model = (
        new_model(settings, torch.randn(vocab_size, width), training_ops(precision, device))
        .to(device)
        .train()
    )
    passes = _passes(model, rows, precision)
    seen: dict[str, list[float]] = {name: [] for name in passes}
    for trial in range(TRIALS + 1):
        for name, forward in passes.items():
            seconds = _timed(model, forward, precision, device)
            if trial:  # the first one warms up
                seen[name].append(
                    seconds * (1 if name in ("output, loss", WHOLE) else settings.layers)
                )
    flop = _flop(model, rows * settings.context)
    return [
        PartTime(name, statistics.median(times), min(times), max(times), flop[name])
        for name, times in seen.items()
    ]


def _timed(
    model: TinyLM, forward: Callable[[], Tensor], precision: str, device: torch.device
) -> float:
    model.zero_grad(set_to_none=True)
    _synchronize(device)
    begun = time.perf_counter()
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        found = forward()
    found.backward()
    _synchronize(device)
    return time.perf_counter() - begun


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def format_times(parts: list[PartTime]) -> str:
    """As an aligned table for a terminal."""
    whole = next(part for part in parts if part.part == WHOLE)
    lines = [f"{'':26}  {'ms':>9}  {'trials':>17}  {'of time':>7}  {'of FLOP':>7}  {'GFLOP/s':>8}"]
    for part in parts:
        trials = f"{1e3 * part.low:,.2f} to {1e3 * part.high:,.2f}"
        shares = f"{part.seconds / whole.seconds:7.0%}  {part.flop / whole.flop:7.0%}"
        rate = f"{part.flop / part.seconds / 1e9:8,.1f}"
        lines.append(f"{part.part:26}  {1e3 * part.seconds:9,.2f}  {trials:>17}  {shares}  {rate}")
    return "\n".join(lines)
