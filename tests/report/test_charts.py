"""Charts: what a reader needs in order to read them is there, whatever the values are."""

import pandas as pd
import pytest

from tinylm.report.charts import draw_lines
from tinylm.report.truth_charts import draw_story, draw_training


@pytest.mark.parametrize("worst", [9.0, 3000.0, 3e5, 3.6e23])
def test_a_logarithmic_axis_has_numbers_however_bad_the_first_value_is(worst):
    frame = pd.DataFrame({"x": [0, 1, 2], "series": "held-out", "value": [worst, 20.0, 5.0]})
    axes = draw_lines(frame, "p", "tokens", "perplexity", log_y=True).drawing.axes[0]
    low, high = axes.get_ylim()
    shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert 2 <= len(shown) <= 14
    for label, tick in zip(axes.get_yticklabels(), axes.get_yticks()):
        assert label.get_text() or tick not in shown


def test_a_story_has_two_bars_for_each_word():
    row = {"word": "boy", "true": 0.5, "model": 0.75}
    picture = draw_story(pd.DataFrame([row, row | {"word": "an", "model": 2.0}]))
    (axes,) = picture.drawing.axes
    generator, model = ([bar.get_width() for bar in bars] for bars in axes.containers)
    assert (generator, model) == ([0.5, 0.5], [0.75, 2.0])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["boy", "an"]


def test_the_distance_over_training_is_stacked_by_kind():
    rows = [(tokens, kind, 1 / tokens) for tokens in (10, 1000) for kind in ("person", "end")]
    picture = draw_training(pd.DataFrame(rows, columns=["tokens", "series", "value"]))
    (axes,) = picture.drawing.axes
    assert axes.get_xscale() == "log"
    assert [area.get_label() for area in axes.collections] == ["person", "end"]
    top = axes.collections[-1].get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(0.2)
