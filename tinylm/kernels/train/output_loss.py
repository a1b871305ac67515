"""Output layer and cross-entropy as one operation with hand-written gradients, in chunks of rows."""

import math
from typing import Any

import torch
from torch import Tensor

from tinylm.kernels.train.binding import call, checked_ptr
from tinylm.model.loss import CHUNK_ROWS, output_token_loss

BF16_CHUNK_ROWS = (
    CHUNK_ROWS // 2
)  # rows of logits alive at a time in bf16: two threads may each have so many
PART_ROWS = 64  # the same, if logits are computed twice
PART_COLUMNS = (
    2048  # words whose weights' gradient is summed up at a time: it stays in a core's cache
)
MAX_LOSS = 87.0  # nats of a token in bf16: -ln of the smallest normal float32 or bfloat16


def _slices(start: int, stop: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def _grad_of_logits(logits: Tensor, log_total: Tensor, targets: Tensor, columns: slice) -> Tensor:
    """Overwrite some columns of the logits (n, C) with dL/dlogits = softmax - one-hot, zero where not scored."""
    logits.sub_(log_total).exp_()
    inside = ((targets >= columns.start) & (targets < columns.stop)).nonzero()[:, 0]
    logits[inside, targets[inside] - columns.start] += -1.0
    return logits.mul_((targets >= 0).to(logits.dtype)[:, None])


class OutputLoss(torch.autograd.Function):
    """Loss and gradients of all inputs in one pass over chunks of rows; backward only scales them.

    The reference, in the precision of its inputs; `OutputLossBF16` is the same in bf16. `twice`: a chunk's logits are
    computed twice, `PART_ROWS` rows at a time for the gradient of the hidden states and `PART_COLUMNS` columns at a
    time for that of the weights, and never exist as a whole. Each sum runs over the same numbers in the same order.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, twice: bool
    ) -> Tensor:
        total = hidden.new_zeros(())
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        grad_bias = None if bias is None else torch.zeros_like(bias)
        buffer = hidden.new_empty(min(PART_ROWS if twice else CHUNK_ROWS, len(hidden)), len(weight))
        everything = slice(0, len(weight))
        for chunk in _slices(0, len(hidden), CHUNK_ROWS):
            losses, log_totals = [], []
            for rows in _slices(chunk.start, chunk.stop, len(buffer)):
                logits = torch.mm(
                    hidden[rows], weight.T, out=buffer[: rows.stop - rows.start]
                )  # (n, V)
                if bias is not None:
                    logits += bias
                chosen = logits.gather(-1, targets[rows].clamp(min=0)[:, None])
                log_total = torch.cat(
                    [part.logsumexp(-1, keepdim=True) for part in logits.split(PART_ROWS)]
                )
                losses.append((log_total - chosen)[:, 0] * (targets[rows] >= 0))
                log_totals.append(log_total)
                torch.mm(
                    _grad_of_logits(logits, log_total, targets[rows], everything),
                    weight,
                    out=grad_hidden[rows],
                )
            total += torch.cat(losses).sum()
            if grad_bias is not None and not twice:
                grad_bias += logits.sum(0)
            for columns in _slices(
                0, len(weight) if any(ctx.needs_input_grad[1:3]) else 0, PART_COLUMNS
            ):
                if twice:
                    part = hidden[chunk] @ weight[columns].T
                    if bias is not None:
                        part += bias[columns]
                    part = _grad_of_logits(part, torch.cat(log_totals), targets[chunk], columns)
                    if grad_bias is not None:
                        grad_bias[columns] += part.sum(0)
                else:
                    part = logits[:, columns]
                if grad_weight is not None:
                    grad_weight[columns] += part.T @ hidden[chunk]
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # In place, since a second copy would be as large as the weights; autograd then refuses a second call.
        scaled = [None if grad is None else grad.mul_(grads[0]) for grad in ctx.saved_tensors]
        return *scaled, None, None


class OutputLossBF16(torch.autograd.Function):
    """`OutputLoss` in bf16: fewer passes over the logits, which dominate its memory traffic.

    The bias becomes two more columns of the weights (its bf16 value and the remainder) that meet ones in the hidden
    states, so the products add it and sum its gradient. One buffer holds each chunk's logits and, in their place,
    softmax - one-hot, but for a factor of each row. Rows that are not scored are left out. Sums over chunks are
    float32. native: C++ for all but the products. low_weight: `in_low` of weight and bias, if there is one already.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        low: torch.dtype,
        native: bool,
        low_weight: Tensor | None,
    ) -> Tensor:
        chunk_loss, sum_up = (
            (native_loss, native_sum_up) if native else (_torch_loss, _torch_sum_up)
        )
        scored = targets >= 0
        ctx.rows = None if bool(scored.all()) else scored.nonzero()[:, 0]
        kept = hidden if ctx.rows is None else hidden[ctx.rows]
        targets = targets if ctx.rows is None else targets[ctx.rows]
        w = in_low(weight, bias, low) if low_weight is None else low_weight
        h = _with_ones(kept, w)
        grad_hidden = torch.empty(kept.shape, device=h.device)
        learns = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        grad_weight = (
            (torch.empty if len(h) else torch.zeros)(w.shape, device=w.device) if learns else None
        )
        buffer = torch.empty(min(BF16_CHUNK_ROWS, len(h)), len(w), dtype=low, device=h.device)
        of_part = (
            torch.empty(PART_COLUMNS, w.shape[1], dtype=low, device=h.device) if learns else None
        )
        total = torch.zeros((), dtype=torch.float64, device=h.device)
        for start in range(0, len(h), BF16_CHUNK_ROWS):
            rows = slice(start, start + BF16_CHUNK_ROWS)
            logits = torch.mm(h[rows], w.T, out=buffer[: len(h[rows])])  # (n, V)
            nats, shares = chunk_loss(logits, targets[rows])
            total += nats
            torch.mul(torch.mm(logits, w)[:, : hidden.shape[1]], shares, out=grad_hidden[rows])
            if grad_weight is None or of_part is None:
                continue
            scaled = (h[rows] * shares).to(low)
            for words in _slices(0, len(w), PART_COLUMNS):
                part = torch.mm(logits[:, words].T, scaled, out=of_part[: len(w[words])])
                sum_up(grad_weight[words], part, start == 0)
        ctx.grads = [grad_hidden, grad_weight]
        ctx.save_for_backward(total)  # so that autograd refuses a second call
        ctx.shape = hidden.shape
        return total.float()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), _ = grads, ctx.saved_tensors
        joined, grad_kept = (
            ctx.grads.pop(),
            ctx.grads.pop(),
        )  # held by nobody else, autograd adds to them in place
        grad_hidden = grad_kept.mul_(grad)
        if ctx.rows is not None:
            grad_hidden = grad_hidden.new_zeros(ctx.shape).index_copy_(0, ctx.rows, grad_hidden)
        grad_weight = grad_bias = None
        if joined is not None and ctx.needs_input_grad[1]:
            whole = (
                joined.shape[1] == ctx.shape[1]
            )  # then in place: a second copy would be as large as the weights
            grad_weight = joined.mul_(grad) if whole else joined[:, : ctx.shape[1]] * grad
        if joined is not None and ctx.needs_input_grad[2]:
            grad_bias = joined[:, ctx.shape[1]] * grad
        return grad_hidden, grad_weight, grad_bias, None, None, None, None


