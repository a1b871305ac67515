"""Numbers and names as people read them: formatting only, no statistics."""

import math
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np

from tinylm.base.printable import visible
from tinylm.run.finished_run import Sentence
from tinylm.run.interval import Interval

ABSENT, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
_LONGEST = 14  # letters of a token as a label


def token_label(token: str) -> str:
    """A token as a label of at most 14 letters."""
    text = visible(token)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def as_number(value: Any) -> float | None:
    """A finite number as a float, None for everything else."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def number(value: Any, digits: int = 3) -> str:
    """A number with this many significant digits: 9.81, 310, 5,102, 2.1e-07."""
    value = as_number(value)
    if value is None:
        return ABSENT
    if value == 0:
        return "0"
    scientific = f"{value:.{digits - 1}e}"  # rounded, so that 9.996 has the magnitude of 10.0
    magnitude = int(scientific.partition("e")[2])
    if magnitude < -4:
        return _signed(scientific)
    return _signed(f"{value:,.{max(digits - 1 - magnitude, 0)}f}")


def isolated(text: str) -> str:
    """The text, with marks around right-to-left parts, so that what follows them stays in order."""
    if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text):
        return f"\u2068{text}\u2069"
    return text


def _signed(text: str) -> str:
    """A formatted number with a minus sign, without one if it was rounded to zero."""
    if not text.strip("-0.,% "):
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def count(value: Any) -> str:
    """A whole number with thousands separators."""
    value = as_number(value)
    return ABSENT if value is None else f"{round(value):,}"


def many(value: Any, thing: str) -> str:
    """A whole number of things: 1 layer, 4 layers."""
    return f"{count(value)} {thing}{'' if value == 1 else 's'}"


def loss(value: Any) -> str:
    """A loss or log-probability: three decimals."""
    value = as_number(value)
    return ABSENT if value is None else _signed(f"{value:,.3f}")


def share(value: Any, digits: int = 1) -> str:
    """A share of one as a percentage with this many decimals."""
    value = as_number(value)
    return ABSENT if value is None else _signed(f"{100 * value:.{digits}f} %")


def milliseconds(value: Any) -> str:
    """A short duration given in seconds: 3.2 ms."""
    value = as_number(value)
    return ABSENT if value is None else f"{number(1000 * value, 2 if value < 0.01 else 3)} ms"


def seconds(value: Any) -> str:
    """A duration: 0.52 s, 41 s, 3 min 20 s, 2 h 5 min."""
    value = as_number(value)
    if value is None:
        return ABSENT
    if value < 100:
        return f"{number(value, 2 if value < 10 else 3)} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def byte_count(value: Any) -> str:
    """Memory given in bytes."""
    value = as_number(value)
    return ABSENT if value is None else mebibytes(value / 2**20)


def mebibytes(value: Any) -> str:
    """Memory given in MiB."""
    value = as_number(value)
    if value is None:
        return ABSENT
    return f"{value / 1024:.2f} GiB" if value >= 4096 else f"{number(value)} MiB"


def big(value: Any) -> str:
    """A large number in words: 3.10 million."""
    value = as_number(value)
    if value is None:
        return ABSENT
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        as_shown = float(f"{value:.2e}")  # 999,999,999 is 1.00 billion
        if value >= 1e6 and as_shown >= size:
            return f"{number(value / size)} {name}"
    return count(value)


def interval(value: Any) -> tuple[float, float] | None:
    """(low, high) of [low, high] or of an Interval; None if either is missing."""
    if isinstance(value, Interval):
        value = [value.low, value.high]
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    low = as_number(value[0])
    high = as_number(value[1])
    return None if low is None or high is None else (low, high)


def ends(value: Any) -> str:
    """An interval as `9.60 to 10.0`, nothing without one."""
    span = interval(value)
    return f"{number(span[0])} to {number(span[1])}" if span else ""


def with_interval(value: Any, form: str = "number") -> str:
    """An Interval as `9.81 (9.60 to 10.0)`; a plain number as itself. form: of FORMATS."""
    written = FORMATS[form]
    if not isinstance(value, Interval):
        return written(value)
    span = interval(value)
    if span is None:
        return written(value.value)
    return f"{written(value.value)} ({written(span[0])} to {written(span[1])})"


def prediction(sentence: Sentence) -> str:
    """The most likely next token of a sentence, as next: “there” (93.1 %)."""
    return f"next: “{token_label(sentence.next)}” ({share(sentence.probability)})"


FORMATS: dict[str, Callable[..., str]] = {  # filters of the templates
    "number": number,
    "count": count,
    "many": many,
    "loss": loss,
    "share": share,
    "milliseconds": milliseconds,
    "seconds": seconds,
    "bytes": byte_count,
    "mebibytes": mebibytes,
    "big": big,
    "ends": ends,
    "with_interval": with_interval,
    "prediction": prediction,
}
