"""A batch of texts being generated: the next token's logits of each row, with or without a cache."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.model.changes import replaces_attention
from tinylm.model.kv_cache import KVCache
from tinylm.model.transformer import TinyLM, has_hooks

N = TypeVar("N", int, Tensor, np.ndarray)


def window_start(n: N, context: int, slide: str) -> N:
    """First token of the window that predicts token n + 1 from n tokens; elementwise on arrays.

    The window has at most `context` tokens. half: its start is a multiple of context // 2, so the
    oldest half is dropped when the window is full; one: the last `context` tokens.
    Raises InputError for another slide.
    """
    if slide not in ("half", "one"):
        raise InputError(f"slide: expected half or one, got {slide!r}")
    step = context // 2 if slide == "half" else 1
    excess = n - context  # tokens that do not fit; negative while all do
    steps = (excess + step - 1) // step  # excess / step, rounded up
    return steps * step * (excess > 0)


@contextlib.contextmanager
def decoding_mode(model: TinyLM) -> Iterator[None]:
    """No gradients and no dropout inside; the model's mode is restored afterwards.

    Raises InputError if a hook or a forward pass is set on the model itself, which nothing here calls.
    """
    if has_hooks(model) or "forward" in vars(model):
        raise InputError(
            "the model itself has a hook or another forward, which decoding would not call; "
            "expected it on a part, such as model.blocks[0]"
        )
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def not_finite(model: TinyLM) -> InputError:
    """The error to raise if a model's logits are NaN or infinite, with the likely cause."""
    if model.embedding.dtype == torch.float16:
        most = torch.finfo(torch.float16).max
        cause = f"float16 holds no number above {most:,.0f}; load the model again and use bfloat16 or float32"
    else:
        cause = "training diverged; retrain with a lower train.lr"
    return InputError(f"the model's logits are not finite: {cause}")


class Step:
    """Computes the next logits from tokens and a cache, with the model's forward pass.

    A subclass may compute `advance` faster. Logits are float32, or float64 for a float64 model.
    """

    name = "plain"  # as `decoding_step` calls it

    def __init__(self, model: TinyLM) -> None:
        self.model = model

    def fill(self, windows: np.ndarray, sizes: np.ndarray, cache: KVCache | None) -> Tensor:
        """Logits after the last token of each window; fills an empty cache with keys and values.

        windows: (R, T), padded on the right; sizes: (R,), the tokens of each.  -> (R, V)
        Padding fills slots past the row's end, which are masked and overwritten later.
        """
        device = self.model.embedding.device
        ids = torch.from_numpy(windows).to(device)
        hidden = self.model.hidden_states(ids, cache=cache)
        rows = torch.arange(len(windows), device=device)
        return self._logits(hidden[rows, torch.from_numpy(sizes - 1).to(device)])

    def advance(self, tokens: np.ndarray, positions: np.ndarray, cache: KVCache) -> Tensor:
        """Logits after one more token per row, at its position.  (R,), (R,) -> (R, V)"""
        device = self.model.embedding.device
        ids = torch.from_numpy(tokens).to(device)
        columns = torch.from_numpy(positions).to(device)
        hidden = self.model.hidden_states(ids[:, None], columns[:, None], cache)
        return self._logits(hidden[:, 0])

    def _logits(self, hidden: Tensor) -> Tensor:
        logits = self.model.logits(hidden)
        return logits if logits.dtype == torch.float64 else logits.float()


