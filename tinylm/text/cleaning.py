"""Cleaning of text, of stories and of prompts alike: line ends, control characters, quotes.

The rule, in this order:

1. surrogate pairs are joined, a lone surrogate becomes U+FFFD;
2. invisible characters that only control how text is shown are deleted: BOM, zero-width space,
   direction marks, soft hyphen ... (`IGNORED`); joiners stay, since they are part of words in
   Persian or Hindi and of emoji; Unicode normal form C;
3. punctuation that was written in UTF-8 and read as Windows-1252 or Latin-1 is
   repaired; so is the closing quote that lost its last byte;
4. CR LF, CR, NEL, form feed, vertical tab, U+2028 and U+2029 become line feeds; other control
   characters (Unicode Cc: NUL, DEL ...) become spaces, except tab;
5. of a whole text, white space at both ends is removed.
"""

import re
import unicodedata

LINE_ENDS = (0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029)
CONTROLS: dict[int, str] = {
    **dict.fromkeys((*range(32), *range(127, 160)), " "),
    **dict.fromkeys(LINE_ENDS, "\n"),
    ord("\t"): "\t",
}
# A class of a regular expression in Python, JavaScript and the library `tokenizers` alike.
IGNORED = (
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
)
_IGNORED = re.compile(f"[{IGNORED}]")
_MISREAD = re.compile("\u00e2[\u20ac\u0080]([^\u00e2]?)")  # bytes E2 80, and the third one misread
_TYPOGRAPHIC = (
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2018\u2019\u201a\u201c\u201d\u201e\u2022\u2026"
)
_TYPOGRAPHIC_MARK = re.compile(f"[{_TYPOGRAPHIC}]")
_INSIDE_WORDS = {"\u2018": "'", "\u2019": "'", "\u2010": "-", "\u2011": "-"}
_CLOSING_QUOTE = "\u201d"  # E2 80 9D: Windows-1252 has no character 9D, so it gets lost


def _repair(match: re.Match[str]) -> str:
    third = match[1]
    try:
        byte = third.encode("cp1252")[0] if third else 0
    except UnicodeEncodeError:
        byte = ord(third) if ord(third) < 256 else 0
    repaired = chr(0x2000 | byte & 0x3F)
    if 0x80 <= byte <= 0xBF and repaired in _TYPOGRAPHIC:
        return repaired
    return _CLOSING_QUOTE + third.removeprefix("\ufffd")


def repair_quotes(text: str) -> str:
    """Repair quotes, dashes and dots that were decoded wrongly (U+2010 to U+2026)."""
    return _MISREAD.sub(_repair, text)


def unify_by_the_rule(text: str, repair: bool) -> str:
    """Every step of the rule but the last, on every character."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = unicodedata.normalize("NFC", _IGNORED.sub("", text))
    if repair:
        text = repair_quotes(text)
    return text.replace("\r\n", "\n").translate(CONTROLS)


def unify(text: str, repair: bool = False) -> str:
    """Part of a text by the rule above, without its last step; printable ASCII stays as it is."""
    is_plain = text.isascii() and text.replace("\n", "").isprintable()
    return text if is_plain else unify_by_the_rule(text, repair)


def ascii_marks(text: str) -> str:
    """The text with an ASCII mark, or a space, for quotes, dashes and dots: mostly ASCII alone is left.

    Only those that can stand inside a word, apostrophe and hyphen, remain marks.
    """
    return text if text.isascii() else _TYPOGRAPHIC_MARK.sub(_ascii_mark, text)


def _ascii_mark(match: re.Match[str]) -> str:
    return _INSIDE_WORDS.get(match[0], " ")


def clean_text(text: str, repair: bool = True) -> str:
    """The whole text by the rule above; cleaning the result again changes nothing."""
    return unify(text, repair).strip()
