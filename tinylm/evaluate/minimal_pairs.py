"""Which of two sentences is likelier: grammar and meaning, phenomenon by phenomenon."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tinylm.base.seeding import derive_seed
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.phenomena import PHENOMENA, Draw, NothingToDraw, Pair, draw_pairs
from tinylm.evaluate.scoring import sequence_nats
from tinylm.evaluate.settings import Metrics, Part
from tinylm.evaluate.statistics import wilson
from tinylm.evaluate.trained_run import TrainedRun
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

PAIRS = 100  # of each phenomenon, if the vocabulary has enough words
TOO_FEW = 20  # with fewer pairs there is no share
SEEN = 10  # times that each token of a pair must have occurred in the train split
TRIES = 3000
BATCH_ROWS = 64
DECIMALS = 5  # of a margin in nats; pairs.csv holds as many, so that ties are ties there too
PROTOCOL = (
    f"Up to {PAIRS} pairs of each phenomenon have tokens that occur at least {SEEN} times in train. "
    "A pair is scored as right if the correct text has the higher probability as a whole, and as "
    f"half right if both have the same to {DECIMALS} decimals of a nat. Crossed pairs come in twos: "
    "what is correct in one is wrong in the other. They are one draw; each interval is over draws."
)
Share = dict[str, float]  # value, low, high
LogProbs = Callable[[Sequence[Sequence[int]]], np.ndarray]  # of whole texts, in nats


class _Encoder:
    """Texts as ids, for words that the model has seen often enough and texts that fit."""

    def __init__(self, tokenizer: Tokenizer, train: TokenStore, context: int):
        self._tokenizer = tokenizer
        self._counts = np.bincount(train.ids, minlength=train.vocab_size)
        self._start = [] if tokenizer.sos_id is None else [tokenizer.sos_id]
        self._context = context
        self.has = functools.cache(self._has)

    def _has(self, word: str) -> bool:
        """Whether a word can be used in pairs."""
        return bool(self.encode(f" {word}"))

    def encode(self, text: str) -> list[int]:
        """The ids of a text; none if it has a rare or unknown token or is too long."""
        ids = self._tokenizer.encode(text)
        whole = self._start + ids
        if not ids or len(whole) > self._context + 1:
            return []
        is_rare = self._counts[ids] < SEEN
        if self._tokenizer.unk_id in ids or is_rare.any():
            return []
        return whole


def make_pairs(tokenizer: Tokenizer, train: TokenStore, context: int, seed: int) -> pd.DataFrame:
    """Pairs of every phenomenon in words that the model has seen, at most `context` tokens long.

    Columns: phenomenon, draw (crossed pairs share one), right and wrong (texts), right_ids and
    wrong_ids, with <sos> where the vocabulary has one.
    """
    encoder = _Encoder(tokenizer, train, context)
    rows: list[list[Any]] = []
    for phenomenon in PHENOMENA:
        rows += _rows_of(phenomenon, encoder, seed)
    ids = ["right_ids", "wrong_ids"]
    return pd.DataFrame(rows, columns=["phenomenon", "draw", "right", "wrong", *ids])


def _rows_of(phenomenon: str, encoder: _Encoder, seed: int) -> list[list[Any]]:
    rng = np.random.default_rng(derive_seed(seed, "pairs", phenomenon))
    draw = Draw(encoder.has, rng)
    rows: list[list[Any]] = []
    drawn_before: set[Pair] = set()
    for _ in range(TRIES):
        if len(rows) >= PAIRS:
            break
        try:
            drawn = draw_pairs(PHENOMENA[phenomenon], draw)
        except NothingToDraw:
            continue
        # one of two crossed pairs without the other would favour frequent words
        if not drawn_before.isdisjoint(drawn):
            continue
        new = []
        for right, wrong in drawn:
            right_ids = encoder.encode(right)
            wrong_ids = encoder.encode(wrong)
            if right_ids and wrong_ids and right_ids != wrong_ids:
                row = [phenomenon, len(rows), right, wrong, right_ids, wrong_ids]
                new.append(row)
        if len(new) == len(drawn):
            rows += new
            drawn_before.update(drawn)
    return rows


def margins(pairs: pd.DataFrame, log_probs: LogProbs) -> np.ndarray:
    """By how many nats the right text of each pair is likelier: (pairs,)."""
    parts = [np.zeros(0)]
    for _, of_phenomenon in pairs.groupby("phenomenon", sort=False):
        both = of_phenomenon[["right_ids", "wrong_ids"]].to_numpy().ravel()
        values = log_probs(list(both)).reshape(-1, 2)
        parts.append(values[:, 0] - values[:, 1])
    return np.concatenate(parts)


def share_right(margin: pd.Series, draw: pd.Series) -> Share | None:
    """The share of pairs whose right text is likelier, with Wilson's 95 % interval over draws.

    Pairs that are equal to `DECIMALS` count half. None for fewer than `TOO_FEW` pairs.
    """
    if len(margin) < TOO_FEW:
        return None
    rounded = np.round(margin, DECIMALS)
    right = (rounded > 0).sum() + (rounded == 0).sum() / 2
    draws = draw.nunique()
    return wilson(float(right) * draws / len(margin), draws)


def judge_pairs(run: TrainedRun, seed: int) -> Part:
    """Minimal pairs by the model, its untrained twin and the n-gram baselines; a row for each pair.

    The shares of a phenomenon are None where there are fewer than `TOO_FEW` pairs; "all" is the
    mean over the others.
    """
    pairs = make_pairs(run.tokenizer, run.train, run.model.settings.context, seed)
    sources = {
        "model": _by_model(run.model),
        "untrained": _by_model(run.untrained),
        "kneser_ney": _by_ngrams(run.ngrams),
        "unigram": _by_ngrams(run.unigrams),
    }
    table = pairs[["phenomenon", "draw", "right", "wrong"]].copy()
    for name, log_probs in sources.items():
        table[name] = margins(pairs, log_probs)
    phenomena: dict[str, Metrics] = {}
    for phenomenon, template in PHENOMENA.items():
        rows = table[table["phenomenon"] == phenomenon]
        entry: Metrics = {"about": template["about"], "pairs": len(rows)}
        entry["draws"] = rows["draw"].nunique()
        for name in sources:
            entry[name] = share_right(rows[name], rows["draw"])
        phenomena[phenomenon] = entry
    means = {}
    for name in sources:
        means[name] = _mean_share([entry[name] for entry in phenomena.values()])
    metrics = {"protocol": PROTOCOL, "all": means, "phenomena": phenomena}
    return {"pairs": metrics}, {"pairs": table}


def _by_model(model: TinyLM) -> LogProbs:
    """Log-probabilities of texts after their first token."""
    return lambda texts: -sequence_nats(model, texts, BATCH_ROWS)


def _by_ngrams(counts: KneserNey) -> LogProbs:
    def log_probs(texts: Sequence[Sequence[int]]) -> np.ndarray:
        sums = [counts.log_probs(np.array(ids)).sum() for ids in texts]
        return np.array(sums)

    return log_probs


def _mean_share(shares: Sequence[Share | None]) -> float | None:
    """The mean over phenomena with enough pairs; None without any."""
    values = [share["value"] for share in shares if share is not None]
    return sum(values) / len(values) if values else None
