"""The interface of all tokenizers: text <-> ids. Code above this module works with any of them."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from tinylm.base.config import InputError
from tinylm.base.files import check_sums
from tinylm.vocab.settings import VocabSettings

AGAIN = "run dvc repro -f -s vocab"


class Tokenizer(Protocol):
    """Ids 0 to len - 1; a role that the vocabulary lacks is None, and several roles may share an
    id.

    `pad_id` fills inputs and is never scored, so it may also be the id of a text token. `kind`: as
    in section vocab; `tokens`: how each id is shown; `specials`: the ids that are not text;
    `lossless`: decoding `encode_story(text)` gives `normalise(text)`.
    """

    tokens: list[str]
    specials: set[int]

    @property
    def kind(self) -> str: ...

    @property
    def sos_id(self) -> int | None: ...

    @property
    def eos_id(self) -> int | None: ...

    @property
    def pad_id(self) -> int: ...

    @property
    def unk_id(self) -> int | None: ...

    @property
    def lossless(self) -> bool: ...

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Ids of a prompt, no special token added."""

    def encode_story(self, text: str) -> list[int]:
        """Ids of a story as in the token store."""

    def decode(self, ids: Iterable[int]) -> str:
        """Readable text; special tokens are left out, except `<unk>`."""

    def normalise(self, text: str) -> str:
        """The text that is modelled; bits per byte counts its bytes."""

    def split(self, text: str) -> list[str]:
        """The text's tokens, unknown words unchanged."""

    def unknown_words(self, text: str) -> list[str]:
        """The words that stand for `<unk>`, each as often as it occurs."""

    def word_of(self, index: int, /) -> str:
        """The bare text of one token, for look-up among word vectors; "" if there is none."""

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json."""


def make_tokenizer(
    settings: VocabSettings, texts: Callable[[], Iterable[str]], workers: int = 1
) -> tuple[Tokenizer, dict[str, Any]]:
    """(the tokenizer of the settings, counts to report about it).

    `texts` gives the train split's stories, if the vocabulary is made from them. Raises InputError.
    """
    if settings.tokenizer == "words":
        from tinylm.vocab.words import build_tokenizer, count_words, words_seen

        counts = count_words(texts(), settings, workers)
        return build_tokenizer(counts, settings), words_seen(counts)
    if settings.tokenizer == "gpt2":
        from tinylm.vocab.gpt2 import load_gpt2

        return load_gpt2(settings), {}
    if settings.tokenizer == "bpe":
        from tinylm.vocab.bpe import train_bpe

        return train_bpe(texts(), settings), {}
    from tinylm.vocab.longest_match import train_longest_match

    return train_longest_match(texts(), settings), {}


def open_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer that `save` wrote to the file. Raises InputError if it is anything else."""
    check_sums(path, "vocab")
    try:
        return _from_json(Path(path).read_text(encoding="utf-8"))
    except Exception as error:  # the library `tokenizers` raises nothing more specific
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        raise InputError(f"{path}: not a tokenizer of tinylm ({reason}); {AGAIN}") from None


def _from_json(text: str) -> Tokenizer:
    """Raises any exception for a file that `save` did not write."""
    from tinylm.vocab import bpe, gpt2, longest_match, words

    content = json.loads(text)
    if content.get("type") == longest_match.TYPE:
        return longest_match.LongestMatchTokenizer(content["tokens"])
    import tokenizers

    library = tokenizers.Tokenizer.from_str(text)
    ids = library.get_vocab(with_added_tokens=False)
    tokens = sorted(ids, key=ids.__getitem__)
    tokenizer: bpe.BpeTokenizer | words.WordTokenizer
    if content["model"]["type"] == "WordLevel":
        tokenizer = words.WordTokenizer(tokens[len(words.SPECIALS) :], words.splitter_of(library))
    elif tokens[0] == bpe.SPECIALS[0]:
        merges = list(map(tuple, content["model"]["merges"]))
        tokenizer = bpe.BpeTokenizer(tokens, merges, library.normalizer is not None)
    else:
        merges = list(map(tuple, content["model"]["merges"]))
        tokenizer = gpt2.published(tokens, merges)
    if tokenizer.library().to_str() != library.to_str():
        raise ValueError("its ids or its rule are others")
    return tokenizer
