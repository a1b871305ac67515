"""Contenders over text: words counted and encoded, quotes mended, vectors read from a fastText .bin.

Without torch, so that the size of the process is that of the reader. For texts, a step processes the sample named by
`path` once and answers {seconds, mb}; for vectors it answers {seconds, digest, process_mib}.
"""

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.benchmarks.serve import Step, seconds
from tinylm.host.memory import own_peak_mib


def _over_texts(setup: Mapping[str, Any], work: Callable[[list[str]], object]) -> Step:
    content = Path(setup["path"]).read_bytes()
    stories = content.decode("utf-8").split("<|endoftext|>")
    return lambda _: {"seconds": seconds(lambda: work(stories)), "mb": len(content) / 1e6}


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

    return _over_texts(setup, work)


def tokenizers(setup: Mapping[str, Any]) -> Step:
    """tokenizers (Rust): a WordLevel vocabulary trained, then `encode_batch_fast`, on all cores."""
    import tokenizers

    def work(stories: list[str]) -> None:
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="<unk>"))
        made.normalizer = tokenizers.normalizers.Lowercase()
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        options: dict[str, Any] = {
            "vocab_size": 1 << 20,
            "special_tokens": ["<unk>"],
            "show_progress": False,
        }
        made.train_from_iterator(stories, tokenizers.trainers.WordLevelTrainer(**options))
        for start in range(0, len(stories), 1000):
            made.encode_batch_fast(stories[start : start + 1000])

    return _over_texts(setup, work)


def ftfy(setup: Mapping[str, Any]) -> Step:
    """ftfy.fix_text on every story, its default use."""
    import ftfy

    return _over_texts(setup, lambda stories: [ftfy.fix_text(story) for story in stories])


def our_cleaning(setup: Mapping[str, Any]) -> Step:
    """tinylm's `clean_text` with quotes mended, on every story, one core."""
    from tinylm.download.cleaning import clean_text

    return _over_texts(setup, lambda stories: [clean_text(story, True) for story in stories])


def _over_vectors(read: Callable[[], np.ndarray]) -> Step:
    def step(_: Mapping[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        table = read()
        taken = time.perf_counter() - start
        digest = hashlib.sha256(np.ascontiguousarray(table, dtype="<f4").tobytes()).hexdigest()
        return {"seconds": taken, "digest": digest, "process_mib": own_peak_mib()}

    return step


def our_vectors(setup: Mapping[str, Any]) -> Step:
    """tinylm's reader of .bin files, by position. setup: path, words, width"""
    from tinylm.embedding.fasttext_bin import read_bin

    def read() -> np.ndarray:
        table = np.zeros((len(setup["words"]), setup["width"]), dtype=np.float32)
        read_bin(Path(setup["path"]), setup["words"], table, np.zeros(len(table), dtype=bool))
        return table

    return _over_vectors(read)


def fasttext(setup: Mapping[str, Any]) -> Step:
    """fasttext's own `load_model`. setup: path, words"""
    import fasttext

    def read() -> np.ndarray:
        model = fasttext.load_model(setup["path"])
        return np.stack([model.get_word_vector(word) for word in setup["words"]])

    return _over_vectors(read)
