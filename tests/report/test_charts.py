"""Charts: what a reader needs in order to read them is there, whatever the values are."""

import pandas as pd
import pytest

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
