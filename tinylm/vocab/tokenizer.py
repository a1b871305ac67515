"""The interface of all tokenizers: text <-> ids. Code above this package works with any of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write, write_json

RULE_FILE = "tokenizer_kind.json"  # next to tokenizer.json


class Tokenizer:
    """Text <-> ids 0 to len - 1. Text is cleaned by `unify` before it is encoded.

    tokens: the name of each id. specials: the ids that are not text. kind: as in section vocab.
    A role that the vocabulary lacks is None, and several roles may share an id. `pad_id` fills
    inputs and is never scored, so it may also be the id of a text token.
    lossless: decoding `encode_story(text)` gives `normalise(text)`.
    """

    kind: str
    sos_id: int | None = None
    eos_id: int | None = None
    pad_id: int = 0
    unk_id: int | None = None
    lossless = True

    def __init__(self, tokens: Iterable[str], specials: Iterable[int]):
        self.tokens = list(tokens)
        self.specials = set(specials)

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, no special token added."""
        raise NotImplementedError

    def encode_prompt(self, text: str, name: str) -> list[int]:
        """Ids that a model continues: `sos_id`, if there is one, and the text's.

        Raises InputError with the prompt's `name` if there are none.
        """
        start = [] if self.sos_id is None else [self.sos_id]
        ids = [*start, *self.encode(text)]
        if not ids:
            raise InputError(
                f"{name}: expected a text with a token of the vocabulary, which has no start token, "
                f"got {text[:80]!r}"
            )
        return ids

    def encode_story(self, text: str) -> list[int]:
        """Ids of a story as in the token store: between `sos_id` and `eos_id`, if there are any."""
        start = [] if self.sos_id is None else [self.sos_id]
        end = [] if self.eos_id is None else [self.eos_id]
        return [*start, *self.encode(text), *end]

    def decode(self, ids: Iterable[int], unknown: Iterable[str] = ()) -> str:
        """Readable text; special tokens are left out, except `<unk>`.

        unknown: the words to write for each `<unk>`, in order, such as `unknown_words` of a prompt.
        """
        raise NotImplementedError

    def normalise(self, text: str) -> str:
        """The text that is modelled; bits per byte counts its bytes."""
        raise NotImplementedError

    def split(self, text: str) -> list[str]:
        """The text's tokens by name, unknown words unchanged."""
        return [self.tokens[index] for index in self.encode(text)]

    def unknown_words(self, text: str) -> list[str]:
        """The words that stand for `<unk>`, each as often as it occurs."""
        return []

    def word_of(self, index: int) -> str:
        """The bare text of one token, for look-up among word vectors; "" if there is none."""
        raise NotImplementedError

    def shown(self, index: int) -> str:
        """One token for readers."""
        return self.tokens[index]

    def library(self) -> Any:
        """The tokenizer of the library `tokenizers` with the ids of stories, special ones aside."""
        raise NotImplementedError

    def rule(self) -> dict[str, Any]:
        """What `open_tokenizer` must know besides the vocabulary: the kind and its settings."""
        return {"kind": self.kind}

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json, readable by `tokenizers.Tokenizer.from_file`, and RULE_FILE next to it."""
        with atomic_write(path) as handle:
            handle.write(self.library().to_str(pretty=True) + "\n")
        write_json(Path(path).with_name(RULE_FILE), self.rule())
