"""Greedy decoding and sampling, one random stream per row."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.base.seeding import derive_seed
from tinylm.decoding import filters
from tinylm.decoding.session import Decoder, Session, decoding_mode
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.transformer import TinyLM


@dataclasses.dataclass(frozen=True)
class Generation:
    """What was generated after one prompt.

    ids: the new tokens, including <eos> if the text ended; log_probs: of each, in nats, under the model's own
    distribution, before any filter (empty unless asked for); finished: whether <eos> ended it.
    """

    ids: list[int]
    log_probs: list[float]
    finished: bool


def check_banned(banned: Sequence[int], vocab_size: int) -> None:
    """Raise InputError if no id is left or an id is outside the vocabulary."""
    if len(set(banned)) >= vocab_size or not all(0 <= token < vocab_size for token in banned):
        raise InputError(
            f"banned = {sorted(set(banned))}; allowed: ids below {vocab_size}, at least one id left"
        )


def uniforms(seed: int, streams: Sequence[int], count: int) -> Tensor:
    """`count` numbers in [0, 1) for each stream, float64 (B, count); a stream's numbers depend on its number alone."""
    rows = [
        np.random.Generator(np.random.Philox(key=derive_seed(seed, "row", stream)))
        for stream in streams
    ]
    return torch.from_numpy(np.stack([row.random(count) for row in rows]))


def choose(
    logits: Tensor, settings: DecodeSettings, u: Tensor, temperature: float, session: Session
) -> Tensor:
    """The next token of each row, (B,): argmax at temperature 0, else temperature, top-k, top-p and a draw.

    Fall-back: a row whose top_k likeliest hold less than fallback_mass of the probability at this temperature is
    drawn from the nucleus fallback_top_p of all ids instead. logits (B, V), u (B,) in [0, 1). The session provides the
    search for the largest and the draw from all ids.
    """
    if temperature == 0.0:
        return session.likeliest(logits)
    if not 0 < settings.top_k < logits.shape[-1] and settings.top_p == 1.0:
        return session.draw(logits, u, temperature)
    scores, ids = filters.top_k(logits, settings.top_k, session.largest)
    scores = filters.top_p(filters.scale(scores, temperature), settings.top_p)
    tokens = ids.gather(-1, filters.draw(scores, u)[:, None])[:, 0]
    if settings.fallback_mass > 0.0 and ids.shape[-1] < logits.shape[-1]:
        scaled = filters.scale(logits, temperature)
        flat = (filters.held(scaled, ids) < settings.fallback_mass).nonzero()[:, 0]
        tokens[flat] = filters.draw(filters.top_p(scaled[flat], settings.fallback_top_p), u[flat])
    return tokens


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
    use_cache: bool = True,
    stop_at_eos: bool = True,
    streams: Sequence[int] | None = None,
    decoder: Decoder | None = None,
) -> list[Generation]:
    """Continue each prompt by at most `max_new_tokens` tokens; rows that reach <eos> leave the batch.

    banned: ids that are never generated. on_token(prompt, token) is called as each token is chosen, step by step and
    prompts in order. Without `stop_at_eos`, <eos> is a token like any other; with `eos_id` None no text ends by itself.
    <eos> is never penalised as a repetition, in the prompt or of an earlier text: a text ends once, and a vocabulary
    may open texts with the same id.
    streams: the number of each prompt's random stream (by default 0, 1, ...). A sample depends on settings, prompt,
    stream and `max_new_tokens` (along which the temperature may change), not on what else is in the batch.
    """
    if not prompts or max_new_tokens <= 0:
        check_banned(banned, model.vocab_size)
        return [Generation([], [], False) for _ in prompts]
    end = eos_id if stop_at_eos else None
    with decoding_mode(model):
        run = Sampling(
            model, prompts, settings, max_new_tokens=max_new_tokens, eos_id=eos_id, banned=banned,
            use_cache=use_cache, streams=streams, decoder=decoder,
        )  # fmt: skip
        for step in range(max_new_tokens):
            tokens = run.step(step, with_log_probs)
            if on_token is not None:
                for row, token in zip(run.alive.tolist(), tokens.tolist(), strict=True):
                    on_token(row, token)
            if end is not None and not run.leave(tokens != end):
                break
    return run.generations(end, with_log_probs)


class Sampling:
    """Tables of one run: one row per prompt, one column per step; `alive` are the prompts still in the session.

    Made and stepped inside `decoding_mode`; `generate` explains the arguments.
    """

    def __init__(
        self,
        model: TinyLM,
        prompts: Sequence[Sequence[int]],
        settings: DecodeSettings,
        *,
        max_new_tokens: int,
        eos_id: int | None,
        banned: Sequence[int],
        use_cache: bool = True,
        streams: Sequence[int] | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        check_banned(banned, model.vocab_size)
        streams = range(len(prompts)) if streams is None else streams
        if len(streams) != len(prompts):
            raise ValueError(f"{len(streams)} streams for {len(prompts)} prompts")
        session = (decoder or Decoder(model)).session(
            prompts, slide=settings.slide, use_cache=use_cache, new_tokens=max_new_tokens
        )
        device = session.lengths.device
        self.session, self.settings, self.banned, self.eos_id = session, settings, banned, eos_id
        self.u = uniforms(settings.seed, streams, max_new_tokens).to(device)  # (B, steps)
        self.alive = torch.arange(session.rows, device=device)
        self.counts = torch.zeros_like(self.alive)
        self.tokens = torch.zeros(self.u.shape, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(self.u.shape, dtype=torch.float64, device=device)

    def step(self, column: int, with_log_probs: bool) -> Tensor:
        """Choose and append one token for each live row.  -> (B,)"""
        temperature = self.settings.temperature_at(column, self.u.shape[1])
        if temperature == 0.0 and self.settings.repetition_penalty == 1.0 and not with_log_probs:
            return self._take(column, self.session.greedy(self.banned))
        raw = self.session.next_logits()
        logits = raw
        if self.settings.repetition_penalty != 1.0:
            longest = self.session.longest
            recent = self.session.recent(min(self.settings.repetition_window or longest, longest))
            seen = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, recent, True)
            if self.eos_id is not None:
                seen[:, self.eos_id] = False
            logits = filters.penalise_repeats(logits, seen, self.settings.repetition_penalty)
        logits = filters.ban(logits, self.banned)
        tokens = choose(
            logits, self.settings, self.u[self.alive, column], temperature, self.session
        )
        if with_log_probs:
            chosen = raw.gather(-1, tokens[:, None])[:, 0]
            self.log_probs[self.alive, column] = (chosen - raw.logsumexp(dim=-1)).double()
        return self._take(column, tokens)

    def _take(self, column: int, tokens: Tensor) -> Tensor:
        """Append what was chosen.  (B,) -> (B,)"""
        self.tokens[self.alive, column] = tokens
        self.counts[self.alive] += 1
        self.session.append(tokens)
        return tokens

    def leave(self, stays: Tensor) -> bool:
        """Drop the rows that do not stay; returns whether any are left."""
        if not stays.all():
            rows = stays.nonzero()[:, 0]
            self.alive = self.alive[rows]
            if len(rows):
                self.session.select(rows)
        return len(self.alive) > 0

    def generations(self, eos_id: int | None, with_log_probs: bool) -> list[Generation]:
        """The table's rows, each at its own length."""
        result = []
        for ids, log_probs, count in zip(
            self.tokens, self.log_probs, self.counts.tolist(), strict=True
        ):
            new = ids[:count].tolist()
            scores = log_probs[:count].tolist() if with_log_probs else []
            result.append(Generation(new, scores, new[-1] == eos_id))
        return result
