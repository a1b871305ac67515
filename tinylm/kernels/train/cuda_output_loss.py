"""The output loss on CUDA: in few large chunks, with the sides of all matrices padded."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.kernels.train.loss_function import LossFunction, chunks, product_dtype
from tinylm.kernels.train.softmax_gradient import compiled_softmax_gradient, torch_softmax_gradient
from tinylm.model.ops import CHUNK_ROWS

COMPILED_CHUNK_ROWS = 16384  # large, since each chunk reads and writes the weights' whole gradient
TORCH_CHUNK_ROWS = CHUNK_ROWS * 4  # fewer, since plain torch also holds tensors of PART_ROWS rows
PART_ROWS = 1024  # rows whose softmax plain torch computes at a time, by several kernels
# Every side of a matrix is padded to a multiple of this. A tensor core loads 16 bytes at a
# time: an H100 took 3.3 times as long for a product of width 300 as for one of width 304.
ALIGNMENT = 8


class CudaOutputLoss(LossFunction):
    """forward(ctx, hidden, weight, bias, targets, compiled): the loss, its softmax compiled or in plain torch.

    Rows that are not scored have a gradient of zero.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        compiled: bool,
    ) -> Tensor:
        gradients = PaddedGradients(hidden, weight, bias, ctx.needs_input_grad[1])
        words = len(weight)
        total = hidden.new_zeros(())
        for rows in chunks(len(hidden), COMPILED_CHUNK_ROWS if compiled else TORCH_CHUNK_ROWS):
            logits = gradients.logits(rows)
            if compiled:
                total += compiled_softmax_gradient()(logits, targets[rows], words)
            else:  # the padded columns are zero, and stay zero
                total += torch_softmax_gradient(logits[:, :words], targets[rows], PART_ROWS)
            gradients.add(rows, grad_logits=logits)
            del logits  # frees them before the next chunk's are allocated
        return LossFunction.finish(ctx, total, gradients.hidden, gradients.weight, gradients.bias)


class PaddedGradients:
    """Gradients of the output layer's inputs, summed over chunks of rows. Products use padded matrices.

    hidden (N, D), weight (V, D) and bias (V,) hold the gradients; None for a weight that needs none
    and a bias that is not there.
    """

    def __init__(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, needs_weight: bool
    ) -> None:
        dtype = product_dtype(hidden)
        self.padded_hidden = padded(hidden, dtype, dims=1)
        self.padded_weight = padded(weight, dtype, dims=2)
        self.padded_bias = None if bias is None else padded(bias, dtype, dims=1)
        self.words = len(weight)
        self.hidden = torch.empty_like(hidden)
        self.weight = torch.empty_like(weight) if needs_weight else None
        self.bias = None if bias is None else torch.zeros_like(bias)

    def logits(self, rows: slice) -> Tensor:
        """Logits of these rows, with padding.  -> (n, V padded)"""
        return F.linear(self.padded_hidden[rows], self.padded_weight, self.padded_bias)

    def add(self, rows: slice, grad_logits: Tensor) -> None:
        """Add what these rows contribute.  grad_logits (n, V padded)"""
        width = self.hidden.shape[1]
        grad_rows = F.linear(grad_logits, self.padded_weight.T)
        self.hidden[rows] = grad_rows[:, :width]
        if self.bias is not None:
            self.bias += grad_logits.sum(0)[: self.words]
        if self.weight is not None:
            h = self.padded_hidden[rows]
            add_weight_gradient(self.weight, grad_logits, h, is_first=rows.start == 0)


def add_weight_gradient(total: Tensor, grad_logits: Tensor, h: Tensor, is_first: bool) -> None:
    """Add grad_logits^T h, without its padding, to total (V, D), which is empty before the first chunk.

    grad_logits (n, V padded), h (n, D padded).
    """
    words, width = total.shape
    is_padded = (grad_logits.shape[1], h.shape[1]) != (words, width)
    if total.dtype == h.dtype and not is_padded:
        total.addmm_(grad_logits.T, h, beta=0.0 if is_first else 1.0)
        return
    addend = (grad_logits.T @ h)[:words, :width]
    if is_first:
        total.copy_(addend)
    else:
        total += addend


def padded(tensor: Tensor, dtype: torch.dtype, dims: int) -> Tensor:
    """Convert to `dtype`, and pad the last `dims` axes with zeros to multiples of `ALIGNMENT`."""
    padding = []
    for size in tensor.shape[: -dims - 1 : -1]:
        padding += [0, -size % ALIGNMENT]
    tensor = tensor.to(dtype)
    return F.pad(tensor, padding) if any(padding) else tensor
