"""What an update computes and moves through memory, by part, counted from the settings."""

import dataclasses
from collections.abc import Iterable

from tinylm.kernels.train.output_loss import BF16_CHUNK_ROWS
from tinylm.model.describe import describe
from tinylm.model.loss import CHUNK_ROWS
from tinylm.model.recompute import mode_of, recompute_counts
from tinylm.model.transformer import TinyLM, block_matrices

WIDE = 4  # bytes of a number in the residual stream and of a weight, gradient or moment
MUON_STEPS = 3  # Newton-Schulz steps of training/muon.py


@dataclasses.dataclass(frozen=True)
class Traffic:
    """One part of an update: floating-point operations of its products, and bytes."""

    part: str
    flop: int
    bytes: int


def _weights(model: TinyLM, low: int) -> int:
    """The blocks' weights: copied to the products' precision if that is lower, read by the forward and the backward
    pass; their gradient is written."""
    size = sum(p.numel() for p in model.blocks.parameters())
    copied = WIDE + low if low < WIDE else 0
    layers = len(model.blocks)
    read = 2 * layers + sum(recompute_counts(layers, mode_of(model)))
    return size // layers * read * low + size * (copied + WIDE)


def _activations(model: TinyLM, tokens: int, low: int) -> int:
    """Written and read once forward, and their gradients backward: four times; twice more if recomputed.

    Per token and block: two sums with the residual in full precision; in the precision of the products, two norms,
    queries, keys and values, the heads' outputs, the outputs of both parts, twice the inner width of the feed-forward
    part and, for each head, the weights of a full context.
    """
    settings, width = model.settings, model.width
    inner = settings.heads * settings.head_width if settings.head_width else width
    numbers = 4 * width + 4 * inner + 2 * settings.feed_forward + settings.heads * settings.context
    passes = 4 * settings.layers + 2 * sum(recompute_counts(settings.layers, mode_of(model)))
    return passes * tokens * (2 * width * WIDE + numbers * low)


def _embedding(model: TinyLM, tokens: int) -> int:
    """One row per token is read and written; if it learns, a gradient of all rows is cleared and added to."""
    learned = model.vocab_size * WIDE + 2 * tokens * WIDE if model.embedding.requires_grad else 0
    return (2 * tokens * WIDE + learned) * model.width


def _output(model: TinyLM, tokens: int, low: int) -> int:
    """Logits: written, read and written by the softmax, read by a product, and by a second one if the weights learn.
    The weights are read twice per chunk of rows, and their gradient is read and written."""
    learns = model.output is not None or model.embedding.requires_grad
    chunks = -(-tokens // (BF16_CHUNK_ROWS if low < WIDE else CHUNK_ROWS))
    weights = model.vocab_size * model.width
    copied = weights * (WIDE + low) if low < WIDE else 0
    return (
        (4 + learns) * tokens * model.vocab_size * low
        + copied
        + weights * chunks * (2 * low + 2 * WIDE * learns)
    )


def _optimizer(model: TinyLM, optimizer: str) -> int:
    """The gradient is read, weight and moments are read and written; the norm of all gradients reads them once more."""
    found, matrices = 0, block_matrices(model)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            moments = 1 if optimizer == "muon" and name in matrices else 2
            found += (1 + 1 + 2 + 2 * moments) * parameter.numel() * WIDE
    return found


def _orthogonalising(model: TinyLM, optimizer: str) -> int:
    """Products of Muon's steps on an m x n map of a block, m <= n: X X^T, its square, and that times X."""
    found = 0
    for matrix, maps in block_matrices(model).values() if optimizer == "muon" else ():
        m, n = sorted((matrix.shape[0] // maps, matrix.shape[1]))
        found += maps * MUON_STEPS * (4 * m * m * n + 2 * m**3)
    return found


def update_traffic(model: TinyLM, tokens: int, optimizer: str, precision: str) -> list[Traffic]:
    """Parts of an update of this many tokens (one mini-batch of full contexts); what caches save is not subtracted."""
    low = 2 if precision == "bf16" else WIDE
    flop = {part: tokens * _flop(model, part) for part in ("blocks", "output")}
    return [
        Traffic("embedding", 0, _embedding(model, tokens)),
        Traffic("blocks: weights", flop["blocks"], _weights(model, low)),
        Traffic("blocks: activations", 0, _activations(model, tokens, low)),
        Traffic("output: logits, loss", flop["output"], _output(model, tokens, low)),
        Traffic(
            "optimizer, norm", _orthogonalising(model, optimizer), _optimizer(model, optimizer)
        ),
    ]


def _flop(model: TinyLM, kind: str) -> int:
    return sum(part.training_flop for part in describe(model) if part.kind == kind)


def format_traffic(parts: Iterable[Traffic]) -> str:
    """As an aligned table for a terminal, with totals."""
    found = list(parts)
    found.append(Traffic("together", sum(p.flop for p in found), sum(p.bytes for p in found)))
    lines = [f"{'':20}  {'GFLOP':>10}  {'MiB':>10}"]
    return "\n".join(
        lines + [f"{p.part:20}  {p.flop / 1e9:10,.2f}  {p.bytes / 2**20:10,.1f}" for p in found]
    )
