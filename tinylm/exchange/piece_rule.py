r"""The rule of `longest_match` prompts in parts that the library `tokenizers` ships.

The rule itself is `vocab.longest_match`. The normalizer cuts a text into GPT-2's words, because
capitals are only visible per word: it puts U+001C after each word and U+001D after one in capitals,
then lowercases them letter by letter. Both characters end a line by the rule, so they can serve as
marks once every line end is a line feed. The pre-tokenizer removes the marks and cuts each word by
a pattern of all tokens, the longer ones first, which is longest match.
"""

from collections.abc import Iterable, Sequence
from string import ascii_uppercase
from typing import Any

from tinylm.vocab.byte_level import BYTE_OF

# Those of str.splitlines except the line feed.
_LINE_END = r"\r\n|[\r\v\f\x1c-\x1e\x{85}\x{2028}\x{2029}]"
# GPT-2's, in a line
_WORD = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|[^\S\n]+(?!\S)|[^\S\n]+"
_END = "\x1c"
_CAPITALS_END = "\x1d"


def piece_library(tokens: Sequence[str]) -> Any:
    """The library's tokenizer over these tokens, in the order of their ids."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    vocabulary = {token: index for index, token in enumerate(tokens)}
    longest_first = "|".join(map(characters, sorted(tokens, key=len, reverse=True)))
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


def characters(text: Iterable[str]) -> str:
    """The characters as a regular expression that matches them literally, one after another."""
    return "".join(rf"\x{{{ord(character):x}}}" for character in text)


def _clean(vocabulary: Iterable[str]) -> list[tuple[str, str]]:
    """Make line ends equal and remove the characters that no tokens spell."""
    spelt = _spelt({BYTE_OF[token] for token in vocabulary if len(token) == 1})
    return [(_LINE_END, "\n"), (rf"[^\n{spelt}]", "")]


def _small_capitals(vocabulary: Iterable[str]) -> list[tuple[str, str]]:
    """ " KING" -> " king", "KING" -> "King", if all the small letters are tokens."""
    tokens = set(vocabulary)
    letters = "".join(letter for letter in ascii_uppercase if letter.lower() in tokens)
    if not letters:
        return []
    ends = [
        (rf" [{letters}]+\K{_END}", _CAPITALS_END),
        (rf"(?<![^\n{_END}])[A-Z][{letters}]*\K{_END}", _CAPITALS_END),
    ]
    return ends + [(rf"(?<=[A-Za-z ]){x}(?=[A-Za-z]*{_CAPITALS_END})", x.lower()) for x in letters]


def _spelt(allowed: set[int]) -> str:
    """The characters whose UTF-8 is made of these bytes, as ranges of a character class."""
    ranges: list[list[int]] = []  # first and last code point
    for code in range(0x110000):
        encoded = chr(code).encode("utf-8", "surrogatepass")
        if 0xD800 <= code < 0xE000 or not allowed.issuperset(encoded):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges)
