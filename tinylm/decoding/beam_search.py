"""Beam search, all beams of all prompts in one batch."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tinylm.base.config import InputError
from tinylm.decoding import filters
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.session import decoding_mode
from tinylm.decoding.settings import BeamSettings

NO_TOKEN = -1  # an id that is never chosen


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One continuation.

    ids: its new tokens, <eos> included if it ended. log_prob: their log-probability in nats under
    the model's own distribution. score: log_prob / len(ids) ** length_penalty.
    """

    ids: list[int]
    log_prob: float
    score: float


def beam_search(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    settings: BeamSettings,
    *,
    max_new_tokens: int,
    stop_at_eos: bool = True,
) -> list[list[Hypothesis]]:
    """The `n_best` best continuations of each prompt by a beam of `width` K, best first.

    At each step the K live beams of a prompt give K * V candidates, ordered by log-probability.
    Ties go to the earlier beam, then to the lower id. Candidates that end in <eos> and rank among
    the first K are finished; the K best others stay live. At `max_new_tokens` the live ones count
    as hypotheses too. Hypotheses are ordered by log_prob / length ** alpha (Wu et al. 2016, eq. 14,
    without its constant 5). The length counts new tokens with <eos>; ties go to the earlier one.

    A prompt ends as soon as no live beam can enter its n_best. The result is that of a full search:
    log_prob only decreases, so log_prob / max_new_tokens ** alpha bounds every later score.
    Width 1 with alpha 0 is greedy decoding. Raises InputError for a width outside 1..V.
    """
    _check(settings, decoder.model.vocab_size)
    if not prompts or max_new_tokens <= 0:
        return [[Hypothesis([], 0.0, 0.0)] for _ in prompts]
    end = decoder.eos_id if stop_at_eos else None
    with decoding_mode(decoder.model):
        search = _Search(decoder, prompts, settings, max_new_tokens, end)
        for length in range(1, max_new_tokens + 1):
            if not search.step(length):
                break
    return search.hypotheses


def check_width(width: int, vocab_size: int, name: str) -> None:
    """Raise InputError with the `name` of a beam width that is not from 1 to the vocabulary's size."""
    if not 1 <= width <= vocab_size:
        raise InputError(f"{name}: expected 1 to {vocab_size}, the vocabulary's size, got {width}")


def _check(settings: BeamSettings, vocab_size: int) -> None:
    width, n_best = settings.width, settings.n_best
    check_width(width, vocab_size, "beam width")
    if not 1 <= n_best <= width:
        raise InputError(f"n_best: expected 1 to {width}, the beam width, got {n_best}")
    if not 0.0 <= settings.length_penalty <= 10.0:
        raise InputError(f"length_penalty: expected 0 to 10, got {settings.length_penalty}")


class Candidates(NamedTuple):
    """Live beams with one more token each, (P, C) for P prompts.

    log_probs: of the whole continuations. beams: the beam of its prompt that each extends.
    """

    log_probs: np.ndarray
    beams: np.ndarray
    tokens: np.ndarray

    def best(self, count: int) -> "Candidates":
        """The `count` likeliest of each prompt, (P, count), best first; ties stay in their order."""
        order = (-self.log_probs).argsort(axis=1, kind="stable")
        prompts = np.arange(len(order))[:, None]
        columns = order[:, :count]
        return Candidates(*(values[prompts, columns] for values in self))


def expand(best: np.ndarray, ids: np.ndarray, totals: np.ndarray, width: int) -> Candidates:
    """The (at most) 2 K best candidates of each prompt.

    best, ids (P * K', K + 1): the likeliest tokens of K' live beams, as `filters.candidates` gives
    them. totals (P, K') float64: the beams' log-probabilities so far. Each beam's best K + 1 are
    enough. Each beam ends in one way only, so 2 K candidates hold K that do not end.
    """
    prompts, live = totals.shape
    log_probs = (totals.reshape(-1, 1) + best).reshape(prompts, -1)  # (P, K' * (K + 1))
    beams = np.arange(live).repeat(best.shape[1])  # of each column
    beams = np.broadcast_to(beams, log_probs.shape)
    all_candidates = Candidates(log_probs, beams, ids.reshape(prompts, -1))
    return all_candidates.best(2 * width)


