"""Memorisation: how much of a continuation the nearest training story has.

The nearest story is the train story that shares the most 4-grams with a text. The stories' own
continuations, which are not in train, show how much is shared by chance.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from tinylm.download.same_story import ORDER, bare_words
from tinylm.evaluate.diversity import ngrams
from tinylm.evaluate.scoring import with_interval
from tinylm.evaluate.settings import Metrics
from tinylm.evaluate.statistics import mean
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

N = 4  # words of the n-grams by which the nearest story is found


def nearest_story(
    texts: Sequence[Sequence[str]],
    openings: Sequence[Sequence[str]],
    stories: Iterable[Sequence[str]],
) -> tuple[list[float], list[bool]]:
    """How near each text is to its nearest story, and whether each opening begins a story.

    Nearness is the largest share of the text's different 4-grams that one story has; NaN for a
    text without a 4-gram.
    """
    owners: dict[tuple[str, ...], list[int]] = defaultdict(list)
    grams_of_texts = [set(ngrams(text, N)) for text in texts]
    for number, grams in enumerate(grams_of_texts):
        for gram in grams:
            owners[gram].append(number)
    most_shared = [0] * len(texts)
    unseen = {tuple(opening) for opening in openings}
    lengths = {len(opening) for opening in openings}
    for story in stories:
        unseen -= {tuple(story[:length]) for length in lengths}
        shared: Counter[int] = Counter()
        for gram in owners.keys() & set(ngrams(story, N)):
            shared.update(owners[gram])
        for number, count in shared.items():
            most_shared[number] = max(most_shared[number], count)
    nearness = []
    for count, grams in zip(most_shared, grams_of_texts):
        nearness.append(count / len(grams) if grams else float("nan"))
    return nearness, [tuple(opening) not in unseen for opening in openings]


def words_of(tokenizer: Tokenizer, ids: Iterable[int]) -> list[str]:
    """The bare words that ids spell (`same_story`): without case and punctuation."""
    return _words(tokenizer.decode(ids))


def _words(text: str) -> list[str]:
    return [word.decode() for word in bare_words(text)]


def measure_memorised(
    samples: pd.DataFrame,
    tokenizer: Tokenizer,
    train: TokenStore,
) -> tuple[Metrics, pd.DataFrame]:
    """(metrics of continuations and references, one row per text) of `continue_prompts`.

    Metrics have 95 % bootstrap intervals over texts; texts without a word are left out of them.
    """
    texts = []
    for continuation, reference in zip(samples["ids"], samples["reference_ids"], strict=True):
        texts.append(words_of(tokenizer, continuation))
        texts.append(words_of(tokenizer, reference))
    openings = [_words(prompt) for prompt in samples["prompt"]]
    stories = (words_of(tokenizer, train.story(index).tolist()) for index in range(len(train)))
    nearness, seen = nearest_story(texts, openings, stories)
    table = pd.DataFrame({"prompt": samples["prompt"].repeat(2).to_numpy()})
    table["text"] = ["continuation", "reference"] * len(samples)
    table["words"] = [len(text) for text in texts]
    table["nearest"] = nearness
    table["opening_seen"] = np.repeat(seen, 2)
    metrics: Metrics = {"train_stories": len(train)}
    metrics["openings_seen"] = sum(seen)
    for name in ("continuation", "reference"):
        has_words = (table["text"] == name) & (table["words"] > 0)
        metrics[f"{name}s"] = _metrics(table[has_words])
    whole = metrics["references"].get("whole", 0)
    metrics["warnings"] = []
    if whole:
        metrics["warnings"].append(
            f"{whole} of {len(samples)} true continuations of the evaluation split have all their "
            f"{N}-grams in one train story ({ORDER} words or more)"
        )
    return metrics, table


def _metrics(table: pd.DataFrame) -> Metrics:
    """How near the nearest story is, and how many texts are copied whole: all their 4-grams."""
    words = table["words"]
    metrics: Metrics = {"count": len(table), "words": int(words.sum())}
    if table.empty:
        return metrics
    nearest = table["nearest"].dropna()
    if len(nearest):
        metrics["nearest"] = with_interval(nearest, mean)
    metrics["whole"] = int(((table["nearest"] == 1) & (words >= ORDER)).sum())
    return metrics
