"""Greedy decoding and sampling, one random stream per row."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.base.seeding import derive_seed
from tinylm.decoding import filters
from tinylm.decoding.session import Session, Step, decoding_mode
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.transformer import TinyLM


@dataclasses.dataclass(frozen=True)
class Generation:
    """The text generated after one prompt.

    ids: the new tokens, with <eos> if it ended the text. log_probs: of each token, in nats, under
    the model's distribution before any filter; empty without `with_log_probs`.
    """

    ids: list[int]
    log_probs: list[float]
    finished: bool


def check_banned(banned: Sequence[int], vocab_size: int) -> None:
    """Raise InputError if no id is left or an id is outside the vocabulary."""
    is_outside = any(not 0 <= token < vocab_size for token in banned)
    if is_outside or len(set(banned)) >= vocab_size:
        raise InputError(
            f"banned: expected ids from 0 to {vocab_size - 1}, but not all of them, got {sorted(set(banned))}"
        )


def uniforms(seed: int, streams: Sequence[int], count: int) -> np.ndarray:
    """`count` random numbers in [0, 1) for each stream.  -> (B, count) float64

    They depend only on the seed and the number of the stream.
    """
    numbers = np.empty((len(streams), count))
    for row, stream in enumerate(streams):
        bits = np.random.Philox(key=derive_seed(seed, "row", stream))
        numbers[row] = np.random.Generator(bits).random(count)
    return numbers


def generate(
    model: TinyLM,
    prompts: Sequence[Sequence[int]],
    settings: DecodeSettings,
    *,
    max_new_tokens: int,
    eos_id: int | None,
    banned: Sequence[int],
    on_token: Callable[[int, int], None] | None = None,
    with_log_probs: bool = False,
    slide: str = "half",
    use_cache: bool = True,
    stop_at_eos: bool = True,
    streams: Sequence[int] | None = None,
    step: Step | None = None,
) -> list[Generation]:
    """Continue each prompt by at most `max_new_tokens` tokens; rows leave the batch at <eos>.

    eos_id: None if the vocabulary has no <eos>. It is never penalised as a repetition, since some
    vocabularies start texts with the same id. Without `stop_at_eos`, decoding continues past it.
    banned: ids that are never generated. slide: see `CacheSettings`.
    on_token(prompt, token): called for each token when it is chosen; prompts are in order.
    streams: the number of each prompt's random stream, by default 0, 1, ... A sample depends on
    settings, prompt and stream, not on the rest of the batch.
    """
    if not prompts or max_new_tokens <= 0:
        check_banned(banned, model.vocab_size)
        return [Generation([], [], False) for _ in prompts]
    end = eos_id if stop_at_eos else None
    with decoding_mode(model):
        session = Session(
            model, prompts, slide=slide, use_cache=use_cache, new_tokens=max_new_tokens, step=step
        )  # fmt: skip
        run = Sampling(session, settings, max_new_tokens, eos_id, banned, streams)
        for column in range(max_new_tokens):
            tokens = run.step(column, with_log_probs)
            if on_token is not None:
                for row, token in zip(run.alive.tolist(), tokens.tolist(), strict=True):
                    on_token(row, token)
            if end is not None and not run.keep_rows(tokens != end):
                break
    return run.generations(end, with_log_probs)


class Sampling:
    """The state of one run of sampling: tables with one row per prompt and one column per step.

    alive: the unfinished prompts. Use it inside `decoding_mode`; `generate` has the arguments.
    """

    def __init__(
        self,
        session: Session,
        settings: DecodeSettings,
        max_new_tokens: int,
        eos_id: int | None,
        banned: Sequence[int],
        streams: Sequence[int] | None = None,
    ) -> None:
        check_banned(banned, session.model.vocab_size)
        rows = session.rows
        streams = range(rows) if streams is None else streams
        if len(streams) != rows:
            raise ValueError(f"{len(streams)} streams for {rows} prompts")
        self.session = session
        self.settings = settings
        self.eos_id = eos_id
        self.banned = torch.tensor(
            list(banned), dtype=torch.int64, device=session.model.embedding.device
        )
        self.u = uniforms(settings.seed, streams, max_new_tokens)  # (B, steps)
        self.alive = np.arange(rows)
        self.counts = np.zeros(rows, np.int64)
        self.tokens = np.zeros((rows, max_new_tokens), np.int64)
        self.log_probs = np.zeros((rows, max_new_tokens))

    def step(self, column: int, with_log_probs: bool) -> np.ndarray:
        """Choose and append one token for each unfinished row.  -> (rows,)"""
        raw = self.session.next_logits()
        logits = filters.ban(self._without_repeats(raw), self.banned)
        u = torch.from_numpy(self.u[self.alive, column]).to(logits.device)
        chosen = filters.choose(logits, self.settings, u)
        if with_log_probs:
            scores = raw.gather(-1, chosen[:, None])[:, 0]
            log_probs = scores - raw.logsumexp(dim=-1)
            self.log_probs[self.alive, column] = log_probs.cpu()
        tokens = chosen.cpu().numpy()
        self.tokens[self.alive, column] = tokens
        self.counts[self.alive] += 1
        self.session.append(tokens)
        return tokens

    def _without_repeats(self, logits: Tensor) -> Tensor:
        """Logits after the repetition penalty, which excludes <eos>.  (B, V) -> (B, V)"""
        penalty = self.settings.repetition_penalty
        if penalty == 1.0:
            return logits
        longest = self.session.longest
        window = min(self.settings.repetition_window or longest, longest)
        recent = torch.from_numpy(self.session.recent(window)).to(logits.device)
        seen = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, recent, True)
        if self.eos_id is not None:
            seen[:, self.eos_id] = False
        return filters.penalise_repeats(logits, seen, penalty)

    def keep_rows(self, mask: np.ndarray) -> bool:
        """Drop the rows where the mask is false; returns whether any are left."""
        if not mask.all():
            rows = np.flatnonzero(mask)
            self.alive = self.alive[rows]
            if len(rows):
                self.session.select(rows)
        return len(self.alive) > 0

    def generations(self, eos_id: int | None, with_log_probs: bool) -> list[Generation]:
        """The generated texts, one per prompt."""
        result = []
        for row, count in enumerate(self.counts):
            ids = self.tokens[row, :count].tolist()
            log_probs = self.log_probs[row, :count].tolist() if with_log_probs else []
            result.append(Generation(ids, log_probs, ids[-1] == eos_id))
        return result
