"""Which of two sentences is likelier: what a model knows of grammar and meaning, phenomenon by phenomenon."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from tinylm.base.seeding import derive_seed
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.phenomena import PHENOMENA, Draw, NothingToDraw, Pair
from tinylm.evaluate.statistics import wilson
from tinylm.model.checkpoint import new_model
from tinylm.model.transformer import TinyLM
from tinylm.train.split_loss import target_losses
from tinylm.vocab.batches import UNSCORED, Batch
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

PAIRS = 200  # of each phenomenon, where the vocabulary has words for so many
PAIRS_IN_TRAINING = 60  # of those, at each point of the curve
TOO_FEW = 20  # no figure of fewer pairs
SEEN = 10  # times that each token of a pair must have occurred in the train split
TRIES = 3000
ROWS = 64
PROTOCOL = (
    f"Up to {PAIRS} pairs of each phenomenon, of tokens that occur at least {SEEN} times in the train split; a pair is "
    "right if the right text has the higher probability as a whole, and half right if both have the same."
)
Texts = list[tuple[list[int], list[int]]]


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The pairs of one phenomenon, as texts and as ids with <sos> where the vocabulary has one."""

    name: str
    about: str
    texts: list[Pair]
    ids: Texts


def make_pairs(tokenizer: Tokenizer, train: TokenStore, context: int, seed: int) -> list[Pairs]:
    """Pairs of every phenomenon in words that the model has seen, each at most `context` tokens long."""
    counts = np.bincount(train.ids, minlength=train.vocab_size)
    start = [] if tokenizer.sos_id is None else [tokenizer.sos_id]

    def encode(text: str) -> list[int] | None:
        ids = tokenizer.encode(text)
        known = tokenizer.unk_id not in ids and (counts[ids] >= SEEN).all()
        return start + ids if ids and known and len(start) + len(ids) <= context + 1 else None

    known: dict[str, bool] = {}

    def has(word: str) -> bool:
        if word not in known:
            known[word] = encode(f" {word}") is not None
        return known[word]

    found = []
    for phenomenon in PHENOMENA:
        draw = Draw(has, np.random.default_rng(derive_seed(seed, "pairs", phenomenon.name)))
        made: dict[Pair, tuple[list[int], list[int]]] = {}
        for _ in range(TRIES):
            if len(made) >= PAIRS:
                break
            try:
                pairs = phenomenon.draw(draw)
            except NothingToDraw:
                continue
            if any(
                pair in made for pair in pairs
            ):  # half of two that are crossed would tell how frequent words are
                continue
            coded = [(encode(pair.right), encode(pair.wrong)) for pair in pairs]
            if all(
                right is not None and wrong is not None and right != wrong for right, wrong in coded
            ):
                made |= dict(zip(pairs, coded, strict=True))  # type: ignore[arg-type]
        found.append(Pairs(phenomenon.name, phenomenon.about, list(made), list(made.values())))
    return found


def model_log_probs(model: TinyLM, sequences: Sequence[Sequence[int]], pad_id: int) -> np.ndarray:
    """Log-probability in nats of each sequence after its first token, without dropout.  -> (sequences,) float64"""
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    found = np.zeros(len(sequences))
    if not order:
        return found
    batches = (order[i : i + ROWS] for i in range(0, len(order), ROWS))
    losses = target_losses(
        model, (_batch([sequences[i] for i in rows], pad_id) for rows in batches)
    )
    values = [nats.sum(1, dtype=torch.float64).cpu().numpy() for _, nats in losses]
    found[order] = -np.concatenate(values)
    return found


def _batch(rows: Sequence[Sequence[int]], pad_id: int) -> Batch:
    inputs = torch.full((len(rows), max(map(len, rows)) - 1), pad_id)
    targets = torch.full_like(inputs, UNSCORED)
    for place, row in enumerate(rows):
        inputs[place, : len(row) - 1] = torch.tensor(row[:-1])
        targets[place, : len(row) - 1] = torch.tensor(row[1:])
    return Batch(inputs, targets, sum(map(len, rows)) - len(rows))


