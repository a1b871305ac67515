"""The model against the truth: a story word by word, and the divergence over training."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from tinylm.report.drawing import COLOURS, Picture, finite

_SIDES = (("true", "generator", -0.2, "ink"), ("model", "model", 0.2, "series-6"))
STORY_WORDS = 18  # of the story
_LINE = 0.14  # height of a word, in inches
_HATCHES = ("", "//", "\\\\", "--", "||", "++", "xx", "")  # tell areas apart in print


def draw_story(words: pd.DataFrame) -> Picture | None:
    """Draw two bars for each of a story's first words: how it surprised the generator and the model."""
    shown = finite(words.head(STORY_WORDS), ["true", "model"])
    if shown.empty:
        return None
    places = np.arange(len(shown))
    drawing = Figure(figsize=(3.6, 0.7 + _LINE * len(shown)))
    axes = drawing.add_subplot()
    for column, label, shift, colour in _SIDES:  # shift: of the bar from the middle of the line
        axes.barh(places + shift, shown[column], 0.38, label=label, color=COLOURS[colour])
    axes.set(title="A story, word by word", xlabel="surprise, nats", ylim=(len(shown) - 0.5, -0.5))
    axes.set_yticks(places, shown["word"])
    axes.grid(visible=False, axis="y")
    drawing.legend(loc="outside lower center", ncols=2)
    surprises = [f"{row.word} {row.true:.1f} and {row.model:.1f}" for row in shown.itertuples()]
    alt = f"Surprise in nats of the generator and of the model: {', '.join(surprises)}."
    return Picture(drawing, alt)


def draw_training(frame: pd.DataFrame) -> Picture | None:
    """Stack the divergence by kind of word in nats per word, against the tokens seen on a log scale.

    None with fewer than two numbers of tokens, between which areas could be drawn.
    """
    if frame.empty:
        return None
    # A logarithmic axis has no 0, where the saved weights are if no update was better than the first ones.
    frame = frame[frame["tokens"] > 0]
    by_kind = frame.pivot(index="tokens", columns="series", values="value")
    by_kind = finite(by_kind[frame["series"].unique()], by_kind.columns)
    if len(by_kind) < 2:
        return None
    drawing = Figure()
    axes = drawing.add_subplot()
    areas = axes.stackplot(by_kind.index, by_kind.T, labels=by_kind.columns, edgecolor="white")
    for area, hatch in zip(areas, _HATCHES, strict=False):
        area.set_hatch(hatch)
    axes.set(title="Divergence from the generator", xscale="log", xlabel="tokens seen")
    axes.set_ylabel("nats per word")
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.margins(x=0)
    drawing.legend(loc="outside lower center", ncols=4)
    first, *_, last = by_kind.sum(axis=1)
    return Picture(drawing, f"Divergence in nats per word, from {first:.3f} to {last:.3f}.")


def draw_decoding(grades: pd.DataFrame) -> Picture | None:
    """Draw two bars for each decoding setting: impossible words that it allows, true words that it cuts.

    grades: columns setting, let_in and cut, the last two as probabilities per word.
    """
    shown = finite(grades, ["let_in", "cut"])
    if shown.empty:
        return None
    places = np.arange(len(shown))
    drawing = Figure(figsize=(3.6, 0.9 + 2 * _LINE * len(shown)))
    axes = drawing.add_subplot()
    sides = (
        ("let_in", "impossible words", -0.2, "series-6"),
        ("cut", "true words cut away", 0.2, "ink"),
    )
    for column, label, shift, colour in sides:
        axes.barh(places + shift, 100 * shown[column], 0.38, label=label, color=COLOURS[colour])
    axes.set(title="Decoding against the truth", xlabel="probability per word, %")
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_yticks(places, shown["setting"])
    axes.grid(visible=False, axis="y")
    drawing.legend(loc="outside lower center", ncols=2)
    rows = [f"{row.setting} {row.let_in:.1%} and {row.cut:.1%}" for row in shown.itertuples()]
    alt = f"Impossible words and true words cut away: {', '.join(rows)}."
    return Picture(drawing, alt)
