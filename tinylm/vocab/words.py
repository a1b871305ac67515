"""Word-level tokens: text -> words -> ids, by one rule that Hugging Face `tokenizers` and the story
lab follow too.

The rule, in this order:

1. control characters (Unicode Cc: NUL, tab, line breaks) become spaces; format characters (Cf: BOM,
   zero-width space, direction marks, soft hyphens) are deleted, except a joiner after a letter or
   vowel sign, where Persian and Hindi write it; a lone surrogate counts as U+FFFD;
2. Unicode normal form C; lower case if requested, letter by letter (no final sigma rule);
3. `drop`: the marks written inside a word are deleted there: an apostrophe or hyphen between letters
   or digits ("it's" -> "its", "red-haired" -> "redhaired"), and . , : between digits. All other
   punctuation separates words: Unicode's P and the ASCII symbols $ + < = > ^ ` | ~. Then normal form
   C again, since a deletion may bring characters together;
4. words are split at white space; `keep` makes each punctuation mark and symbol a word of its own,
   except an apostrophe between letters or digits ("it's") and . , : between digits ("3.5", "1,000",
   "10:30"); `attached` leaves everything on its word, the marks that Tibetan and Ethiopic write
   instead of spaces on the word before them;
5. nothing is longer than 100 characters: a longer word continues in another word.

No text can spell a control token: `drop` deletes and `keep` splits off the brackets, `attached`
splits "<eos>" into "<" and "eos>".
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tinylm.base.config import InputError
from tinylm.text.cleaning import ascii_marks, unify
from tinylm.text.in_order import in_groups, map_in_order
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import Tokenizer

SPECIALS = ("<sos>", "<eos>", "<pad>", "<unk>")
SOS_ID, EOS_ID, PAD_ID, UNK_ID = range(4)
MAX_WORD = 100
STORIES_AT_ONCE = 2000  # that one process counts

# Patterns below mean the same in the library `tokenizers` and, with flag u, in JavaScript.
_SPELLED_SPECIAL = r"<(?=(?:sos|eos|pad|unk)>)"
_PUNCTUATION = r"[\p{P}$+<=>^`|~]"
_UNBROKEN = rf"\S{{1,{MAX_WORD}}}"
_LETTER = r"[\p{L}\p{M}\p{N}]"
_WORD = "[\\p{L}\\p{M}\\p{N}\\p{Pc}\u200c\u200d]+"
# Also the middle dot of Catalan, and geresh and gershayim of Hebrew, for which many type quotes.
_APOSTROPHE = "['`\u2018\u2019\uff07\u00b7\u05f3\u05f4]|(?<=[\u05d0-\u05ea])\"(?=[\u05d0-\u05ea])"
_HYPHEN = "[\u002d\u2010\u2011\u058a\u05be\uff0d]"
_IN_NUMBER = r"(?<=\p{Nd})[.,:](?=\p{Nd})"
_IN_WORD = rf"(?<={_LETTER})(?:{_APOSTROPHE}|{_HYPHEN})(?={_LETTER})|{_IN_NUMBER}"
_WORD_OR_MARK = rf"{_WORD}(?:(?:{_APOSTROPHE}|{_IN_NUMBER}){_WORD})*|(?!{_WORD})\S"
_SEPARATORS = "\u0f0b\u0f0c\u1361"  # Tibetan tsheg and the Ethiopic word space

_ASCII_WORD_OR_MARK = re.compile(r"\w+(?:['`]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\s\w]")
_ASCII_IN_NUMBER = re.compile(r"[.,:](?<=\d[.,:])(?=\d)")
_ASCII_MARKS_IN_WORD = b"'`-"
_ASCII_MARKS_IN_A_ROW = re.compile(r"['`-]{2,}")
_ASCII_SEPARATING = b'!"#$%&()*+,./:;<=>?@[\\]^_{|}~'

_OPENING = frozenset("([{$\u00bf\u00a1")
_CLOSING = frozenset(".,!?;:)]}%\u2026\u2019\u201d")
# Quotation marks, and what closes each: English, German, French and Spanish.
_QUOTES = {
    '"': '"', "'": "'", "\u2018": "\u2019", "\u201c": "\u201d", "\u201e": "\u201c\u201d",
    "\u201a": "\u2018\u2019", "\u00ab": "\u00bb", "\u00bb": "\u00ab", "\u2039": "\u203a", "\u203a": "\u2039",
}  # fmt: skip
_BETWEEN_WORDS = frozenset("-/" + _SEPARATORS)  # in "5-year-old" and "and/or"

Step = tuple[str, ...]  # ("replace", pattern, replacement), ("nfc",) or ("lower",)


def normalising_steps(lower_case: bool, punctuation: str) -> list[Step]:
    """What is done to a text before it is split, in this order."""
    steps: list[Step] = [
        ("replace", r"\p{Cc}", " "),
        ("replace", "[^\\P{Cf}\u200c\u200d]", ""),
        ("replace", "(?<![\\p{L}\\p{M}])[\u200c\u200d]", ""),
        ("nfc",),
    ]
    if lower_case:
        steps.append(("lower",))
    if punctuation == "drop":
        steps += [("replace", _IN_WORD, ""), ("replace", _PUNCTUATION, " ")]
    steps.append(("nfc",))
    if punctuation == "attached":
        steps.append(("replace", _SPELLED_SPECIAL, "< "))
        steps += [("replace", mark, mark + " ") for mark in _SEPARATORS]
    return steps


def word_patterns(punctuation: str) -> list[str]:
    """What a word is; each pattern splits the matches of the one before it."""
    return [_WORD_OR_MARK, _UNBROKEN] if punctuation == "keep" else [_UNBROKEN]


def _library_parts(lower_case: bool, punctuation: str) -> tuple[Any, Any]:
    """The rule as (normalizer, pre-tokenizer) of Hugging Face `tokenizers`."""
    from tokenizers import Regex, normalizers, pre_tokenizers

    makers: dict[str, Any] = {
        "replace": lambda pattern, text: normalizers.Replace(Regex(pattern), text),
        "nfc": normalizers.NFC,
        "lower": normalizers.Lowercase,
    }
    steps = [makers[name](*values) for name, *values in normalising_steps(lower_case, punctuation)]
    splits = [
        pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        for pattern in word_patterns(punctuation)
    ]
    return normalizers.Sequence(steps), pre_tokenizers.Sequence(splits)


class Splitter:
    """text -> words. Fast path for ASCII text, in plain Python; the library splits other text.

    On ASCII the rule involves no Unicode; a test of all 128 characters shows that both agree.
    """

    def __init__(self, lower_case: bool, punctuation: str):
        self.lower_case = lower_case
        self.punctuation = punctuation
        self.normalizer, self.pre_tokenizer = _library_parts(lower_case, punctuation)
        table = bytearray(range(256))
        for control in (*range(32), 127):
            table[control] = ord(" ")
        self._deleted = b""
        if punctuation == "drop":
            for mark in _ASCII_SEPARATING:
                table[mark] = ord(" ")
            self._deleted = _ASCII_MARKS_IN_WORD
        self._table = bytes(table).lower() if lower_case else bytes(table)
        self._find_pieces = re.compile(_UNBROKEN).findall

    def __call__(self, text: str) -> list[str]:
        if self.punctuation == "drop":
            text = ascii_marks(text)
        if not text.isascii():
            normalised = self.normalizer.normalize_str(unify(text))
            return [word for word, _ in self.pre_tokenizer.pre_tokenize_str(normalised)]
        if self.punctuation == "drop":
            text = _ASCII_MARKS_IN_A_ROW.sub(" ", _ASCII_IN_NUMBER.sub("", text))
        text = text.encode().translate(self._table, self._deleted).decode()
        if self.punctuation == "keep":
            words = _ASCII_WORD_OR_MARK.findall(text)
        else:
            if self.punctuation == "attached" and "<" in text:
                text = re.sub(_SPELLED_SPECIAL, "< ", text)
            words = text.split()
        if max(map(len, words), default=0) <= MAX_WORD:
            return words
        return [piece for word in words for piece in self._find_pieces(word)]


class WordTokenizer(Tokenizer):
    """Words <-> ids; ids 0-3 are `<sos> <eos> <pad> <unk>`, then the words, most frequent first.

    A word that the vocabulary lacks is `<unk>`. The saved file is in the format of Hugging Face
    `tokenizers` and gives the same ids there.
    """

    sos_id, eos_id, pad_id, unk_id = SOS_ID, EOS_ID, PAD_ID, UNK_ID
    kind = "words"
    lossless = False  # a word may be unknown

    def __init__(self, vocabulary: Iterable[str], splitter: Splitter):
        """`vocabulary`: the words in the order of their ids, without the special tokens."""
        super().__init__([*SPECIALS, *vocabulary], range(len(SPECIALS)))
        self.splitter = splitter
        self._ids = {token: index for index, token in enumerate(self.tokens)}

    def split(self, text: str) -> list[str]:
        """The text's words."""
        return self.splitter(text)

    def encode(self, text: str) -> list[int]:
        """Ids of the text's words, no special token added."""
        get = self._ids.get
        return [get(word, UNK_ID) for word in self.split(text)]

    def normalise(self, text: str) -> str:
        """The words joined by one space: the text that is modelled."""
        return " ".join(self.split(text))

    def unknown_words(self, text: str) -> list[str]:
        """The text's words that the vocabulary lacks, each as often as it occurs."""
        return [word for word in self.split(text) if word not in self._ids]

    def word_of(self, index: int) -> str:
        """The word of an id, for look-up among word vectors; "" for a special token."""
        return "" if index in self.specials else self.tokens[index]

    def decode(self, ids: Iterable[int], unknown: Iterable[str] = ()) -> str:
        """Readable text without `<sos> <eos> <pad>`; with `keep`, marks are put on their words.

        unknown: the words to write for each `<unk>`, in order.
        """
        hidden = (SOS_ID, EOS_ID, PAD_ID)
        written = iter(unknown)
        words = []
        for index in ids:
            if index not in hidden:
                word = self.tokens[index]
                words.append(next(written, word) if index == UNK_ID else word)
        if self.splitter.punctuation == "keep":
            return _join_words(words)
        return " ".join(words)

    def rule(self) -> dict[str, Any]:
        """The kind, and how text is split into words."""
        splitter = self.splitter
        return {
            "kind": self.kind,
            "lower_case": splitter.lower_case,
            "punctuation": splitter.punctuation,
        }

    def library(self) -> Any:
        """The tokenizer of the library `tokenizers` with the same ids.

        The special tokens are plain entries: as `added_tokens` they would be found in raw text.
        """
        import tokenizers

        model = tokenizers.models.WordLevel(self._ids, unk_token=SPECIALS[UNK_ID])
        library = tokenizers.Tokenizer(model)
        library.normalizer = self.splitter.normalizer
        library.pre_tokenizer = self.splitter.pre_tokenizer
        return library


