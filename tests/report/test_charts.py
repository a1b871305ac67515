"""Charts: what a reader needs in order to read them is there, whatever the values are."""

import warnings

import matplotlib
import pandas as pd
import pytest

from tinylm.report import drawing
from tinylm.report.charts import draw_lines


@pytest.mark.parametrize("worst", [9.0, 3000.0, 3e5, 3.6e23])
def test_a_logarithmic_axis_has_numbers_however_bad_the_first_value_is(worst):
    frame = pd.DataFrame({"x": [0, 1, 2], "series": "held-out", "value": [worst, 20.0, 5.0]})
    axes = draw_lines(frame, "p", "tokens", "perplexity", log_y=True).drawing.axes[0]
    low, high = axes.get_ylim()
    shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert 2 <= len(shown) <= 14
    for label, tick in zip(axes.get_yticklabels(), axes.get_yticks()):
        assert label.get_text() or tick not in shown


def test_other_fonts_are_used_if_installed_and_characters_of_none_are_one_warning(monkeypatch):
    monkeypatch.setattr(drawing, "_not_drawn", set())
    monkeypatch.setattr(drawing, "FALLBACK_FONTS", ("No Such Font", "STIXGeneral"))

    def draw(title):
        with drawing.in_style():
            drawing.settle(drawing.new_axes(title, "x", "y")[0])
            assert matplotlib.rcParams["font.family"] == ["DejaVu Sans", "STIXGeneral"]

    with pytest.warns(UserWarning, match="\U000f0001"):
        draw("\U000f0000\U000f0001")
    with warnings.catch_warnings(action="error"):
        draw("\U000f0002")
