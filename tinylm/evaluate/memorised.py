"""Is it memorised? What continuations share with train, word for word.

What the true continuations share with train is the comparison.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

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
SIDES = {"continuation": "ids", "reference": "reference_ids"}


def overlaps(texts: Sequence[Sequence[str]], stories: Iterable[Sequence[str]]) -> pd.DataFrame:
    """What each text shares with the stories of train, all of them as words. A row for each text.

    words: of the text.
    longest_run: words of the longest run that occurs inside one story.
    run, run_story: the first such run in the text, and the first story (from 0) that contains it;
    "" and NA without one.
    new_1 to new_8: how many of the text's n-grams train lacks.
    overlap: the largest share of the text's different `NEAR`-grams that one story contains.
    nearest_story: the first story that contains so many; NA if no story contains one.

    No run crosses the end of a story or text. The n-grams that both sides have are counted for
    n = 1, 2, ... until there are none: those of n words extend those of n - 1.
    """
    numbers: dict[str, int] = {}
    for text in texts:
        for word in text:
            numbers.setdefault(word, len(numbers))
    words, owners = _join(itertools.chain(texts, stories), numbers)
    ends = np.cumsum([len(text) + 1 for text in texts])
    longest = np.zeros(ends[-1], dtype=np.int64)  # run that begins at each word of the texts
    run_story = np.zeros(ends[-1], dtype=np.int64)  # the first story that contains it
    nearest: dict[int, tuple[int, int]] = {}
    starts = np.arange(len(words))  # of the n-grams that texts and train share
    keys = np.zeros(len(words), dtype=np.int64)  # equal for equal n-grams
    n = 0
    while len(starts):
        n += 1
        last = words[starts + n - 1]
        inside = last >= 0
        starts = starts[inside]
        longer = keys[inside] * len(numbers) + last[inside]
        keys = np.unique(longer, return_inverse=True)[1]
        in_texts = owners[starts] < len(texts)
        is_shared = np.isin(keys, keys[in_texts]) & np.isin(keys, keys[~in_texts])
        starts = starts[is_shared]
        keys = keys[is_shared]
        in_texts = in_texts[is_shared]
        if n == NEAR:
            nearest = _nearest(keys, owners[starts], len(texts))
        of_train, first = np.unique(keys[~in_texts], return_index=True)
        holders = owners[starts[~in_texts]][first] - len(texts)
        in_texts_at = starts[in_texts]
        longest[in_texts_at] = n
        run_story[in_texts_at] = holders[np.searchsorted(of_train, keys[in_texts])]
    rows = []
    for number, text in enumerate(texts):
        of_text = slice(ends[number] - 1 - len(text), ends[number] - 1)
        row = _longest_run(text, longest[of_text], run_story[of_text])
        row |= {"overlap": 0.0, "nearest_story": None}
        if number in nearest:
            row["nearest_story"], shared = nearest[number]
            row["overlap"] = shared / len(set(ngrams(text, NEAR)))
        rows.append(row)
    return pd.DataFrame(rows).astype({"run_story": "Int64", "nearest_story": "Int64"})


def _join(texts: Iterable[Sequence[str]], numbers: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """(words, the text that each belongs to): each text is followed by -1, also unknown words."""
    words: list[int] = []
    lengths = []
    for text in texts:
        words.extend(numbers.get(word, -1) for word in text)
        words.append(-1)
        lengths.append(len(text) + 1)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    return np.array(words, dtype=np.int64), owners


def _nearest(keys: np.ndarray, owners: np.ndarray, texts: int) -> dict[int, tuple[int, int]]:
    """{text: (the first story with most of its different n-grams, how many)}, of n-grams' keys."""
    grams = pd.DataFrame({"key": keys, "owner": owners}).drop_duplicates()
    of_texts = grams[grams["owner"] < texts].rename(columns={"owner": "text"})
    of_train = grams[grams["owner"] >= texts].rename(columns={"owner": "story"})
    counts = of_texts.merge(of_train, on="key").groupby(["text", "story"]).size()
    nearest = {}
    for text, story in counts.groupby("text").idxmax():
        nearest[text] = (story - texts, int(counts[text, story]))
    return nearest


