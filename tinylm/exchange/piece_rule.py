r"""The rule of `longest_match` prompts in parts that the library `tokenizers` ships; see `text.tokens.longest_match`.

The normalizer cuts a text into GPT-2's words, because capitals are only visible per word: it puts U+001C after each
word and U+001D after one in capitals, then lowercases them letter by letter. Both characters end a line by the rule, so
they can serve as marks once every line end is a line feed. The pre-tokenizer removes the marks and cuts each word by a
pattern of all tokens, the longer ones first, which is longest match.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from string import ascii_uppercase
from typing import Any

from tinylm.vocab.byte_level import BYTE_OF

# Those of str.splitlines except the line feed.
_LINE_END = r"\r\n|[\r\v\f\x1c-\x1e\x{85}\x{2028}\x{2029}]"
_WORD = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|[^\S\n]+(?!\S)|[^\S\n]+"  # GPT-2's, in a line
_END, _CAPITALS_END = "\x1c", "\x1d"


def piece_library(tokens: Sequence[str]) -> Any:
    """The library's tokenizer over these tokens, in the order of their ids."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    vocabulary = {token: index for index, token in enumerate(tokens)}
    longest_first = "|".join(map(_literal, sorted(tokens, key=len, reverse=True)))
    # The unknown token is never met: every character is a token.
    library = Tokenizer(models.WordLevel(vocabulary, unk_token=tokens[0]))
    steps = [*_clean(vocabulary), (rf"(?:{_WORD})\K", _END), *_small_capitals(vocabulary)]
    library.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(pattern), new) for pattern, new in steps]
    )
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(rf"[\n{_END}{_CAPITALS_END}]+"), "removed"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            pre_tokenizers.Split(Regex(longest_first), "isolated"),
        ]
    )
    library.decoder = decoders.ByteLevel()
    return library


def _literal(token: str) -> str:
    return "".join(rf"\x{{{ord(character):x}}}" for character in token)


def _clean(vocabulary: Iterable[str]) -> list[tuple[str, str]]:
    """Make line ends equal and remove the characters that no tokens spell."""
    known = _spelt({BYTE_OF[token] for token in vocabulary if len(token) == 1})
    return [(_LINE_END, "\n"), (rf"[^\n{known}]", "")]


def _small_capitals(vocabulary: Iterable[str]) -> list[tuple[str, str]]:
    """ " KING" -> " king", "KING" -> "King", if all the small letters are tokens."""
    known = set(vocabulary)
    letters = "".join(letter for letter in ascii_uppercase if letter.lower() in known)
    if not letters:
        return []
    ends = [
        (rf" [{letters}]+\K{_END}", _CAPITALS_END),
        (rf"(?<![^\n{_END}])[A-Z][{letters}]*\K{_END}", _CAPITALS_END),
    ]
    return ends + [(rf"(?<=[A-Za-z ]){x}(?=[A-Za-z]*{_CAPITALS_END})", x.lower()) for x in letters]


def _spelt(known: set[int]) -> str:
    """The characters whose UTF-8 is made of these bytes, as ranges of a character class."""
    codes = sorted(code for length in range(1, 5) for code in _codes(known, length))
    starts = [code for before, code in pairwise([-2, *codes]) if code != before + 1]
    ends = [code for code, after in pairwise([*codes, -2]) if after != code + 1]
    return "".join(
        rf"\x{{{start:x}}}-\x{{{end:x}}}" for start, end in zip(starts, ends, strict=True)
    )


def _codes(known: set[int], length: int) -> Iterable[int]:
    """Code points of the characters of `length` bytes, all of them known."""
    low = (0, 0x80, 0x800, 0x10000, 0x110000)
    if length == 1:
        return (byte for byte in known if byte < 0x80)
    lead = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}[length]
    codes = [byte & (0x7F >> length) for byte in known if byte in lead]
    for _ in range(length - 1):
        codes = [code << 6 | byte & 0x3F for code in codes for byte in known if 0x80 <= byte < 0xC0]
    return (
        code
        for code in codes
        if low[length - 1] <= code < low[length] and not 0xD800 <= code < 0xE000
    )
