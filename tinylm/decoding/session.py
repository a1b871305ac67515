"""A batch of texts being generated: the next token's logits of each row, with or without a cache."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.decoding import filters
from tinylm.model.kv_cache import KVCache
from tinylm.model.transformer import TinyLM

N = TypeVar("N", int, Tensor, np.ndarray)


def window_start(n: N, context: int, slide: str) -> N:
    """First token of the window that predicts token n + 1, from n tokens so far; elementwise on tensors and arrays.

    The window keeps at most `context` tokens. half: its start is a multiple of context // 2, so the oldest
    half is dropped when the window is full; one: the last `context` tokens.
    """
    step = context // 2 if slide == "half" else 1
    start = -((context - n) // step) * step
    return start * (start > 0)


@contextlib.contextmanager
def decoding_mode(model: TinyLM) -> Iterator[None]:
    """No gradients and no dropout inside; the model's mode comes back afterwards."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def check_finite(logits: Tensor) -> Tensor:
    """The logits themselves. Raises InputError if the model's numbers overflowed."""
    if not logits.sum().isfinite():
        raise InputError(
            "the model's logits are not finite: its weights diverged; train it at a lower train.lr"
        )
    return logits


class Session:
    """Rows of tokens that grow by one token per step, their windows and their cache.

    prompts: at least one token each, of any lengths; the rows stay aligned to the left. `new_tokens`: how many will
    be appended at most, if known; it sizes the buffers. Cached and uncached decoding see the same
    windows. The model should be in eval mode. Raises ValueError for an empty prompt or an id outside the vocabulary.
    """

    def __init__(
        self,
        model: TinyLM,
        prompts: Sequence[Sequence[int]],
        *,
        slide: str = "half",
        use_cache: bool = True,
        new_tokens: int | None = None,
    ) -> None:
        self.model, self.slide, self.use_cache = model, slide, use_cache
        self.context = model.settings.context
        lengths = [len(prompt) for prompt in prompts]
        if not lengths or not min(lengths):
            raise ValueError("every prompt needs at least one token; a text starts with <sos>")
        if not all(0 <= token < model.vocab_size for prompt in prompts for token in prompt):
            raise ValueError(f"a prompt holds an id outside 0..{model.vocab_size - 1}")
        self.longest = max(lengths)
        width = self.longest + (
            self.context if new_tokens is None else min(new_tokens, self.context)
        )
        self.capacity = min(self.context, width)
        device = model.embedding.device
        padded = [[*prompt, *[0] * (width - len(prompt))] for prompt in prompts]
        self._ids = torch.tensor(padded, device=device)  # (B, width)
        self.lengths = torch.tensor(lengths, device=device)  # (B,)
        self._starts = torch.full_like(
            self.lengths, -1
        )  # window start that the cache was filled for
        self._cache: KVCache | None = None

    @property
    def rows(self) -> int:
        """How many rows are in progress."""
        return len(self.lengths)

    def ids(self, row: int) -> list[int]:
        """All tokens of a row, the prompt's first."""
        return self._ids[row, : int(self.lengths[row])].tolist()

    def recent(self, count: int) -> Tensor:
        """Each row's last `count` tokens, the newest first; a shorter row repeats its first token.  -> (B, count)"""
        back = torch.arange(1, count + 1, device=self.lengths.device)
        return self._ids.gather(1, (self.lengths[:, None] - back).clamp(min=0))

    @property
    def cache_bytes(self) -> int:
        """Size of the cache's buffers; 0 before the first step and without a cache."""
        return self._cache.nbytes if self._cache else 0

    @torch.inference_mode()
    def next_logits(self) -> Tensor:
        """Logits of each row's next token, (B, V) float32, float64 for a float64 model.

        Calling it again without `append` gives the same. Raises InputError if the model's numbers overflowed.
        """
        starts = window_start(self.lengths, self.context, self.slide)
        hidden = (
            self._advance(starts)
            if self.use_cache
            else self._fill(starts, self.lengths, self._ids, None)
        )
        logits = self.model.logits(hidden)
        return check_finite(logits if logits.dtype == torch.float64 else logits.float())

    def likeliest(self, logits: Tensor) -> Tensor:
        """The largest of each row, the lower id of equal ones.  (B, V) -> (B,)"""
        return logits.argmax(dim=-1)

    def greedy(self, banned: Sequence[int]) -> Tensor:
        """The likeliest next token of each row, without banned ones.  -> (B,)"""
        return self.likeliest(filters.ban(self.next_logits(), banned))

    def largest(self, logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """`filters.largest`, as fast as this session can."""
        return filters.largest(logits, k)

    def draw(self, logits: Tensor, u: Tensor, temperature: float) -> Tensor:
        """One token of each row by inverse-CDF sampling from softmax(logits / temperature).  (B, V), (B,) -> (B,)"""
        return filters.draw(filters.scale(logits, temperature), u)

    def candidates(self, k: int, banned: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The k likeliest next tokens of each row, without banned ones: log-probabilities, float64, and ids, (B, k)."""
        return filters.candidates(self.next_logits(), k, banned)

    def _advance(self, starts: Tensor) -> Tensor:
        """Feed each row's last token through the cache, (B, D); rows whose window moved are refilled."""
        moved = (starts != self._starts).nonzero()[:, 0]
        self._starts = starts
        if len(moved) == self.rows:
            self._cache = self._cache or self._new_cache(self.rows)
            self._cache.rewind(0)
            return self._fill(starts, self.lengths, self._ids, self._cache)
        assert self._cache is not None  # no row has a window yet before the first fill
        positions = (self.lengths - 1 - starts)[:, None]  # (B, 1)
        last = self._ids.gather(1, self.lengths[:, None] - 1)
        hidden = self._step(last, positions, self._cache)  # (B, D)
        if len(moved):
            fresh = self._new_cache(len(moved))
            hidden[moved] = self._fill(starts[moved], self.lengths[moved], self._ids[moved], fresh)
            self._cache.put(moved, fresh)
            self._cache.rewind(int(positions.max()) + 1)
        return hidden

    def _new_cache(self, rows: int) -> KVCache:
        return self.model.new_cache(rows, self.capacity)

    def _step(self, last: Tensor, positions: Tensor, cache: KVCache) -> Tensor:
        """Hidden states after each row's last token.  (B, 1), (B, 1) -> (B, D)"""
        return self.model.hidden_states(last, positions, cache)[:, 0]

    def _fill(self, starts: Tensor, lengths: Tensor, ids: Tensor, cache: KVCache | None) -> Tensor:
        """Run whole windows in one pass, padded on the right; the last token's hidden state of each row, (R, D).

        What a padded position leaves in the cache is past the row's end: masked, and overwritten later.
        """
        sizes = lengths - starts
        positions = torch.arange(int(sizes.max()), device=ids.device)[None]  # (1, T)
        slots = (starts[:, None] + positions).clamp(max=ids.shape[1] - 1)
        window = ids.gather(1, slots)  # (R, T)
        hidden = self.model.hidden_states(window, positions, cache)
        return hidden[torch.arange(len(sizes), device=ids.device), sizes - 1]

    @torch.inference_mode()
    def append(self, tokens: Tensor) -> None:
        """Add one token to every row.  tokens (B,) int64"""
        if self.longest == self._ids.shape[1]:
            self._ids = torch.nn.functional.pad(self._ids, (0, self.longest))  # double the space
        self._ids.scatter_(1, self.lengths[:, None], tokens[:, None])
        self.lengths = self.lengths + 1
        self.longest += 1

    @torch.inference_mode()
    def select(self, rows: Tensor) -> None:
        """Keep the given rows (M,) in the given order; a row may be taken several times (beams) or not at all."""
        if self._cache is not None:
            changed = (
                self._changed_slots(rows, self._cache.used) if len(rows) <= self.rows else None
            )
            self._cache.select(rows, changed)
        self._ids, self.lengths, self._starts = (
            self._ids[rows],
            self.lengths[rows],
            self._starts[rows],
        )

    def _changed_slots(self, rows: Tensor, used: int) -> Tensor:
        """Slots in which row i and the row that takes its place differ, (M, used): from the first unequal token on.

        Beams of one prompt share all but their last tokens, so most of their cache can stay where it is.
        """
        mine = slice(len(rows))
        differs = self._ids[mine, : self.longest] != self._ids[rows, : self.longest]
        differs |= (self.lengths[mine] != self.lengths[rows])[:, None]  # another window, perhaps
        columns = self._starts[mine, None] + torch.arange(used, device=rows.device)
        return differs.cumsum(1).gather(1, columns.clamp(max=self.longest - 1)) > 0


@dataclasses.dataclass(frozen=True)
class Decoder:
    """How a model's steps are computed, here by its own code; it serves any number of sessions."""

    model: TinyLM

    def session(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        slide: str = "half",
        use_cache: bool = True,
        new_tokens: int | None = None,
        beams: int = 1,
    ) -> Session:
        """Open a session; `beams`: how many rows may descend from one prompt."""
        return Session(self.model, prompts, slide=slide, use_cache=use_cache, new_tokens=new_tokens)