class Session:
    """Rows of tokens that grow by one token per step, their windows and their cache.

    prompts: at least one token each, of any lengths; the rows are aligned to the left.
    new_tokens: how many are appended at most.
    step: computes the logits, by default with the model's forward pass.
    Cached and uncached decoding use the same windows. The model should be in eval mode.
    Raises ValueError for an empty prompt or an id outside the vocabulary.
    """

    def __init__(
        self,
        model: TinyLM,
        prompts: Sequence[Sequence[int]],
        *,
        slide: str = "half",
        use_cache: bool = True,
        new_tokens: int = 0,
        step: Step | None = None,
    ) -> None:
        lengths = [len(prompt) for prompt in prompts]
        if not lengths or not min(lengths):
            raise ValueError("every prompt needs at least one token; a text starts with <sos>")
        if not all(0 <= token < model.vocab_size for prompt in prompts for token in prompt):
            raise ValueError(f"a prompt holds an id outside 0..{model.vocab_size - 1}")
        self.model = model
        self.step = step or Step(model)
        self.slide = slide
        # With a cache Ops.attention is not called, so a user's replacement would have no effect.
        self.use_cache = use_cache and not replaces_attention(model)
        self.context = model.settings.context
        width = max(lengths) + new_tokens
        self.capacity = min(self.context, width)
        self.lengths = np.array(lengths)  # (B,)
        self._ids = np.zeros((len(prompts), width), np.int64)  # (B, width)
        for row, prompt in enumerate(prompts):
            self._ids[row, : len(prompt)] = prompt
        self._starts = np.full_like(self.lengths, -1)  # of the windows that the cache holds
        self._cache: KVCache | None = None

    @property
    def rows(self) -> int:
        """Number of unfinished rows."""
        return len(self.lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return int(self.lengths.max())

    def ids(self, row: int) -> list[int]:
        """All tokens of a row, the prompt's first."""
        ids: list[int] = self._ids[row, : self.lengths[row]].tolist()
        return ids

    def recent(self, count: int) -> Any:
        """Each row's last tokens, newest first; short rows repeat their first.  -> (B, count)"""
        columns = self.lengths[:, None] - np.arange(1, count + 1)
        rows = np.arange(self.rows)[:, None]
        return self._ids[rows, columns.clip(min=0)]

    @torch.inference_mode()
    def next_logits(self) -> Tensor:
        """Logits of each row's next token, (B, V) float32, or float64 for a float64 model.

        A second call without `append` returns the same. A logit of -inf marks a token that cannot
        follow. Raises InputError if the largest logit of any row is not finite.
        """
        starts = window_start(self.lengths, self.context, self.slide)
        rows_to_refill = np.flatnonzero(starts != self._starts)
        if not self.use_cache:
            logits = self._fill(np.arange(self.rows), starts, None)
        elif len(rows_to_refill) == self.rows:
            self._cache = self._cache or self.model.new_cache(self.rows, self.capacity)
            self._cache.used = 0
            logits = self._fill(rows_to_refill, starts, self._cache)
        else:
            logits = self._advance(rows_to_refill, starts)
        self._starts = starts
        if not math.isfinite(logits.amax(dim=-1).sum(dtype=torch.float64).item()):
            raise not_finite(self.model)
        return logits

    def _advance(self, rows_to_refill: np.ndarray, starts: np.ndarray) -> Tensor:
        """Compute each row's last token with the cache; refill rows whose window has moved."""
        assert self._cache is not None  # no row has a window before the first fill
        last = self.lengths - 1
        positions = last - starts
        tokens = self._ids[np.arange(self.rows), last]
        logits = self.step.advance(tokens, positions, self._cache)
        if len(rows_to_refill):
            fresh = self.model.new_cache(len(rows_to_refill), self.capacity)
            logits[rows_to_refill] = self._fill(rows_to_refill, starts[rows_to_refill], fresh)
            self._cache.overwrite_rows(torch.from_numpy(rows_to_refill), fresh)
            self._cache.used = int(positions.max()) + 1
        return logits

    def _fill(self, rows: np.ndarray, starts: np.ndarray, cache: KVCache | None) -> Tensor:
        """Logits of some rows from their whole windows in one pass.  -> (R, V)"""
        sizes = self.lengths[rows] - starts
        columns = starts[:, None] + np.arange(sizes.max())  # (R, T)
        columns = columns.clip(max=self._ids.shape[1] - 1)
        windows = self._ids[rows[:, None], columns]
        return self.step.fill(windows, sizes, cache)

    def append(self, tokens: np.ndarray | Tensor) -> None:
        """Add one token to every row.  tokens (B,) int64, on the CPU"""
        self._ids[np.arange(self.rows), self.lengths] = tokens
        self.lengths = self.lengths + 1

    @torch.inference_mode()
    def select(self, rows: np.ndarray | Tensor) -> None:
        """Keep the rows (M,) in this order; a row may occur several times (beams) or not at all."""
        rows = np.asarray(rows)
        if self._cache is not None:
            unchanged = self._equal_slots(rows) if len(rows) <= self.rows else 0
            from_rows = torch.from_numpy(rows).to(self.model.embedding.device)
            self._cache.reorder(from_rows, unchanged)
        self._ids = self._ids[rows]
        self.lengths = self.lengths[rows]
        self._starts = self._starts[rows]

    def _equal_slots(self, rows: np.ndarray) -> int:
        """The number of leading slots that are equal in every row i and in rows[i], which replaces it.

        A slot of the cache depends on the tokens from the start of its window up to its own. Beams
        of one prompt share all but their last tokens, so few of their slots need to be copied.
        """
        replaced = np.flatnonzero(rows != np.arange(len(rows)))
        if not len(replaced):
            return self.longest
        sources = rows[replaced]
        if (self.lengths[replaced] != self.lengths[sources]).any():
            return 0  # windows of texts of unequal lengths may start at different tokens
        is_equal = self._ids[replaced, : self.longest] == self._ids[sources, : self.longest]
        equal_tokens = is_equal.argmin(axis=1)  # before the first difference; 0 if there is none
        equal_slots = equal_tokens - self._starts[replaced]
        return max(int(equal_slots.min()), 0)  # negative: they differ before the window
