"""The interface of all tokenizers: text <-> ids. Code above this module works with any of them."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from tinylm.base.config import InputError
from tinylm.base.files import check_sums
from tinylm.vocab.settings import VocabSettings

MAX_FILE_BYTES = 1 << 30
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
    settings: VocabSettings, texts: Callable[[], Iterable[str]]
) -> tuple[Tokenizer, dict[str, Any]]:
    """(the tokenizer of the settings, counts to report about it).

    `texts` gives the train split's stories, if the vocabulary is made from them. Raises InputError.
    """
    if settings.tokenizer == "words":
        from tinylm.vocab.words import build_tokenizer, count_words, words_seen

        counts = count_words(texts(), settings)
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
    if Path(path).stat().st_size > MAX_FILE_BYTES:
        raise InputError(f"{path}: larger than {MAX_FILE_BYTES} bytes; not a tokenizer file")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        kind = content["type"] if "type" in content else content["model"]["type"]
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: not a tokenizer file ({reason[:160]}); {AGAIN}") from None
    if kind == "longest_match":
        from tinylm.vocab.longest_match import LongestMatchTokenizer

        return LongestMatchTokenizer.from_content(content, path)
    if kind == "BPE":
        return _open_byte_pairs(content, path)
    if kind == "WordLevel":
        from tinylm.vocab.words import WordTokenizer

        return WordTokenizer.from_content(content, path)
    raise InputError(f"{path}: not a tokenizer of tinylm; {AGAIN}")


def _open_byte_pairs(content: dict[str, Any], path: str | Path) -> Tokenizer:
    """A vocabulary trained here, or GPT-2's: the one that has no <sos>."""
    from tinylm.vocab.bpe import SPECIALS, byte_pair_library, open_trained
    from tinylm.vocab.gpt2 import open_published

    lower_case = content.get("normalizer") is not None
    if not same_rule(content, byte_pair_library((), (), lower_case)):
        raise InputError(f"{path}: its rule is not one of tinylm's; {AGAIN}")
    tokens = tokens_by_id(content, path)
    try:
        merges = [(left, right) for left, right in content["model"]["merges"]]
    except (TypeError, ValueError):
        raise InputError(f"{path}: its merges are not pairs of texts; {AGAIN}") from None
    if lower_case or tokens[:1] == [SPECIALS[0]]:
        return open_trained(tokens, merges, lower_case, path)
    return open_published(tokens, merges, path)


def tokens_by_id(content: dict[str, Any], path: str | Path) -> list[str]:
    """The tokens of a tokenizer file in the order of their ids. InputError if ids are missing."""
    ids = content["model"].get("vocab")
    if not isinstance(ids, dict) or sorted(map(str, ids.values())) != sorted(
        map(str, range(len(ids)))
    ):
        raise InputError(f"{path}: its ids are not 0 to the size of its vocabulary; {AGAIN}")
    return sorted(ids, key=ids.__getitem__)


def same_rule(content: dict[str, Any], library: Any) -> bool:
    """Whether a file of the library `tokenizers` has the rule of `library`, which has no
    vocabulary.

    The file is read by the library first: fields that a newer version adds then have their defaults
    on both sides.
    """
    import tokenizers

    model = dict(content["model"])
    for part in ("vocab", "merges"):
        if part in model:
            model[part] = type(model[part])()
    try:
        bare = tokenizers.Tokenizer.from_str(json.dumps(content | {"model": model}))
    except Exception:  # the library raises nothing more specific
        return False
    return bare.to_str() == library.to_str()