def in_low(weight: Tensor, bias: Tensor | None, low: torch.dtype) -> Tensor:
    """The weights in `low`, with the columns that represent the bias.  (V, D), (V,) or None -> (V, D')"""
    if bias is None:
        return weight.to(low)
    columns = -(-(weight.shape[1] + 2) // 8) * 8  # products are fastest on rows of whole 16 bytes
    w = weight.new_zeros(len(weight), columns, dtype=low)
    fill_low(w, weight, bias)
    return w


@torch.no_grad()
def fill_low(w: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Write weights and bias where `in_low` has them; the columns that it has made zero stay."""
    width = weight.shape[1]
    w[:, :width] = weight
    if bias is not None:
        w[:, width] = bias
        w[:, width + 1] = bias - w[:, width]


def _with_ones(hidden: Tensor, w: Tensor) -> Tensor:
    """Hidden states that the columns of `in_low` meet, with ones for the bias.  (n, D), (V, D') -> (n, D')"""
    width, columns = hidden.shape[1], w.shape[1]
    if columns == width:
        return hidden.to(w.dtype)
    h = hidden.new_zeros(len(hidden), columns, dtype=w.dtype)
    h[:, :width], h[:, width : width + 2] = hidden, 1.0
    return h


def _torch_sum_up(total: Tensor, part: Tensor, is_first: bool) -> None:
    """total (float32) becomes part if that is the first, else total + part."""
    if is_first:
        total.copy_(part)
        return
    for words in _slices(
        0, len(part), PART_ROWS * 4
    ):  # a mixed sum makes a float32 copy, which is small in parts
        total[words] += part[words]


def _torch_loss(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of a chunk's loss in nats; overwrites the bf16 logits (n, V) with softmax - one-hot, over the shares (n, 1).

    The loss is that of the rounded probabilities, at most `MAX_LOSS`; the gradient has no such bound.
    """
    torch.softmax(logits, -1, out=logits)
    rows = torch.arange(len(targets), device=targets.device)
    chosen = logits[rows, targets]
    logits[rows, targets] = (
        chosen - 1.0
    )  # torch's scatter_ would make a float32 copy of all the logits
    shares = torch.ones(len(targets), 1, device=targets.device)  # softmax has divided already
    return -chosen.double().clamp_(min=math.exp(-MAX_LOSS)).log().sum(), shares


def native_loss(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """`_torch_loss`, summed in float64; the shares are those of the likeliest words.

    Raises IndexError if a target is not a column: memory at the target is written to.
    """
    rows, words = logits.shape
    if rows and not 0 <= int(targets.min()) <= int(targets.max()) < words:
        raise IndexError(
            f"targets from {int(targets.min())} to {int(targets.max())}; allowed: 0 to {words - 1}"
        )
    shares, losses = torch.empty(rows, 1), torch.empty(rows, dtype=torch.float64)
    places = (
        checked_ptr(logits, torch.bfloat16, rows, words),
        checked_ptr(targets, torch.int64, rows),
    )
    call("nats", *places, shares.data_ptr(), losses.data_ptr(), rows, words)
    return losses.sum(), shares


def native_sum_up(total: Tensor, part: Tensor, is_first: bool) -> None:
    """`_torch_sum_up` of a bfloat16 part in one pass."""
    places = (
        checked_ptr(total, torch.float32, *part.shape),
        checked_ptr(part, torch.bfloat16, *part.shape),
    )
    call("sum_up", *places, is_first, part.numel())


def output_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, twice: bool = False, native: bool = False,
    low_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """cross_entropy(hidden weight^T + bias, targets) in chunks of rows, with hand-written gradients.

    hidden (N, D), weight (V, D), bias (V,) or None, targets (N,) -> scalar, sum of nats. Equal to the reference in
    exact arithmetic; the peak is one chunk of logits instead of all N rows and their gradient. twice: a chunk's buffer
    is smaller still and its logits are computed a second time, bit-identical; under autocast it does nothing.
    low_weight: `in_low` of weight and bias for autocast, if the caller has it.
    """
    if not torch.is_grad_enabled() or not any(
        t is not None and t.requires_grad for t in (hidden, weight, bias)
    ):
        return output_token_loss(hidden, weight, bias, targets).sum(dtype=torch.float64)
    device = hidden.device.type
    if torch.is_autocast_enabled(device) and hidden.dtype != torch.float64:
        low = torch.get_autocast_dtype(device)
        return OutputLossBF16.apply(hidden, weight, bias, targets, low, native, low_weight)
    return OutputLoss.apply(hidden, weight, bias, targets, twice)
