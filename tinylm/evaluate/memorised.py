"""Is it memorised? What continuations share with train, word for word.

What the true continuations share with train is the comparison.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tinylm.evaluate.diversity import ngrams
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.evaluate.statistics import Statistic, bootstrap_interval, mean, pooled_ratio
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

ORDERS = tuple(range(1, 9))
NEAR = 4  # the n-grams that decide which story is nearest
PROTOCOL = (
    "Words as the model has them, prompts left out. A run is a sequence of words that also occurs "
    "within one story of train; an n-gram is new if train does not have it; the nearest story of "
    f"train is the one that has most of the text's different {NEAR}-grams. The stories' own "
    "continuations, which the model never saw, show what chance and the kind of text give."
)
TEXTS = (("continuation", "ids"), ("reference", "reference_ids"))


@dataclasses.dataclass
class Overlap:
    """What one text shares with train. Stories are numbered from 0.

    longest: words of the longest run that occurs inside one story of train. `run` is the first
    such run in the text, `run_story` the first story that contains it (None without a run).
    new: for each n of ORDERS (n-grams of the text that train lacks, all n-grams of the text).
    nearest: the first story that contains most of the text's different `NEAR`-grams.
    overlap: the share of them that it contains (None and 0.0 if no story contains one).
    """

    words: int
    longest: int = 0
    run: str = ""
    run_story: int | None = None
    new: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    nearest: int | None = None
    overlap: float = 0.0


class _Gram:
    """An n-gram of the texts, as a node of their trie.

    longer: the n-grams of one more word, by that word; places: (text, word) of each occurrence;
    story: the first story of train that contains it.
    """

    __slots__ = ("longer", "places", "story")

    def __init__(self) -> None:
        self.longer: dict[str, _Gram] = {}
        self.places: list[tuple[int, int]] = []
        self.story: int | None = None


class _Index:
    """The n-grams of all texts up to the longest of ORDERS, and what train has of them.

    Every story is read once. From each of its words the n-gram grows as long as some text has it;
    from the longest order on, the run is followed word by word.
    """

    def __init__(self, texts: Sequence[Sequence[str]]):
        self.texts = texts
        self.root = _Gram()
        self.long_runs: dict[tuple[int, int], tuple[int, int]] = {}  # (text, word) -> length, story
        self.nearest: list[int | None] = [None] * len(texts)
        self.shared = [0] * len(texts)  # NEAR-grams that the nearest story contains
        for number, words in enumerate(texts):
            for start in range(len(words)):
                gram = self.root
                for word in words[start : start + ORDERS[-1]]:
                    gram = gram.longer.setdefault(word, _Gram())
                    gram.places.append((number, start))

    def read(self, story: int, words: Sequence[str]) -> None:
        """Look for the texts' n-grams in one story of train."""
        near = set()
        for start in range(len(words)):
            gram = self.root
            for n, word in enumerate(words[start : start + ORDERS[-1]], start=1):
                longer = gram.longer.get(word)
                if longer is None:
                    break
                gram = longer
                if gram.story is None:
                    gram.story = story
                if n == NEAR:
                    near.add(gram)
                elif n == ORDERS[-1]:
                    self._follow(story, words, start, gram)
        self._compare(story, near)

    def _follow(self, story: int, words: Sequence[str], start: int, gram: _Gram) -> None:
        """Record how far the texts that have this n-gram agree with the story."""
        for number, first in gram.places:
            text = self.texts[number]
            length = ORDERS[-1]
            most = min(len(text) - first, len(words) - start)
            while length < most and text[first + length] == words[start + length]:
                length += 1
            longest, _ = self.long_runs.get((number, first), (0, 0))
            if length > longest:
                self.long_runs[number, first] = (length, story)

    def _compare(self, story: int, near: set[_Gram]) -> None:
        """Record the story as nearest where it has more of a text's NEAR-grams than any before."""
        counts: Counter[int] = Counter()
        for gram in near:
            counts.update({number for number, _ in gram.places})
        for number, count in counts.items():
            if count > self.shared[number]:
                self.shared[number] = count
                self.nearest[number] = story

    def overlap(self, number: int) -> Overlap:
        """The result for one text, after all stories."""
        words = self.texts[number]
        result = Overlap(len(words), nearest=self.nearest[number])
        runs = [self._run_from(number, start) for start in range(len(words))]
        for start, (length, story) in enumerate(runs):
            if length > result.longest:
                result.longest = length
                result.run = " ".join(words[start : start + length])
                result.run_story = story
        for n in ORDERS:
            count = max(len(words) - n + 1, 0)
            new = sum(length < n for length, _ in runs[:count])
            result.new[n] = (new, count)
        if result.nearest is not None:
            result.overlap = self.shared[number] / len(set(ngrams(words, NEAR)))
        return result

    def _run_from(self, number: int, start: int) -> tuple[int, int | None]:
        """The longest run from this word on, and the first story that contains it."""
        if (number, start) in self.long_runs:
            return self.long_runs[number, start]
        gram = self.root
        length = 0
        for word in self.texts[number][start : start + ORDERS[-1]]:
            longer = gram.longer[word]
            if longer.story is None:
                break
            gram = longer
            length += 1
        return length, gram.story


