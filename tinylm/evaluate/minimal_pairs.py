"""Which of two sentences is likelier: grammar and meaning, phenomenon by phenomenon."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from tinylm.base.seeding import derive_seed
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.phenomena import PHENOMENA, Draw, NothingToDraw, Pair, Phenomenon
from tinylm.evaluate.scoring import sequence_nats
from tinylm.evaluate.statistics import wilson
from tinylm.model.checkpoint import new_model
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

PAIRS = 200  # of each phenomenon, where the vocabulary has words for so many
PAIRS_IN_TRAINING = 60  # of those, for each checkpoint
TOO_FEW = 20  # with fewer pairs there is no share
SEEN = 10  # times that each token of a pair must have occurred in the train split
TRIES = 3000
BATCH_ROWS = 64
DECIMALS = 5  # of a margin in nats; pairs.csv holds as many, so that ties are ties there too
PROTOCOL = (
    f"Up to {PAIRS} pairs of each phenomenon, of tokens that occur at least {SEEN} times in the "
    "train split; a pair is right if the right text has the higher probability as a whole, and "
    f"half right if both have the same to {DECIMALS} decimals of a nat. Each interval is that of "
    "one phenomenon alone."
)
LogProbs = Callable[[Sequence[Sequence[int]]], np.ndarray]  # of whole texts, in nats
Ids = tuple[list[int], list[int]]  # of the right text and of the wrong one


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The pairs of one phenomenon, as texts and as ids with <sos> where the vocabulary has one."""

    name: str
    about: str
    texts: list[Pair]
    ids: list[Ids]

    def first(self, count: int) -> "Pairs":
        """Only the first `count` pairs."""
        return Pairs(self.name, self.about, self.texts[:count], self.ids[:count])


class _Encoder:
    """Texts as ids, for words that the model has seen often enough and texts that fit."""

    def __init__(self, tokenizer: Tokenizer, train: TokenStore, context: int):
        self._tokenizer = tokenizer
        self._counts = np.bincount(train.ids, minlength=train.vocab_size)
        self._start = [] if tokenizer.sos_id is None else [tokenizer.sos_id]
        self._most = context + 1
        self._has: dict[str, bool] = {}

    def encode(self, text: str) -> list[int] | None:
        """The ids of a text; None if it has a rare or unknown token or is too long."""
        ids = self._tokenizer.encode(text)
        if not ids or self._tokenizer.unk_id in ids or (self._counts[ids] < SEEN).any():
            return None
        ids = self._start + ids
        return ids if len(ids) <= self._most else None

    def encode_pair(self, pair: Pair) -> Ids | None:
        """The ids of both texts; None if either has none or if they are the same."""
        right = self.encode(pair.right)
        wrong = self.encode(pair.wrong)
        if right is None or wrong is None or right == wrong:
            return None
        return right, wrong

    def has(self, word: str) -> bool:
        """Whether a word can be used in pairs."""
        if word not in self._has:
            self._has[word] = self.encode(f" {word}") is not None
        return self._has[word]


def make_pairs(tokenizer: Tokenizer, train: TokenStore, context: int, seed: int) -> list[Pairs]:
    """Pairs of every phenomenon in words that the model has seen, at most `context` tokens long."""
    encoder = _Encoder(tokenizer, train, context)
    return [_draw_pairs(phenomenon, encoder, seed) for phenomenon in PHENOMENA]


def _draw_pairs(phenomenon: Phenomenon, encoder: _Encoder, seed: int) -> Pairs:
    rng = np.random.default_rng(derive_seed(seed, "pairs", phenomenon.name))
    draw = Draw(encoder.has, rng)
    pairs: dict[Pair, Ids] = {}
    for _ in range(TRIES):
        if len(pairs) >= PAIRS:
            break
        try:
            drawn = phenomenon.draw(draw)
        except NothingToDraw:
            continue
        # one of two crossed pairs without the other would favour frequent words
        if any(pair in pairs for pair in drawn):
            continue
        encoded = [encoder.encode_pair(pair) for pair in drawn]
        usable = [ids for ids in encoded if ids is not None]
        if len(usable) == len(drawn):
            pairs |= dict(zip(drawn, usable, strict=True))
    return Pairs(phenomenon.name, phenomenon.about, list(pairs), list(pairs.values()))


