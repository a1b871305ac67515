"""Text as it may be shown: on a terminal and in pages."""

import unicodedata
from typing import Any

_VISIBLE = {"\n": "\n", "\t": " "}


def visible(text: Any) -> str:
    """Text with control, format (right-to-left marks among them) and unpaired surrogate characters spelt out.

    For a terminal, which obeys them, and for pages; each character by itself, so a text may be given in pieces.
    """
    return "".join(
        _VISIBLE.get(character, f"⟨U+{ord(character):04X}⟩")
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        else character
        for character in str(text)
    )
