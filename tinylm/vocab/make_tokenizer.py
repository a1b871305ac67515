"""A tokenizer of the kind that the settings name, with its vocabulary built from the stories."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tinylm.base.parallel import in_groups
from tinylm.base.progress import Progress
from tinylm.vocab.bpe import train_bpe
from tinylm.vocab.gpt2 import load_gpt2
from tinylm.vocab.longest_match import train_longest_match
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import Tokenizer
from tinylm.vocab.words import STORIES_AT_ONCE, build_tokenizer, count_words


def make_tokenizer(
    settings: VocabSettings, texts: Callable[[], Iterable[str]], workers: int = 1
) -> tuple[Tokenizer, dict[str, Any]]:
    """Return (the tokenizer that the settings ask for, counts to report about it).

    `texts` yields the train split's stories, for a vocabulary built from them. Raises InputError.
    """
    if settings.tokenizer == "bpe":
        return train_bpe(_shown(texts()), settings), {}
    if settings.tokenizer == "gpt2":
        return load_gpt2(settings), {}
    if settings.tokenizer == "longest_match":
        return train_longest_match(_shown(texts()), settings), {}
    counts = count_words(_shown(texts()), settings, workers)
    once = sum(count == 1 for count in counts.values())
    seen = {"words_seen": len(counts), "words_seen_once": once}
    return build_tokenizer(counts, settings), seen


def _shown(texts: Iterable[str]) -> Iterator[str]:
    """The texts; shows how many were read."""
    with Progress("vocabulary", None, "stories") as progress:
        for group in in_groups(texts, STORIES_AT_ONCE):
            yield from group
            progress.advance(len(group))
