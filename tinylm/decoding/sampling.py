"""Greedy decoding and sampling, one random stream per row."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tinylm.base.seeding import derive_seed
from tinylm.decoding import filters
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.session import decoding_mode
from tinylm.decoding.settings import DecodeSettings


@dataclasses.dataclass(frozen=True)
class Generation:
    """The text generated after one prompt.

    ids: the new tokens, with <eos> if it ended the text. log_probs: of each token, in nats, under
    the model's distribution before any filter; empty without `with_log_probs`.
    """

    ids: list[int]
    log_probs: list[float]
    finished: bool


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
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    settings: DecodeSettings,
    *,
    max_new_tokens: int,
    stop_at_eos: bool = True,
    with_log_probs: bool = False,
) -> list[Generation]:
    """Continue each prompt by at most `max_new_tokens` tokens; rows leave the batch at <eos>.

    Without `stop_at_eos`, decoding continues past it. To get each token as soon as it is chosen,
    use `Sampling`.
    """
    if not prompts or max_new_tokens <= 0:
        return [Generation([], [], False) for _ in prompts]
    end = decoder.eos_id if stop_at_eos else None
    with decoding_mode(decoder.model):
        sampling = Sampling(
            decoder, prompts, settings, max_new_tokens, with_log_probs=with_log_probs
        )
        for _ in range(max_new_tokens):
            tokens = sampling.step()
            if end is not None and not sampling.keep_rows(tokens != end):
                break
    return sampling.generations(end)


class Sampling:
    """The state of one run of sampling: tables with one row per prompt and one column per step.

    alive: the unfinished prompts. streams: the number of each prompt's random stream, by default
    0, 1, ... A sample depends on settings, prompt and stream, not on the rest of the batch.
    Use it inside `decoding_mode`, for at most `max_new_tokens` steps; `generate` is an example.
    """

    def __init__(
        self,
        decoder: Decoder,
        prompts: Sequence[Sequence[int]],
        settings: DecodeSettings,
        max_new_tokens: int,
        streams: Sequence[int] | None = None,
        with_log_probs: bool = False,
    ) -> None:
        rows = len(prompts)
        streams = range(rows) if streams is None else streams
        if len(streams) != rows:
            raise ValueError(f"expected {rows} streams, one for each prompt, got {len(streams)}")
        self.session = decoder.session(prompts, max_new_tokens)
        self.settings = settings
        self.eos_id = decoder.eos_id
        self.banned = decoder.banned_tensor()
        self.with_log_probs = with_log_probs
        self.u = uniforms(settings.seed, streams, max_new_tokens)  # (B, steps)
        self.alive = np.arange(rows)
        self.steps = 0
        self.counts = np.zeros(rows, np.int64)
        self.tokens = np.zeros((rows, max_new_tokens), np.int64)
        self.log_probs = np.zeros((rows, max_new_tokens))

    def step(self) -> np.ndarray:
        """Choose and append one token for each unfinished row.  -> (rows,)"""
        raw = self.session.next_logits()
        logits = filters.ban(self._without_repeats(raw), self.banned)
        u = torch.from_numpy(self.u[self.alive, self.steps]).to(logits.device)
        chosen = filters.choose(logits, self.settings, u)
        if self.with_log_probs:
            scores = raw.gather(-1, chosen[:, None])[:, 0]
            log_probs = scores - raw.logsumexp(dim=-1)
            self.log_probs[self.alive, self.steps] = log_probs.cpu()
        tokens = chosen.cpu().numpy()
        self.tokens[self.alive, self.steps] = tokens
        self.counts[self.alive] += 1
        self.steps += 1
        self.session.append(tokens)
        return tokens

    def _without_repeats(self, logits: Tensor) -> Tensor:
        """Logits after the repetition penalty.  (B, V) -> (B, V)

        <eos> is never penalised, since some vocabularies start texts with the same id.
        """
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

    def generations(self, end: int | None) -> list[Generation]:
        """The generated texts, one per prompt; finished are those whose last token is `end`."""
        result = []
        for row, count in enumerate(self.counts):
            ids = self.tokens[row, :count].tolist()
            log_probs = self.log_probs[row, :count].tolist() if self.with_log_probs else []
            result.append(Generation(ids, log_probs, ids[-1] == end))
        return result
