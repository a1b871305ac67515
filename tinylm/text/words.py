"""How text is split into words, by one rule that Hugging Face `tokenizers` and the story lab follow too.

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
   "10:30"); `attached` leaves all marks on their words. Marks that Tibetan and Ethiopic write
   instead of spaces stay on the word before them;
5. no word is longer than 100 characters: a longer one is continued as another word.

No text can spell a control token: `drop` deletes and `keep` splits off the brackets, `attached`
splits "<eos>" into "<" and "eos>".
"""

import re
import string
from typing import Any

from tinylm.text.cleaning import ascii_marks, unify

MAX_WORD = 100
ASCII_SYMBOLS = (
    "$+<=>^`|~"  # that separate words like punctuation, though Unicode calls them symbols
)
WORD_SEPARATORS = "\u0f0b\u0f0c\u1361"  # Tibetan tsheg and the Ethiopic word space

_SEPARATOR = re.compile(f"[{WORD_SEPARATORS}]")
_UNSPACED = re.compile(  # Thai to Lao, Myanmar, Khmer, Chinese and Japanese
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)

# Patterns below mean the same in the library `tokenizers` and, with flag u, in JavaScript.
_SPELLED_SPECIAL = r"<(?=(?:sos|eos|pad|unk)>)"
_PUNCTUATION = rf"[\p{{P}}{ASCII_SYMBOLS}]"
_UNBROKEN = rf"\S{{1,{MAX_WORD}}}"
_LETTER = r"[\p{L}\p{M}\p{N}]"
_WORD = "[\\p{L}\\p{M}\\p{N}\\p{Pc}\u200c\u200d]+"
# Also the middle dot of Catalan, and geresh and gershayim of Hebrew, for which many type quotes.
_APOSTROPHE = "['`\u2018\u2019\uff07\u00b7\u05f3\u05f4]|(?<=[\u05d0-\u05ea])\"(?=[\u05d0-\u05ea])"
_HYPHEN = "[\u002d\u2010\u2011\u058a\u05be\uff0d]"
_IN_NUMBER = r"(?<=\p{Nd})[.,:](?=\p{Nd})"
_IN_WORD = rf"(?<={_LETTER})(?:{_APOSTROPHE}|{_HYPHEN})(?={_LETTER})|{_IN_NUMBER}"
_WORD_OR_MARK = rf"{_WORD}(?:(?:{_APOSTROPHE}|{_IN_NUMBER}){_WORD})*|(?!{_WORD})\S"

_ASCII_WORD_OR_MARK = re.compile(r"\w+(?:['`]\w+|(?<=\d)[.,:](?=\d)\w+)*|[^\s\w]")
_ASCII_IN_NUMBER = re.compile(r"[.,:](?<=\d[.,:])(?=\d)")
_ASCII_MARKS_IN_WORD = "'`-"
_ASCII_MARKS_IN_A_ROW = re.compile(r"['`-]{2,}")
_ASCII_SEPARATING = set(string.punctuation) - set(_ASCII_MARKS_IN_WORD)

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
        steps += [("replace", mark, mark + " ") for mark in WORD_SEPARATORS]
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


def _ascii_table(lower_case: bool, punctuation: str) -> tuple[bytes, bytes]:
    """(what each byte of an ASCII text becomes, the bytes that are deleted), for `bytes.translate`."""
    table = bytearray(range(256))
    for control in (*range(32), 127):
        table[control] = ord(" ")
    if lower_case:
        table = table.lower()
    if punctuation != "drop":
        return bytes(table), b""
    for mark in _ASCII_SEPARATING:
        table[ord(mark)] = ord(" ")
    return bytes(table), _ASCII_MARKS_IN_WORD.encode()


class Splitter:
    """text -> words. Fast path for ASCII text, in plain Python; the library splits other text.

    On ASCII the rule involves no Unicode; a test of all 128 characters shows that both agree.
    """

    def __init__(self, lower_case: bool, punctuation: str):
        self.lower_case = lower_case
        self.punctuation = punctuation
        self.normalizer, self.pre_tokenizer = _library_parts(lower_case, punctuation)
        self._table, self._deleted = _ascii_table(lower_case, punctuation)
        self._find_pieces = re.compile(_UNBROKEN).findall

    def __call__(self, text: str) -> list[str]:
        if self.punctuation == "drop":
            text = ascii_marks(text)
        if text.isascii():
            return self._split_ascii(text)
        normalised = self.normalizer.normalize_str(unify(text))
        return [word for word, _ in self.pre_tokenizer.pre_tokenize_str(normalised)]

    def _split_ascii(self, text: str) -> list[str]:
        """The same words as the library's, several times as fast."""
        if self.punctuation == "drop":
            text = _ASCII_IN_NUMBER.sub("", text)
            text = _ASCII_MARKS_IN_A_ROW.sub(" ", text)
        text = text.encode().translate(self._table, self._deleted).decode()
        if self.punctuation == "attached" and "<" in text:
            text = re.sub(_SPELLED_SPECIAL, "< ", text)
        words = _ASCII_WORD_OR_MARK.findall(text) if self.punctuation == "keep" else text.split()
        if max(map(len, words), default=0) <= MAX_WORD:
            return words
        return [piece for word in words for piece in self._find_pieces(word)]


def spaced(text: str) -> str:
    """The text with each character of a script without spaces as a word.

    Where Tibetan and Ethiopic have a mark between words, the mark becomes a space.
    """
    if text.isascii():
        return text
    return _SEPARATOR.sub(" ", _UNSPACED.sub(r" \g<0> ", text))
