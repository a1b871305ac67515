"""Values computed from logits, so that the logits need not be returned: the largest, ln sum exp, a draw."""

import ctypes
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tinylm.kernels.decoding.build import library

_INTEGER, _POINTER = ctypes.c_int64, ctypes.c_void_p


class Asked(ctypes.Structure):
    """What is asked of logits; `ask` makes it together with the tensors for the answer."""

    _fields_ = [
        *(("k", _INTEGER), ("banned", _POINTER), ("bans", _INTEGER)),
        *((name, _POINTER) for name in ("values", "ids", "log_sums")),
    ]

    def after(self, rows: int) -> "Asked":
        """The same question for the rows after the first `rows`."""
        sums = self.log_sums and self.log_sums + 4 * rows
        return Asked(
            self.k,
            self.banned,
            self.bans,
            self.values + 4 * self.k * rows,
            self.ids + 8 * self.k * rows,
            sums,
        )


Answer = tuple[Tensor, Tensor, Tensor]  # values (B, k), ids (B, k), ln(sum(exp(logits))) (B,)


def ask(rows: int, k: int, bans: np.ndarray, with_sums: bool) -> tuple[Asked, Answer]:
    """Ask for the k largest of each row without the ids `bans`, ascending int64, which must outlive the question."""
    values, ids, log_sums = (
        torch.empty(rows, k),
        torch.empty(rows, k, dtype=torch.int64),
        torch.empty(rows),
    )
    places = values.data_ptr(), ids.data_ptr(), log_sums.data_ptr() if with_sums else None
    return Asked(k, bans.ctypes.data, len(bans), *places), (values, ids, log_sums)


def threads_for(values: Tensor) -> int:
    """The number of threads worth waking for this many numbers."""
    return torch.get_num_threads() if values.numel() > 1 << 16 else 1


def largest(
    logits: Tensor, k: int, banned: Sequence[int] = (), with_sums: bool = True
) -> tuple[Tensor, Tensor, Tensor, bool]:
    """As `filters.largest` without the banned ids; ln sum exp of each row, banned ids included; whether all are finite.

    Without `with_sums` the last two are not computed.
    """
    bans = np.array(sorted(set(banned)), np.int64)
    asked, answer = ask(len(logits), min(k, logits.shape[1]), bans, with_sums)
    finite = library().tinylm_largest(
        logits.data_ptr(), *logits.shape, ctypes.byref(asked), threads_for(logits)
    )
    return *answer, bool(finite)


def draw(logits: Tensor, u: Tensor, temperature: float) -> Tensor:
    """As `filters.draw` from logits / temperature, with weights in float32.  (B, V), (B,) float64 -> (B,)"""
    tokens, u = torch.empty(len(logits), dtype=torch.int64), u.contiguous()
    library().tinylm_draw(
        logits.data_ptr(),
        *logits.shape,
        u.data_ptr(),
        temperature,
        tokens.data_ptr(),
        threads_for(logits),
    )
    return tokens
