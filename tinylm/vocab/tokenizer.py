"""The interface of all tokenizers: text <-> ids. Code above this package works with any of them."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write, check_sums, read_json
from tinylm.vocab.settings import PUNCTUATIONS, VocabSettings

PROBE = (  # clean text on which rules of tokenizers differ
    "Once upon a time, THE dog's re-read: \u201c\u00c9a\u201d (it\u2019s) 5 < 6 + a|b~ $3 \u20ac <eos> <unk> "
    f"don't \n x\u0323 \u4e2d\u6587, {'long' * 40}."
)


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
                f"{name} is empty; allowed: some text, as this vocabulary has no token that opens one"
            )
        return ids

    def encode_story(self, text: str) -> list[int]:
        """Ids of a story as in the token store: between `sos_id` and `eos_id`, if there are any."""
        start = [] if self.sos_id is None else [self.sos_id]
        end = [] if self.eos_id is None else [self.eos_id]
        return [*start, *self.encode(text), *end]

    def decode(self, ids: Iterable[int]) -> str:
        """Readable text; special tokens are left out, except `<unk>`."""
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

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json, readable by `tokenizers.Tokenizer.from_file`."""
        with atomic_write(path) as handle:
            handle.write(self.library().to_str(pretty=True) + "\n")


def make_tokenizer(
    settings: VocabSettings, texts: Callable[[], Iterable[str]], workers: int = 1
) -> tuple[Tokenizer, dict[str, Any]]:
    """(the tokenizer of the settings, counts to report about it).

    `texts` gives the train split's stories, if the vocabulary is made from them. Raises InputError.
    """
    if settings.tokenizer == "words":
        from tinylm.vocab.words import build_tokenizer, count_words

        counts = count_words(texts(), settings, workers)
        once = sum(count == 1 for count in counts.values())
        seen = {"words_seen": len(counts), "words_seen_once": once}
        return build_tokenizer(counts, settings), seen
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
    from tokenizers import Tokenizer as Library

    from tinylm.vocab.longest_match import LongestMatchTokenizer

    check_sums(path, "vocab")
    content: Any = read_json(path, "vocab")
    try:
        if content.get("type") == "longest_match":  # the format of release 0.3.0
            return LongestMatchTokenizer(content["tokens"])
        library = Library.from_file(str(path))
        rule = _rule(library)
        for tokenizer in _with_its_vocabulary(library):
            if _rule(tokenizer.library()) == rule:
                return tokenizer
        raise ValueError("its ids or its rule are others")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # where its regular expressions give up, the library panics
        line = str(error).partition("\n")[0][:160]
        raise InputError(
            f"{path}: not a tokenizer of tinylm ({line}); run dvc repro -f -s vocab"
        ) from None


def _rule(library: Any) -> tuple[Any, ...]:
    """What a library's tokenizer does: its model, the words of a text, and its added tokens.

    Words are compared, since there are several ways to write the rule that splits them.
    """
    text = PROBE if library.normalizer is None else library.normalizer.normalize_str(PROBE)
    words = library.pre_tokenizer.pre_tokenize_str(text) if library.pre_tokenizer else [text]
    return library.model.__getstate__(), words, library.get_added_tokens_decoder()


def _with_its_vocabulary(library: Any) -> Iterator[Tokenizer]:
    """Our tokenizers with the library's vocabulary. ValueError or LookupError if there is none."""
    from tinylm.vocab import bpe, gpt2, longest_match, words

    kind = type(library.model).__name__
    ids = library.get_vocab(with_added_tokens=False)
    if sorted(ids.values()) != list(range(len(ids))):  # the library would write all ids between
        raise ValueError("its ids are not consecutive")
    tokens = sorted(ids, key=ids.__getitem__)
    if kind == "BPE":
        _, merges = bpe.parts_of(library)
        if tokens[0] == bpe.SPECIALS[0]:
            for lower_case in (True, False):
                yield bpe.BpeTokenizer(tokens, merges, lower_case)
        else:
            yield gpt2.published(tokens, merges)
    elif kind == "WordLevel":
        vocabulary = tokens[len(words.SPECIALS) :]
        for lower_case, punctuation in product((True, False), PUNCTUATIONS):
            yield words.WordTokenizer(vocabulary, words.Splitter(lower_case, punctuation))
    elif kind == "WordPiece":
        yield longest_match.LongestMatchTokenizer(tokens)
