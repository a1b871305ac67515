"""Tokenizers of every kind: made from the settings, or opened from their files."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.base.progress import Progress
from tinylm.text.in_order import in_groups
from tinylm.vocab.bpe import BpeTokenizer, train_bpe
from tinylm.vocab.gpt2 import Gpt2Tokenizer, load_gpt2
from tinylm.vocab.longest_match import LongestMatchTokenizer, train_longest_match
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import RULE_FILE, Tokenizer
from tinylm.vocab.words import (
    SPECIALS,
    STORIES_AT_ONCE,
    Splitter,
    WordTokenizer,
    build_tokenizer,
    count_words,
)


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


def open_tokenizer(path: str | Path) -> Tokenizer:
    """Open the tokenizer that `save` wrote: tokenizer.json at `path`, and RULE_FILE next to it.

    Raises InputError if a file is missing or damaged.
    """
    rule = read_json(Path(path).with_name(RULE_FILE), "vocab")
    content = read_json(path, "vocab")
    try:
        return _with_vocabulary(rule, content["model"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: expected a tokenizer that stage vocab wrote, got another file "
            f"({type(error).__name__}: {error}); run dvc repro -f -s vocab"
        ) from None


def _with_vocabulary(rule: dict[str, Any], model: dict[str, Any]) -> Tokenizer:
    """Build the tokenizer that `rule` names from the vocabulary in tokenizer.json.

    Raises KeyError, TypeError or ValueError if the two files do not match.
    """
    ids = model["vocab"]
    tokens = sorted(ids, key=ids.__getitem__)
    kind = rule["kind"]
    if kind == "words":
        splitter = Splitter(rule["lower_case"], rule["punctuation"])
        return WordTokenizer(tokens[len(SPECIALS) :], splitter)
    if kind == "longest_match":
        return LongestMatchTokenizer(tokens)
    merges = [(left, right) for left, right in model["merges"]]
    if kind == "gpt2":
        return Gpt2Tokenizer(tokens, merges)
    if kind == "bpe":
        return BpeTokenizer(tokens, merges, rule["lower_case"])
    raise ValueError(f"unknown kind {kind!r}")