def margins(
    pairs: Iterable[Pairs], log_probs: Callable[[Sequence[Sequence[int]]], np.ndarray]
) -> Iterator[np.ndarray]:
    """By how many nats the right text of each pair is likelier: (pairs,) for each phenomenon."""
    for made in pairs:
        values = log_probs([ids for both in made.ids for ids in both]).reshape(-1, 2)
        yield values[:, 0] - values[:, 1]


def share_right(margin: np.ndarray) -> dict[str, float] | None:
    """The share of pairs whose right text is likelier, equal ones half, with Wilson's 95 % interval."""
    right = (margin > 1e-6).sum() + (np.abs(margin) <= 1e-6).sum() / 2  # equal but for rounding
    return wilson(float(right), len(margin))


def untrained_like(model: TinyLM, vectors: np.ndarray, seed: int) -> TinyLM:
    """A model of the same shape with fresh weights, over the vectors (V, D) that training starts from."""
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(seed, "untrained"))
        return (
            new_model(model.settings, torch.from_numpy(vectors)).to(model.embedding.device).eval()
        )


def judge_pairs(
    model: TinyLM,
    tokenizer: Tokenizer,
    train: TokenStore,
    *,
    ngrams: KneserNey,
    unigrams: KneserNey,
    moments: Sequence[tuple[float | None, TinyLM]],
    seed: int,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(figures, a row for each pair) of the model, of n-gram baselines, and of the model at moments of training.

    moments: (epochs, model with the weights of then), from the untrained model on; epochs None: the end. The figures of
    a phenomenon are null where there are fewer than `TOO_FEW` pairs; "all" is the mean over the others.
    """
    made = make_pairs(tokenizer, train, model.settings.context, seed)

    def by_ngrams(counted: KneserNey) -> Callable[[Sequence[Sequence[int]]], np.ndarray]:
        return lambda rows: np.array([counted.log_probs(np.asarray(row)).sum() for row in rows])

    def by(one: TinyLM) -> Callable[[Sequence[Sequence[int]]], np.ndarray]:
        return lambda rows: model_log_probs(one, rows, tokenizer.pad_id)

    sources = {
        "model": by(model),
        "untrained": by(moments[0][1]),
        "kneser_ney": by_ngrams(ngrams),
        "unigram": by_ngrams(unigrams),
    }
    found = {name: list(margins(made, log_probs)) for name, log_probs in sources.items()}
    phenomena: dict[str, Any] = {}
    for place, pairs in enumerate(made):
        enough = len(pairs.texts) >= TOO_FEW
        shares = {
            name: share_right(values[place]) if enough else None for name, values in found.items()
        }
        phenomena[pairs.name] = {"about": pairs.about, "pairs": len(pairs.texts), **shares}
    fewer = [
        Pairs(p.name, p.about, p.texts[:PAIRS_IN_TRAINING], p.ids[:PAIRS_IN_TRAINING]) for p in made
    ]
    training = []
    for epochs, then in moments:
        shares = {
            pairs.name: share_right(margin)
            for pairs, margin in zip(fewer, margins(fewer, by(then)), strict=True)
            if len(pairs.texts) >= TOO_FEW
        }
        training.append({"epochs": epochs, "all": _mean(shares.values()), "phenomena": shares})
    rows = [
        {
            "phenomenon": pairs.name,
            **pair._asdict(),
            **{name: float(values[place][i]) for name, values in found.items()},
        }
        for place, pairs in enumerate(made)
        for i, pair in enumerate(pairs.texts)
    ]
    means = {name: _mean(row[name] for row in phenomena.values()) for name in sources}
    return {"protocol": PROTOCOL, "all": means, "phenomena": phenomena, "training": training}, rows


def _mean(shares: Iterable[dict[str, float] | None]) -> float | None:
    values = [share["value"] for share in shares if share is not None]
    return sum(values) / len(values) if values else None