def overlaps(texts: Sequence[Sequence[str]], stories: Iterable[Sequence[str]]) -> list[Overlap]:
    """Compare texts with the stories of train, all of them as words.

    No run crosses the end of a story or text.
    """
    index = _Index(texts)
    for number, words in enumerate(stories):
        index.read(number, words)
    return [index.overlap(number) for number in range(len(texts))]


def words_of(tokenizer: Tokenizer, ids: Iterable[int]) -> list[str]:
    """The words that ids spell, without special tokens except `<unk>`.

    They are entries of a word vocabulary, otherwise whatever is between white space.
    """
    if tokenizer.kind != "words":
        return tokenizer.decode(ids).split()
    marks = tokenizer.specials - {tokenizer.unk_id}
    return [tokenizer.tokens[index] for index in ids if index not in marks]


def measure_memorised(
    rows: Sequence[dict[str, Any]],
    tokenizer: Tokenizer,
    train: TokenStore,
    settings: EvaluateSettings,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(metrics of continuations and references, one row per text) of rows of `continue_stories`.

    Metrics have 95 % bootstrap intervals over texts; texts without a word are left out of them.
    """
    texts = [words_of(tokenizer, row[key]) for _, key in TEXTS for row in rows]
    stories = (words_of(tokenizer, train.story(index).tolist()) for index in range(len(train)))
    results = overlaps(texts, stories)
    metrics: dict[str, Any] = {"protocol": PROTOCOL, "train_stories": len(train)}
    by_side = {"continuation": results[: len(rows)], "reference": results[len(rows) :]}
    for name, side in by_side.items():
        metrics[f"{name}s"] = _metrics([result for result in side if result.words], settings)
    table = []
    for number, row in enumerate(rows):
        for name, side in by_side.items():
            cells = _cells(side[number], tokenizer, train)
            table.append({"prompt": row["prompt"], "text": name, **cells})
    return metrics, table


def _metrics(results: Sequence[Overlap], settings: EvaluateSettings) -> dict[str, Any]:
    """Means over texts of the longest run and the overlap; the share of new n-grams of them all."""

    def with_interval(values: Sequence[Any], statistic: Statistic) -> dict[str, float]:
        table = np.array(values, dtype=float)
        low, high = bootstrap_interval(table, statistic, settings.bootstrap, settings.seed)
        means = table.reshape(len(table), -1).mean(0, keepdims=True)
        return {"value": float(statistic(means)[0]), "low": low, "high": high}

    metrics: dict[str, Any] = {
        "count": len(results),
        "words": sum(result.words for result in results),
    }
    if not results:
        return metrics
    runs = [result.longest for result in results]
    metrics["longest_run"] = with_interval(runs, mean)
    metrics["longest_run_median"] = float(np.median(runs))
    metrics["longest_run_largest"] = max(runs)
    metrics["whole"] = sum(result.longest == result.words for result in results)
    metrics["new"] = {}
    for n in ORDERS:
        counts = [result.new[n] for result in results if result.words >= n]
        if counts:
            metrics["new"][str(n)] = with_interval(counts, pooled_ratio)
    long_enough = [result.overlap for result in results if result.words >= NEAR]
    if long_enough:
        metrics["overlap"] = with_interval(long_enough, mean)
    return metrics


def _cells(result: Overlap, tokenizer: Tokenizer, train: TokenStore) -> dict[str, Any]:
    """The row of memorised.csv for one text."""
    nearest = ""
    if result.nearest is not None:
        nearest = tokenizer.decode(train.story(result.nearest).tolist())
    cells: dict[str, Any] = {
        "words": result.words,
        "longest_run": result.longest,
        "run": result.run,
        "run_story": "" if result.run_story is None else result.run_story,
    }
    for n, (new, all_grams) in result.new.items():
        cells[f"new_{n}"] = new / all_grams if all_grams else None
    cells["overlap"] = result.overlap
    cells["nearest_story"] = "" if result.nearest is None else result.nearest
    cells["nearest"] = nearest
    return cells
