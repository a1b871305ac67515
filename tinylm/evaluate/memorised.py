"""Is it memorised? What continuations share with train, word for word.

What the true continuations share with train is the comparison.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tinylm.evaluate.diversity import ngrams
from tinylm.evaluate.scoring import with_interval
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.evaluate.statistics import mean, pooled_ratio
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


class _Grams(NamedTuple):
    """The n-grams of many texts that are still compared, for one n.

    words (N,): all texts, each followed by -1, which also stands for words that are not compared.
    text (N,): the number of the text of each word.
    starts (P,): where the n-grams begin, in order. keys (P,): equal for equal n-grams.
    """

    words: np.ndarray
    text: np.ndarray
    starts: np.ndarray
    keys: np.ndarray

    def only(self, shared: np.ndarray) -> "_Grams":
        """The n-grams whose keys are in `shared` (sorted), with their index in it as new key."""
        is_shared = np.isin(self.keys, shared)
        keys = np.searchsorted(shared, self.keys[is_shared])
        return self._replace(starts=self.starts[is_shared], keys=keys)

    def longer(self, n: int, vocabulary: int) -> "_Grams":
        """Those with one word more, n words in all."""
        last = self.words[self.starts + n - 1]
        inside = last >= 0
        keys = self.keys[inside] * vocabulary + last[inside]
        return self._replace(starts=self.starts[inside], keys=keys)


def _join(texts: Iterable[Sequence[str]], numbers: dict[str, int]) -> _Grams:
    words: list[int] = []
    lengths = []
    for text in texts:
        words.extend(numbers.get(word, -1) for word in text)
        words.append(-1)
        lengths.append(len(text) + 1)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.arange(len(words))
    return _Grams(np.array(words, dtype=np.int64), owners, starts, np.zeros_like(starts))


def overlaps(texts: Sequence[Sequence[str]], stories: Iterable[Sequence[str]]) -> list[Overlap]:
    """Compare texts with the stories of train, all of them as words.

    No run crosses the end of a story or text. The n-grams that both sides have are counted for
    n = 1, 2, ... until there are none: those of n words extend those of n - 1.
    """
    numbers: dict[str, int] = {}
    for text in texts:
        for word in text:
            numbers.setdefault(word, len(numbers))
    ours = _join(texts, numbers)
    train = _join(stories, numbers)
    longest = np.zeros(len(ours.words), dtype=np.int64)  # run that begins at each word
    run_story = np.zeros(len(ours.words), dtype=np.int64)  # the first story that contains it
    nearest: list[tuple[int, int] | None] = [None] * len(texts)
    n = 0
    while len(ours.starts):
        n += 1
        ours = ours.longer(n, len(numbers))
        train = train.longer(n, len(numbers))
        shared = np.intersect1d(ours.keys, train.keys)
        ours = ours.only(shared)
        train = train.only(shared)
        _, first = np.unique(train.keys, return_index=True)
        longest[ours.starts] = n
        run_story[ours.starts] = train.text[train.starts[first]][ours.keys]
        if n == NEAR:
            nearest = _nearest(ours, train, len(texts))
    ends = np.cumsum([len(text) + 1 for text in texts])
    results = []
    for text, end, near in zip(texts, ends, nearest, strict=True):
        words = slice(end - 1 - len(text), end - 1)
        results.append(_overlap(text, longest[words], run_story[words], near))
    return results


def _nearest(ours: _Grams, train: _Grams, texts: int) -> list[tuple[int, int] | None]:
    """For each text (first story with most of its different n-grams, how many of them)."""
    holders = np.stack([train.keys, train.text[train.starts]])
    keys, stories = np.unique(holders, axis=1)
    result: list[tuple[int, int] | None] = []
    for number in range(texts):
        of_text = ours.keys[ours.text[ours.starts] == number]
        counts = np.bincount(stories[np.isin(keys, of_text)])
        result.append((int(counts.argmax()), int(counts.max())) if len(counts) else None)
    return result


def _overlap(
    words: Sequence[str],
    longest: np.ndarray,
    run_story: np.ndarray,
    nearest: tuple[int, int] | None,
) -> Overlap:
    """The result for one text, from the longest run at each of its words."""
    result = Overlap(len(words))
    if longest.any():
        start = int(longest.argmax())
        result.longest = int(longest[start])
        result.run = " ".join(words[start : start + result.longest])
        result.run_story = int(run_story[start])
    for n in ORDERS:
        count = max(len(words) - n + 1, 0)
        result.new[n] = (int((longest[:count] < n).sum()), count)
    if nearest is not None:
        result.nearest, shared = nearest
        result.overlap = shared / len(set(ngrams(words, NEAR)))
    return result


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
    metrics: dict[str, Any] = {
        "count": len(results),
        "words": sum(result.words for result in results),
    }
    if not results:
        return metrics
    runs = [result.longest for result in results]
    metrics["longest_run"] = with_interval(runs, mean, settings)
    metrics["longest_run_median"] = float(np.median(runs))
    metrics["longest_run_largest"] = max(runs)
    metrics["new"] = {}
    for n in ORDERS:
        counts = [result.new[n] for result in results if result.words >= n]
        if counts:
            metrics["new"][str(n)] = with_interval(counts, pooled_ratio, settings)
    long_enough = [result.overlap for result in results if result.words >= NEAR]
    if long_enough:
        metrics["overlap"] = with_interval(long_enough, mean, settings)
    return metrics


def _cells(result: Overlap, tokenizer: Tokenizer, train: TokenStore) -> dict[str, Any]:
    """The row of memorised.csv for one text; None becomes an empty cell."""
    cells: dict[str, Any] = {
        "words": result.words,
        "longest_run": result.longest,
        "run": result.run,
        "run_story": "" if result.run_story is None else result.run_story,
    }
    for n, (new, all_grams) in result.new.items():
        cells[f"new_{n}"] = new / all_grams if all_grams else None
    cells["overlap"] = result.overlap
    cells["nearest_story"] = ""
    cells["nearest"] = ""
    if result.nearest is not None:
        cells["nearest_story"] = result.nearest
        cells["nearest"] = tokenizer.decode(train.story(result.nearest).tolist())
    return cells
