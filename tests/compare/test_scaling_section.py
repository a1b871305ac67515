import pytest

from tinylm.compare.scaling import Fit, fit
from tinylm.compare.scaling_section import (
    draw_law,
    scaling_blocks,
    scaling_gallery,
    scaling_pngs,
    scaling_svgs,
)
from tinylm.report.blocks import Paragraph, Table


@pytest.fixture(scope="module")
def found() -> Fit:
    """Three sizes, each with two budgets."""
    return fit(
        [
            {
                "name": f"{n:g} {t:g}",
                "parameters": n,
                "tokens": t,
                "compute": 6 * n * t,
                "loss": 1 + n**-0.1 + t**-0.2,
            }
            for n in (1e5, 4e5, 1.6e6)
            for t in (1e6, 9e6)
        ],
        "bits per byte",
    )


def test_the_table_has_a_row_for_each_axis_with_a_fit_and_says_why_another_has_none(found):
    blocks = scaling_blocks(found)
    (table,) = (block for block in blocks if isinstance(block, Table))
    assert [row[:4] for row in table.rows] == [
        ("parameters", "3 of 6", "100,000", "1.60 million"),
        (
            "training FLOP",
            f"{len(found.laws['compute'].names)} of 6",
            "600 billion",
            "86.4 trillion",
        ),
    ]
    assert isinstance(blocks[-1], Paragraph)
    assert blocks[-1].text == "No fit against training tokens: 2 different sizes; a fit needs 3."


def test_every_fit_has_a_picture_in_words_too(found):
    svgs, pngs = scaling_svgs(found), scaling_pngs(found)
    assert list(svgs) == list(pngs) == ["scaling-parameters", "scaling-compute"]
    assert [figure.name for figure in scaling_gallery(found)[0].blocks] == list(svgs)
    assert 'aria-label="Loss against parameters: from ' in svgs["scaling-parameters"]
    assert all(png.startswith(b"\x89PNG") for png in pngs.values())


def test_runs_that_the_curve_leaves_out_are_drawn_hollow(found):
    axes = draw_law(found, "parameters").axes[0]
    _, hollow, filled = axes.lines
    assert (len(hollow.get_xdata()), len(filled.get_xdata())) == (3, 3)
    assert hollow.get_fillstyle() == "none"
    assert axes.get_ylabel() == "bits per byte"
    low, high = axes.get_ylim()
    assert low < min(filled.get_ydata())
    assert high > max(hollow.get_ydata())


def test_nothing_to_fit_is_one_line_an_axis():
    blocks = scaling_blocks(fit([{"name": "a", "parameters": 5, "loss": 1.0}]))
    assert all(isinstance(block, Paragraph) for block in blocks)
    assert len(blocks) == 3
    assert scaling_gallery(fit([])) == []
    assert scaling_svgs(fit([])) == {}