def margins(pairs: Pairs, log_probs: LogProbs) -> np.ndarray:
    """By how many nats the right text of each pair is likelier: (pairs,)."""
    texts = [ids for both in pairs.ids for ids in both]
    values = log_probs(texts).reshape(-1, 2)
    return values[:, 0] - values[:, 1]


def share_right(margin: np.ndarray) -> dict[str, float] | None:
    """The share of pairs whose right text is likelier, with Wilson's 95 % interval.

    Pairs that are equal to `DECIMALS` count half.
    """
    rounded = np.round(margin, DECIMALS)
    right = (rounded > 0).sum() + (rounded == 0).sum() / 2
    return wilson(float(right), len(margin))


def untrained_like(model: TinyLM, vectors: np.ndarray, seed: int) -> TinyLM:
    """A model of the same shape with fresh weights, over the vectors (V, D) before training."""
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(seed, "untrained"))
        fresh = new_model(model.settings, torch.from_numpy(vectors))
    return fresh.to(model.embedding.device).eval()


def judge_pairs(
    tokenizer: Tokenizer,
    train: TokenStore,
    ngrams: KneserNey,
    unigrams: KneserNey,
    checkpoints: Sequence[tuple[float | None, TinyLM]],
    seed: int,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(metrics, a row for each pair) of the model, its checkpoints and the n-gram baselines.

    checkpoints: (epochs, model with the weights of then), from the untrained model to the trained
    one, whose epochs are None. The shares of a phenomenon are None where there are fewer than
    `TOO_FEW` pairs; "all" is the mean over the others.
    """
    model = checkpoints[-1][1]
    all_pairs = make_pairs(tokenizer, train, model.settings.context, seed)
    sources = {
        "model": _by_model(model),
        "untrained": _by_model(checkpoints[0][1]),
        "kneser_ney": _by_ngrams(ngrams),
        "unigram": _by_ngrams(unigrams),
    }
    phenomena: dict[str, Any] = {}
    rows = []
    for pairs in all_pairs:
        by_source = {name: margins(pairs, log_probs) for name, log_probs in sources.items()}
        entry: dict[str, Any] = {"about": pairs.about, "pairs": len(pairs.texts)}
        for name, values in by_source.items():
            entry[name] = share_right(values) if len(values) >= TOO_FEW else None
        phenomena[pairs.name] = entry
        for index, pair in enumerate(pairs.texts):
            row: dict[str, Any] = {
                "phenomenon": pairs.name,
                "right": pair.right,
                "wrong": pair.wrong,
            }
            row |= {name: float(values[index]) for name, values in by_source.items()}
            rows.append(row)
    metrics = {
        "protocol": PROTOCOL,
        "all": {name: _mean(entry[name] for entry in phenomena.values()) for name in sources},
        "phenomena": phenomena,
        "training": _over_training(all_pairs, checkpoints),
    }
    return metrics, rows


def _over_training(
    all_pairs: Sequence[Pairs], checkpoints: Sequence[tuple[float | None, TinyLM]]
) -> list[dict[str, Any]]:
    """For each checkpoint its epochs, the shares of the first pairs, and their mean."""
    rows = []
    for epochs, model in checkpoints:
        shares = {}
        for pairs in all_pairs:
            if len(pairs.texts) >= TOO_FEW:
                values = margins(pairs.first(PAIRS_IN_TRAINING), _by_model(model))
                shares[pairs.name] = share_right(values)
        rows.append({"epochs": epochs, "all": _mean(shares.values()), "phenomena": shares})
    return rows


def _by_model(model: TinyLM) -> LogProbs:
    """Log-probabilities of texts after their first token."""
    return lambda texts: -sequence_nats(model, texts, BATCH_ROWS)


def _by_ngrams(counts: KneserNey) -> LogProbs:
    def log_probs(texts: Sequence[Sequence[int]]) -> np.ndarray:
        return np.array([counts.log_probs(np.asarray(ids)).sum() for ids in texts])

    return log_probs


def _mean(shares: Iterable[dict[str, float] | None]) -> float | None:
    values = [share["value"] for share in shares if share is not None]
    return sum(values) / len(values) if values else None
