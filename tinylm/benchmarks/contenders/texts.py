"""Words counted and encoded, quotes mended: what a user would take instead, on a sample of the same text.

Each step takes the sample's path once and answers {seconds, mb}; encoding repeats nothing that counting did.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tinylm.benchmarks.serve import Step


def _timed(setup: Mapping[str, Any], work: Callable[[list[str]], object]) -> Step:
    stories = Path(setup["path"]).read_text(encoding="utf-8").split("<|endoftext|>")
    size = Path(setup["path"]).stat().st_size / 1e6

    def step(_: Mapping[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        work(stories)
        return {"seconds": time.perf_counter() - start, "mb": size}

    return step


def plain_python(setup: Mapping[str, Any]) -> Step:
    """`re` and a dict, one core: lower case, words counted, then looked up."""
    words = re.compile(r"[^\W_]+").findall

    def work(stories: list[str]) -> None:
        counts: Counter[str] = Counter()
        for story in stories:
            counts.update(words(story.lower()))
        ids = {word: number for number, (word, _) in enumerate(counts.most_common())}
        for story in stories:
            [ids[word] for word in words(story.lower())]

    return _timed(setup, work)


def tokenizers(setup: Mapping[str, Any]) -> Step:
    """tokenizers (Rust): a WordLevel vocabulary trained, then `encode_batch_fast`, on all cores."""
    import tokenizers

    def work(stories: list[str]) -> None:
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="<unk>"))
        made.normalizer = tokenizers.normalizers.Lowercase()
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        trainer = tokenizers.trainers.WordLevelTrainer(
            vocab_size=1 << 20, special_tokens=["<unk>"], show_progress=False
        )
        made.train_from_iterator(stories, trainer)
        for start in range(0, len(stories), 1000):
            made.encode_batch_fast(stories[start : start + 1000])

    return _timed(setup, work)


def ftfy(setup: Mapping[str, Any]) -> Step:
    """ftfy.fix_text on every story, its default use."""
    import ftfy

    return _timed(setup, lambda stories: [ftfy.fix_text(story) for story in stories])


def our_cleaning(setup: Mapping[str, Any]) -> Step:
    """tinylm's `clean_text` with quotes mended, on every story, one core."""
    from tinylm.text.corpus.cleaning import clean_text

    return _timed(setup, lambda stories: [clean_text(story, True) for story in stories])
