"""Beam search, all beams of all prompts in one batch."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tinylm.base.config import InputError
from tinylm.decoding import filters
from tinylm.decoding.sampling import check_banned
from tinylm.decoding.session import Session, Step, decoding_mode
from tinylm.model.transformer import TinyLM


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One continuation: its new tokens (<eos> included where it ended), their summed log-probability in nats under
    the model's own distribution, and score = log_prob / len(ids) ** length_penalty."""

    ids: list[int]
    log_prob: float
    score: float


def beam_search(
    model: TinyLM,
    prompts: Sequence[Sequence[int]],
    *,
    width: int,
    max_new_tokens: int,
    eos_id: int | None,
    banned: Sequence[int],
    length_penalty: float = 0.0,
    n_best: int = 1,
    slide: str = "half",
    use_cache: bool = True,
    stop_at_eos: bool = True,
    step: Step | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best continuations of each prompt that a beam of `width` K finds, best first.

    At each step the K live beams of a prompt give K * V candidates, ordered by log-probability, ties by beam, then
    id. Candidates that end in <eos> and rank among the first K are finished; the K best others stay live. At
    `max_new_tokens` the live ones count as hypotheses too. Hypotheses are ordered by
    score = log_prob / length ** alpha (Wu et al. 2016, eq. 14, without its constant 5), length counted in new
    tokens with <eos>; ties go to the one found first.

    A prompt stops as soon as no live beam can enter its n_best: log_prob <= 0 only falls and alpha >= 0, so
    log_prob / max_new_tokens ** alpha bounds every later score. The result is that of searching on to the end.
    Width 1 and alpha 0 is greedy decoding. Raises InputError for a width outside 1..V.
    """
    _check(model, width, n_best, length_penalty, banned)
    if not prompts or max_new_tokens <= 0:
        return [[Hypothesis([], 0.0, 0.0)] for _ in prompts]
    end = eos_id if stop_at_eos and eos_id is not None else -1  # then no token ends a text
    with decoding_mode(model):
        session = Session(
            model, prompts, slide=slide, use_cache=use_cache, new_tokens=max_new_tokens, step=step
        )
        search = _Search(session, width, n_best, max_new_tokens, length_penalty)
        for length in range(1, max_new_tokens + 1):
            if not search.step(length, end, banned):
                break
    return search.kept


def _check(
    model: TinyLM, width: int, n_best: int, length_penalty: float, banned: Sequence[int]
) -> None:
    check_banned(banned, model.vocab_size)
    if not 1 <= width <= model.vocab_size:
        raise InputError(f"beam width = {width}; allowed: 1 to the vocabulary's {model.vocab_size}")
    if not 1 <= n_best <= width:
        raise InputError(f"n_best = {n_best}; allowed: 1 to the beam width {width}")
    if not 0.0 <= length_penalty <= 10.0:
        raise InputError(f"length_penalty = {length_penalty}; allowed: 0 to 10")


def expand(
    best: np.ndarray, ids: np.ndarray, totals: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The 2 K best candidates of each prompt: log-probabilities, beams and tokens, each (P, at most 2 K).

    best, ids (P * K', K + 1): log-probabilities and ids of the likeliest tokens of K' live beams (`candidates`), totals
    (P, K') their log-probabilities so far, float64. Each beam's best K + 1 are enough, and 2 K of them hold K that do
    not end, since each beam ends in one way only.
    """
    prompts = np.arange(len(totals))[:, None]
    sums = (totals.reshape(-1, 1) + best).reshape(len(totals), -1)  # (P, K' * (K + 1))
    order = (-sums).argsort(axis=1, kind="stable")[:, : 2 * width]
    return sums[prompts, order], order // ids.shape[1], ids.reshape(sums.shape)[prompts, order]


class _Search:
    """Live beams and kept hypotheses; `numbers` are the prompts still searched, row p * K' + k is p's beam k.

    All of it is in NumPy, whose calls on a few numbers are cheaper than torch's.
    """

    def __init__(
        self, session: Session, width: int, n_best: int, max_length: int, alpha: float
    ) -> None:
        self.session, self.width, self.n_best = session, width, n_best
        self.max_length, self.alpha = max_length, alpha
        self.prompt_lengths = session.lengths.tolist()
        self.numbers = list(range(session.rows))
        self.kept: list[list[Hypothesis]] = [[] for _ in self.numbers]
        self.totals = np.zeros((session.rows, 1))  # (P, K')

    def step(self, length: int, eos_id: int, banned: Sequence[int]) -> bool:
        """Grow every beam by one token; returns whether the search continues."""
        logits = self.session.next_logits()
        best, ids = filters.candidates(logits, self.width + 1, banned)
        sums, beams, tokens = expand(best.cpu().numpy(), ids.cpu().numpy(), self.totals, self.width)
        ends = tokens == eos_id
        if ends.any():
            for prompt, rank in np.argwhere((ends & (sums > filters.NEVER))[:, : self.width]):
                self._keep(prompt, beams[prompt, rank], eos_id, float(sums[prompt, rank]), length)
            sums = np.where(ends, filters.NEVER, sums)
            prompts, order = (
                np.arange(len(ends))[:, None],
                ends.argsort(axis=1, kind="stable"),
            )  # the others come first
            sums, beams, tokens = (each[prompts, order] for each in (sums, beams, tokens))
        totals, beams, tokens = (each[:, : self.width] for each in (sums, beams, tokens))  # (P, K)
        if length == self.max_length:
            for prompt, rank in np.argwhere(totals > filters.NEVER):
                self._keep(
                    prompt,
                    beams[prompt, rank],
                    int(tokens[prompt, rank]),
                    float(totals[prompt, rank]),
                    length,
                )
            return False
        return self._continue(totals, beams, tokens)

    def _keep(
        self, prompt: np.intp, beam: np.intp, token: int, log_prob: float, length: int
    ) -> None:
        """Enter a hypothesis into its prompt's n_best, after those of the same score."""
        kept = self.kept[self.numbers[prompt]]
        score = log_prob / length**self.alpha
        if len(kept) == self.n_best and score <= kept[-1].score:
            return
        row = int(prompt * self.totals.shape[1] + beam)
        new = self.session.ids(row)[self.prompt_lengths[self.numbers[prompt]] :]
        kept.append(Hypothesis([*new, token], log_prob, score))
        kept.sort(key=lambda hypothesis: -hypothesis.score)
        del kept[self.n_best :]

    def _continue(self, totals: np.ndarray, beams: np.ndarray, tokens: np.ndarray) -> bool:
        """Carry the live candidates of the prompts that are not done over into the session; whether any are left."""
        bounds = (totals[:, 0] / self.max_length**self.alpha).tolist()
        worst = [
            kept[-1].score if len(kept := self.kept[n]) == self.n_best else filters.NEVER
            for n in self.numbers
        ]
        open_ = [
            p for p, (bound, score) in enumerate(zip(bounds, worst, strict=True)) if bound > score
        ]
        rows = beams + np.arange(len(totals))[:, None] * self.totals.shape[1]
        if len(open_) < len(totals):
            self.numbers = [self.numbers[p] for p in open_]
            totals, rows, tokens = totals[open_], rows[open_], tokens[open_]
        self.totals = totals
        if open_:
            self.session.select(rows.ravel())
            self.session.append(tokens.ravel())
        return bool(open_)