class _Search:
    """Live beams and hypotheses. Row p * K' + k of the session is beam k of the p-th open prompt.

    It computes in NumPy, whose calls are faster than PyTorch's for a few numbers.
    """

    def __init__(
        self,
        decoder: Decoder,
        prompts: Sequence[Sequence[int]],
        settings: BeamSettings,
        max_length: int,
        end: int | None,
    ) -> None:
        self.session = decoder.session(prompts, max_length)
        self.width = settings.width
        self.n_best = settings.n_best
        self.alpha = settings.length_penalty
        self.max_length = max_length
        self.end = NO_TOKEN if end is None else end
        self.banned = decoder.banned_tensor()
        self.prompt_lengths = self.session.lengths.tolist()
        self.open_prompts = np.arange(self.session.rows)
        self.hypotheses: list[list[Hypothesis]] = [[] for _ in self.open_prompts]
        self.totals = np.zeros((self.session.rows, 1))  # log-probabilities of live beams, (P, K')

    def step(self, length: int) -> bool:
        """Grow every beam to `length` new tokens; returns whether the search continues."""
        logits = self.session.next_logits()
        best, ids = filters.candidates(logits, self.width + 1, self.banned)
        candidates = expand(
            best.cpu().numpy(),
            ids.cpu().numpy(),
            self.totals,
            self.width,
        )
        ends = candidates.tokens == self.end  # (P, C)
        is_among_the_best = np.arange(ends.shape[1]) < self.width
        self._finish(candidates, length, ends & is_among_the_best)

        log_probs = np.where(ends, filters.NEG_INF, candidates.log_probs)  # the others go on
        live = candidates._replace(log_probs=log_probs).best(self.width)
        if length == self.max_length:
            self._finish(live, length, np.full(live.tokens.shape, True))
            return False
        return self._continue(live)

    def _finish(self, candidates: Candidates, length: int, mask: np.ndarray) -> None:
        """Add the candidates that `mask` (P, C) marks to their prompts' hypotheses."""
        beams = self.totals.shape[1]  # of a prompt
        is_possible = candidates.log_probs > filters.NEG_INF
        for p, rank in np.argwhere(mask & is_possible):
            prompt = self.open_prompts[p]
            row = int(p * beams + candidates.beams[p, rank])
            log_prob = float(candidates.log_probs[p, rank])
            score = log_prob / length**self.alpha
            if score > self._lowest_score(prompt):
                earlier = self.session.ids(row)[self.prompt_lengths[prompt] :]
                ids = [*earlier, int(candidates.tokens[p, rank])]
                best = self.hypotheses[prompt]
                best.append(Hypothesis(ids, log_prob, score))
                best.sort(key=lambda hypothesis: -hypothesis.score)  # stable: the earlier first
                del best[self.n_best :]

    def _lowest_score(self, prompt: int) -> float:
        """The score that a new hypothesis of a prompt must exceed."""
        best = self.hypotheses[prompt]
        return best[-1].score if len(best) == self.n_best else filters.NEG_INF

    def _continue(self, live: Candidates) -> bool:
        """Append the live candidates (P, K) to the session; returns whether any are left."""
        bounds = live.log_probs[:, 0] / self.max_length**self.alpha
        lowest = np.array([self._lowest_score(int(prompt)) for prompt in self.open_prompts])
        is_open = bounds > lowest
        first_rows = np.arange(len(bounds)) * self.totals.shape[1]
        rows = first_rows[:, None] + live.beams
        self.open_prompts = self.open_prompts[is_open]
        self.totals = live.log_probs[is_open]
        if not is_open.any():
            return False
        self.session.select(rows[is_open].ravel())
        self.session.append(live.tokens[is_open].ravel())
        return True
