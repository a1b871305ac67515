"""Charts: what a reader needs in order to read them is there, whatever the values are."""

import pytest

from tinylm.report.charts import draw_curves


@pytest.mark.parametrize("worst", [9.0, 3000.0, 3e5, 3.6e23])
def test_a_logarithmic_axis_has_numbers_however_bad_the_first_value_is(worst):
    axes = draw_curves(
        {"held-out": ([0, 1, 2], [worst, 20.0, 5.0])}, "p", "tokens", "perplexity", log_y=True
    ).axes[0]
    axes.figure.canvas.draw()
    low, high = axes.get_ylim()
    shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert 2 <= len(shown) <= 14
    assert all(
        label.get_text()
        for label, tick in zip(axes.get_yticklabels(), axes.get_yticks())
        if tick in shown
    )
