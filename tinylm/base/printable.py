"""Text as it may be shown: on a terminal and in pages."""

import inspect
import unicodedata
import warnings
from typing import Any

# The joiners U+200C and U+200D are part of words.
_VISIBLE = {"\n": "\n", "\t": " ", "\u200c": "\u200c", "\u200d": "\u200d"}
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # Unicode's categories


def visible(text: Any) -> str:
    """Text with control and format characters and unpaired surrogates spelt out.

    A terminal would obey them. Characters are replaced one by one, so a text may be given in parts.
    """
    shown = []
    for character in str(text):
        if unicodedata.category(character) in _HIDDEN:
            character = _VISIBLE.get(character, f"⟨U+{ord(character):04X}⟩")
        shown.append(character)
    return "".join(shown)


def warn_caller(message: str) -> None:
    """Warn at the line that called tinylm, so that each cell of a notebook warns on its own."""
    level = 1
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "tinylm":
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=max(level, 2))


def first_line(error: Exception) -> str:
    """An error's type and the first line of its message."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"
