"""The interface of all tokenizers: text <-> ids. Nothing above this module knows which one it has."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from tinylm.base.config import InputError
from tinylm.base.files import check_sums
from tinylm.vocab.library_file import AGAIN, merges_in_order, same_rule, tokens_by_id
from tinylm.vocab.settings import VocabSettings

MAX_FILE_BYTES = 1 << 30


class Tokenizer(Protocol):
    """Ids 0 to len - 1; a role that the vocabulary lacks is None, and several roles may share an id.

    `pad_id` fills inputs and is never scored, so it may also be the id of a text token. `kind`: as in section vocab;
    `tokens`: how each id is shown; `specials`: the ids that are not text; `lossless`: decoding
    `encode_story(text)` gives `normalise(text)`.
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
    """The tokenizer of the settings, and figures to report about it.

    `texts` gives the train split's stories, if the vocabulary is made from them. Raises InputError.
    """
    if settings.tokenizer == "words":
        from tinylm.vocab.words import build_tokenizer, count_words

        counts = count_words(texts(), settings)
        seen = {
            "words_seen": len(counts),
            "words_seen_once": sum(count == 1 for count in counts.values()),
        }
        return build_tokenizer(counts, settings), seen
    made: Tokenizer
    if settings.tokenizer == "gpt2":
        from tinylm.vocab.gpt2 import load_gpt2

        made = load_gpt2(settings)
    elif settings.tokenizer == "bpe":
        from tinylm.vocab.bpe import train_bpe

        made = train_bpe(texts(), settings)
    else:
        from tinylm.vocab.longest_match import train_longest_match

        made = train_longest_match(texts(), settings)
    return made, {}


def open_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer that `save` wrote to the file. Raises InputError naming the file if it is anything else."""
    check_sums(path, "vocab")
    if Path(path).stat().st_size > MAX_FILE_BYTES:
        raise InputError(f"{path}: larger than {MAX_FILE_BYTES} bytes; not a tokenizer file")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a tokenizer file ({error}); {AGAIN}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: not a tokenizer file (holds no object); {AGAIN}")
    model = content.get("model")
    kind = content.get("type") or (model.get("type") if isinstance(model, dict) else None)
    if kind == "longest_match":
        from tinylm.vocab.longest_match import LongestMatchTokenizer

        return LongestMatchTokenizer.from_content(content, path)
    if kind == "BPE":
        return _open_byte_pairs(content, path)
    from tinylm.vocab.words import WordTokenizer

    return WordTokenizer.from_content(content, path)


def _open_byte_pairs(content: dict[str, Any], path: str | Path) -> Tokenizer:
    """A vocabulary trained here, or GPT-2's: the one that has no <sos>."""
    from tinylm.vocab.bpe import SPECIALS, BpeTokenizer
    from tinylm.vocab.byte_level import byte_pair_library
    from tinylm.vocab.gpt2 import Gpt2Tokenizer

    rules = [
        lower for lower in (False, True) if same_rule(content, byte_pair_library((), (), lower))
    ]
    if not rules:
        raise InputError(
            f"{path}: its normalizer or its merging rule is not one of tinylm's; {AGAIN}"
        )
    tokens, merges = tokens_by_id(content, "BPE", path), merges_in_order(content, path)
    if tokens[:1] == [SPECIALS[0]] or rules[0]:
        return BpeTokenizer.from_parts(tokens, merges, rules[0], path)
    return Gpt2Tokenizer.from_parts(tokens, merges, path)
