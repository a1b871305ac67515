"""Numbers and names as people read them, and text made safe for HTML: formatting only, no statistics."""

import dataclasses
import html
import math
from typing import Any

from tinylm.base.printable import visible
from tinylm.report.sources import Sentence, as_number

ABSENT, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
_LONGEST = 14  # letters of a token as a label


def escape(value: Any) -> str:
    """Text made safe for HTML and SVG, control and direction characters shown as ⟨U+XXXX⟩; done only here."""
    return html.escape(visible(value), quote=True)


def short(token: str) -> str:
    """A token as a label of at most 14 letters."""
    text = visible(token)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def figure(value: Any, digits: int = 3) -> str:
    """A number with this many significant digits and thousands separators: 9.81, 310, 5,102, 2.1e-07."""
    number = as_number(value)
    if number is None:
        return ABSENT
    if number == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(number)))
    if magnitude < -4:
        return f"{number:.{digits - 1}e}".replace("-", MINUS)
    return f"{number:,.{max(digits - 1 - magnitude, 0)}f}".replace("-", MINUS)


def exact(value: Any) -> str:
    """A number as it was set, without visible rounding: 3e-05, 0.0003, 0.98, 20."""
    number = as_number(value)
    return ABSENT if number is None else f"{number:g}".replace("-", MINUS)


def count(value: Any) -> str:
    """A whole number with thousands separators."""
    number = as_number(value)
    return ABSENT if number is None else f"{round(number):,}"


def many(value: Any, thing: str) -> str:
    """A whole number of things: 1 layer, 4 layers, 2 batches."""
    return f"{count(value)} {thing}{'' if as_number(value) == 1 else 'es' if thing.endswith('ch') else 's'}"


def loss(value: Any) -> str:
    """A loss or log-probability: three decimals."""
    number = as_number(value)
    return ABSENT if number is None else f"{number:,.3f}".replace("-", MINUS)


def share(value: Any, digits: int = 1) -> str:
    """A share of one as a percentage with this many decimals."""
    number = as_number(value)
    return ABSENT if number is None else f"{100 * number:.{digits}f} %".replace("-", MINUS)


def percent(value: Any) -> str:
    """A share of one as a bare number of percent, with small ones distinct from none: 93, <1."""
    number = as_number(value)
    return ABSENT if number is None else "<1" if 0 < number < 0.005 else f"{100 * number:.0f}"


def seconds(value: Any) -> str:
    """A duration: 0.52 s, 41 s, 3 min 20 s, 2 h 5 min."""
    number = as_number(value)
    if number is None:
        return ABSENT
    if number < 100:
        return f"{figure(number, 2 if number < 10 else 3)} s"
    minutes, rest = divmod(round(number), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def mebibytes(value: Any) -> str:
    """Memory given in MiB."""
    number = as_number(value)
    if number is None:
        return ABSENT
    return f"{number / 1024:.2f} GiB" if number >= 4096 else f"{figure(number)} MiB"


def big(value: Any) -> str:
    """A large number in words: 3.10 million."""
    number = as_number(value)
    if number is None:
        return ABSENT
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{figure(number / size)} {name}"
    return count(number)


def flag(value: Any) -> str:
    """yes, no, or absent."""
    return {"True": "yes", "False": "no"}.get(str(value), ABSENT)


def interval(value: Any) -> tuple[float, float] | None:
    """(low, high) of [low, high] or of {"low", "high"}; None if either is missing."""
    if isinstance(value, dict):
        value = [value.get("low"), value.get("high")]
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    low, high = as_number(value[0]), as_number(value[1])
    return None if low is None or high is None else (low, high)


def with_interval(value: Any, digits: int = 3) -> str:
    """{"value", "low", "high"} as `9.81 (9.60 to 10.0)`; a plain number as itself."""
    if not isinstance(value, dict):
        return figure(value, digits)
    ends = interval(value)
    text = figure(value.get("value"), digits)
    return f"{text} ({figure(ends[0], digits)} to {figure(ends[1], digits)})" if ends else text


def share_with_interval(value: Any) -> str:
    """{"value", "low", "high"} of shares of one as 12.3 % (11.0 to 14.0)."""
    if not isinstance(value, dict):
        return share(value)
    ends = interval(value)
    text = share(value.get("value"))
    if not ends:
        return text
    low, high = (share(end).removesuffix(" %") for end in ends)
    return f"{text} ({low} to {high})"


def prediction(sentence: Sentence) -> str:
    """What the model expects after a sentence: next: “there” (93.1 %); empty if that was not kept."""
    if sentence.probability is None:
        return ""
    return f"next: “{short(str(sentence.next))}” ({share(sentence.probability)})"


def name_of(key: str) -> str:
    """A key as a label: held_out_loss -> held-out loss."""
    return key.replace("held_out", "held-out").replace("_", " ")


def kind_of(key: str) -> Any:
    """The formatter for the unit in a key."""
    for ending, formatter in _BY_ENDING:
        if key.endswith(ending):
            return formatter
    return _plain


def _plain(value: Any) -> str:
    if isinstance(value, (bool, str)) or value is None:
        return (
            flag(value)
            if not isinstance(value, str) or value in ("True", "False")
            else visible(value)
        )
    if isinstance(value, dict):
        return with_interval(value)
    if isinstance(value, int):
        return count(value)
    return figure(value)


_BY_ENDING = (
    ("tokens_per_s", figure),
    ("_s", seconds),
    ("_s_per_token", seconds),
    ("s_per_prompt", figure),
    ("_mib", mebibytes),
    ("loss", loss),
    ("loss_at_equal_tokens", loss),
    ("loss_at_equal_updates", loss),
    ("loss_last_tenth", loss),
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """A sentence; `claim` is false if it says what remains open."""

    claim: bool
    text: str


def said(text: str) -> Finding:
    """The numbers say so."""
    return Finding(True, text)


def not_said(text: str) -> Finding:
    """The numbers do not say that."""
    return Finding(False, text)
