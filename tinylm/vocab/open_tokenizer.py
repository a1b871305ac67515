"""A tokenizer opened from the files that its `save` wrote."""

from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.text.words import Splitter
from tinylm.vocab.bpe import BpeTokenizer
from tinylm.vocab.gpt2 import Gpt2Tokenizer
from tinylm.vocab.longest_match import LongestMatchTokenizer
from tinylm.vocab.tokenizer import RULE_FILE, Tokenizer
from tinylm.vocab.words import SPECIALS, WordTokenizer


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
