"""Kneser-Ney against a slow reference that keeps dictionaries, and the baselines made of it."""

import itertools
import math
import tempfile
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinylm.evaluate.baselines import count_ngrams, floor, ngram_loss, uniform_loss
from tinylm.evaluate.ngram import KneserNey
from tinylm.run.evaluated import Loss
from tinylm.vocab.token_store import TokenStore, write_store


class SlowKneserNey:
    """Chen and Goodman's formula, word for word, over dictionaries of tuples."""

    def __init__(self, sequences, order, vocab_size):
        self.order, self.vocab_size = order, vocab_size
        texts = [tuple(int(i) for i in sequence) for sequence in sequences]
        self.counts = {n: self.adjusted(texts, n) for n in range(1, order + 1)}
        self.discounts = {n: self.estimate(list(self.counts[n].values())) for n in self.counts}
        self.followers = {n: defaultdict(dict) for n in self.counts}
        for n, table in self.counts.items():
            for gram, count in table.items():
                self.followers[n][gram[:-1]][gram[-1]] = count

    def adjusted(self, texts, n):
        counts, before = Counter(), defaultdict(set)
        for text in texts:
            for i in range(len(text) - n + 1):
                gram = text[i : i + n]
                if n == self.order:
                    counts[gram] += i + n > 1  # a sequence's first token is not predicted
                elif i > 0:
                    before[gram].add(text[i - 1])
                elif n > 1:
                    counts[gram] += 1
        for gram, words in before.items():
            counts[gram] += len(words)
        return +counts

    @staticmethod
    def estimate(values):
        n1, n2, n3, n4 = (sum(v == k for v in values) for k in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return [0.5, 1.0, 1.5]
        y = n1 / (n1 + 2 * n2)
        d = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        return d if all(0 < d[k] <= k + 1 for k in range(3)) else [0.5, 1.0, 1.5]

    def prob(self, context, word):
        context = tuple(context)[-(self.order - 1) :] if self.order > 1 else ()
        return self._prob(context, word)

    def _prob(self, context, word):
        n = len(context) + 1
        lower = self._prob(context[1:], word) if context else 1 / self.vocab_size
        after = self.followers[n].get(context)
        if not after:
            return lower
        total, d = sum(after.values()), self.discounts[n]
        mass = sum(d[min(a, 3) - 1] for a in after.values()) / total
        count = after.get(word, 0)
        return (count - d[min(count, 3) - 1] if count else 0.0) / total + mass * lower


def zipf_text(rng, length, vocab_size):
    """Ids with a heavy tail and some memory, so that every count of counts is filled."""
    ids = np.minimum(rng.zipf(1.3, length) - 1, vocab_size - 1)
    copies = rng.random(length) < 0.5
    for i in range(7, length):
        if copies[i]:
            ids[i] = (ids[i - 1] * 3 + ids[i - 2]) % vocab_size
    return ids


def cases():
    rng = np.random.default_rng(7)
    stream = zipf_text(rng, 3000, 41)
    cuts = np.sort(rng.choice(np.arange(1, 2999), 150, replace=False))
    return {
        "stream": ([stream], 41),
        "stories": (np.split(stream, cuts), 41),
        "same start": ([np.concatenate(([40], part)) for part in np.split(stream % 40, cuts)], 41),
        "tiny": ([np.array([2, 0, 2, 2, 1, 0, 2])], 5),
        "short and empty": ([np.array([1]), np.array([], dtype=int), np.array([0, 2])], 3),
        "nothing": ([], 3),
        "one word": ([np.zeros(9, dtype=int)], 1),
    }


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_kneser_ney_matches_dictionaries(name, order):
    sequences, vocab_size = cases()[name]
    fast = KneserNey(sequences, order, vocab_size)
    slow = SlowKneserNey(sequences, order, vocab_size)
    rng = np.random.default_rng(11)
    heard = np.concatenate([np.zeros(0, dtype=int), *sequences])[:60]
    for text in (heard, rng.integers(vocab_size, size=60)):
        expected = [np.log(slow.prob(text[:i], text[i])) for i in range(1, len(text))]
        np.testing.assert_allclose(fast.log_probs(text), expected, rtol=1e-12, atol=1e-14)
    occurrences = list(slow.counts[order].values())
    assert fast.unseen_mass == pytest.approx(occurrences.count(1) / max(sum(occurrences), 1))


@pytest.fixture
def stores(corpus):
    return [TokenStore(corpus[0] / "tokens", split) for split in ("train", "evaluation")]


@settings(max_examples=40)
@given(
    stories=st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=5), min_size=1, max_size=5),
    layout=st.sampled_from(["stories", "stream"]),
)
def test_baselines_score_the_tokens_of_the_layout(stories, layout):
    with tempfile.TemporaryDirectory() as folder:
        write_store(folder, "evaluation", stories, vocab_size=5)
        store = TokenStore(folder, "evaluation")
        texts = stories if layout == "stories" else [list(itertools.chain(*stories))]
        ngrams = KneserNey([np.array(text) for text in texts], 3, 5)
        of_ngrams = -sum(ngrams.log_probs(np.array(text)).sum() for text in texts)
        tokens = sum(len(text) - 1 for text in texts)
        for loss, nats in (
            (floor(store, layout, -50.0), 50.0),
            (uniform_loss(store, layout), tokens * math.log(5)),
            (ngram_loss(ngrams, store, layout), of_ngrams),
        ):
            per_token = pytest.approx(nats / tokens)
            assert loss == Loss(pytest.approx(math.exp(nats / tokens)), per_token, tokens)


@pytest.mark.parametrize("layout", ["stories", "stream"])
def test_a_large_train_split_is_sampled_story_by_story(stores, layout, monkeypatch):
    train, _ = stores
    monkeypatch.setattr("tinylm.evaluate.baselines.MAX_COUNTED", len(train.ids) // 4)
    every_fourth = [train.story(index) for index in range(0, len(train), 5)]
    sample = every_fourth if layout == "stories" else [np.concatenate(every_fourth)]
    expected = KneserNey(sample, 3, train.vocab_size).log_probs(train.story(1))
    counted = count_ngrams(train, layout, 3)
    assert counted.tokens <= len(train.ids) // 4
    assert counted.log_probs(train.story(1)) == pytest.approx(expected)