def _longest_run(
    words: Sequence[str], longest: np.ndarray, run_story: np.ndarray
) -> dict[str, Any]:
    """The columns about runs, from the longest run at each of the text's words."""
    length = 0
    run = ""
    story = None
    if longest.any():
        start = int(longest.argmax())
        length = int(longest[start])
        run = " ".join(words[start : start + length])
        story = int(run_story[start])
    row: dict[str, Any] = {"words": len(words), "longest_run": length, "run": run}
    row["run_story"] = story
    for n in ORDERS:
        count = max(len(words) - n + 1, 0)
        row[f"new_{n}"] = int((longest[:count] < n).sum())
    return row


def words_of(tokenizer: Tokenizer, ids: Iterable[int]) -> list[str]:
    """The words that ids spell, without special tokens except `<unk>`.

    They are entries of a word vocabulary, otherwise whatever is between white space.
    """
    if tokenizer.kind != "words":
        return tokenizer.decode(ids).split()
    marks = tokenizer.specials - {tokenizer.unk_id}
    return [tokenizer.tokens[index] for index in ids if index not in marks]


def measure_memorised(
    samples: pd.DataFrame,
    tokenizer: Tokenizer,
    train: TokenStore,
    settings: EvaluateSettings,
) -> tuple[dict[str, Any], pd.DataFrame]:
    """(metrics of continuations and references, one row per text) of `Continuer.samples`.

    Metrics have 95 % bootstrap intervals over texts; texts without a word are left out of them.
    In the table, new_1 to new_8 are shares, and nearest is the nearest story itself.
    """
    texts = []
    for sides in zip(*(samples[key] for key in SIDES.values()), strict=True):
        texts += [words_of(tokenizer, ids) for ids in sides]
    stories = (words_of(tokenizer, train.story(index).tolist()) for index in range(len(train)))
    table = overlaps(texts, stories)
    table.insert(0, "prompt", samples["prompt"].repeat(len(SIDES)).to_numpy())
    table.insert(1, "text", [*SIDES] * len(samples))
    metrics: dict[str, Any] = {"protocol": PROTOCOL, "train_stories": len(train)}
    for name in SIDES:
        has_words = (table["text"] == name) & (table["words"] > 0)
        metrics[f"{name}s"] = _metrics(table[has_words], settings)
    for n in ORDERS:
        count = table["words"] - n + 1
        table[f"new_{n}"] = (table[f"new_{n}"] / count).where(count > 0)
    table["nearest"] = ""
    for index, story in table["nearest_story"].dropna().items():
        table.loc[index, "nearest"] = tokenizer.decode(train.story(story).tolist())
    return metrics, table


def _metrics(table: pd.DataFrame, settings: EvaluateSettings) -> dict[str, Any]:
    """Means over texts of the longest run and the overlap; the share of new n-grams of them all."""
    words = table["words"]
    metrics: dict[str, Any] = {"count": len(table), "words": int(words.sum())}
    if table.empty:
        return metrics
    runs = table["longest_run"]
    metrics["longest_run"] = with_interval(runs, mean, settings)
    metrics["longest_run_median"] = float(runs.median())
    metrics["longest_run_largest"] = int(runs.max())
    metrics["new"] = {}
    for n in ORDERS:
        counts = pd.DataFrame({"new": table[f"new_{n}"], "all": words - n + 1})
        counts = counts[words >= n]
        if len(counts):
            metrics["new"][str(n)] = with_interval(counts, pooled_ratio, settings)
    long_enough = table["overlap"][words >= NEAR]
    if len(long_enough):
        metrics["overlap"] = with_interval(long_enough, mean, settings)
    return metrics