def _join_words(words: list[str]) -> str:
    """Words and marks with the spaces of English, and quotation marks on what they enclose.

    A mark that can open and close, such as the straight ones, closes what it opened. A hyphen or slash
    between two words joins them.
    """
    text = ""
    glue = True  # whether the next word follows without a space
    ends: list[str] = []  # what closes each open quotation
    for word, following in zip(words, [*words[1:], ""]):
        joins = word in _BETWEEN_WORDS and _is_letter(text[-1:]) and _is_letter(following[:1])
        closes_quote = any(word in end for end in ends)
        opens_quote = word in _QUOTES and not closes_quote
        while closes_quote and word not in ends.pop():
            pass  # one inside it was never closed
        if opens_quote:
            ends.append(_QUOTES[word])
        closes = closes_quote or word in _CLOSING
        text += word if glue or closes or joins else " " + word
        glue = joins or opens_quote or word in _OPENING
    return text


def _is_letter(character: str) -> bool:
    """Whether it is a letter, vowel sign or digit."""
    return character != "" and unicodedata.category(character)[0] in "LMN"


def count_words(texts: Iterable[str], settings: VocabSettings, workers: int = 1) -> Counter[str]:
    """Count the words of the texts, in several processes."""
    counts: Counter[str] = Counter()
    groups = in_groups(texts, STORIES_AT_ONCE)
    for group_counts in map_in_order(_count_group, groups, workers, settings):
        counts.update(group_counts)
    return counts


def _count_group(texts: list[str], settings: VocabSettings) -> Counter[str]:
    splitter = Splitter(settings.lower_case, settings.punctuation)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(splitter(text))
    return counts


def build_tokenizer(counts: Counter[str], settings: VocabSettings) -> WordTokenizer:
    """Vocabulary of the words with at least `min_count`, at most `max_size` without special tokens.

    Ordered by count descending, ties by word. Raises InputError if no word is left.
    """
    words = [word for word, count in counts.items() if count >= settings.min_count]
    if not words:
        most = max(counts.values(), default=0)
        raise InputError(
            f"vocab.min_count: expected at most {most}, the count of the most frequent word, "
            f"got {settings.min_count}"
        )
    words.sort(key=lambda word: (-counts[word], word))
    splitter = Splitter(settings.lower_case, settings.punctuation)
    return WordTokenizer(words[: settings.max_size], splitter)
