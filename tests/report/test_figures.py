"""Published and recorded figures by name: means over seeds, and what is not recorded."""

import pytest

from tinylm.report.figures import (
    GAP,
    Figures,
    Missing,
    at,
    best,
    count,
    highest,
    is_recorded,
    listing,
    lowest,
    per_seed,
    pick,
    ratio,
    spread,
    typeset,
    values,
)

ROWS = [{"cache": True, "n": 32, "speed": 30.0}, {"cache": False, "n": 32, "speed": 10.0}]
RUN = Figures(
    {
        "loss": 2.0, "rows": ROWS, "curve": [[0, 0, 9.0], [50, 640, 4.0]], "flag": True, "name": "cpu",
        "by-step": {"8": 1}
    },
    {"loss": 3.0, "rows": ROWS[:1], "curve": [[0, 0, 8.0]], "flag": True, "name": "gpu"},
)  # fmt: skip
ONE = Figures(
    {"updates": 1200, "beams": [{"k": 5, "bleu": 0.25}, {"k": 10, "bleu": 0.5}], "widths": [16, 32]}
)
STUDY = Figures(
    {"0.1": Figures({"loss": 4.0}, {"loss": 5.0}), "0.2": Figures({"loss": 3.0}), "data": {}}
)


def test_figures_are_read_by_name_and_count_as_their_mean():
    assert ONE.updates == 1200
    assert f"{ONE.updates:,}" == "1,200"
    assert ONE.beams[-1].k == 10
    assert [beam.bleu for beam in ONE.beams] == [0.25, 0.5]
    assert RUN.loss * 2 == 5.0
    assert values(RUN.loss) == (2.0, 3.0)
    assert spread(RUN.loss) == pytest.approx(0.5**0.5)
    assert RUN.by_step[8] == RUN["by-step"]["8"] == 1  # the seed that lacks it is left out
    assert (RUN.flag, RUN.name) == ("yes", "cpu, gpu")
    assert f"{ONE.widths}" == "16, 32"
    assert f"{ONE.beams[1].bleu:.2f}" == "0.50"


def test_rows_curves_and_tables_are_searched_seed_by_seed():
    assert pick(RUN.rows, cache=True).speed == 30.0
    assert values(pick(RUN.rows, cache=False, n=32).speed) == (10.0,)
    assert (at(RUN.curve, 0), at(RUN.curve, 50)) == (8.5, 4.0)
    assert count(RUN.rows) == 2
    assert per_seed(RUN.rows, len) == 1.5
    assert (lowest(STUDY, "loss"), highest(STUDY, "loss"), best(STUDY, "loss")) == (3.0, 4.5, "0.2")
    assert lowest(ONE.beams, "bleu") == 0.25
    assert listing(STUDY, "loss") == "0.1: 4.500 ± 0.707, 0.2: 3.000"


@pytest.mark.parametrize(
    "figure",
    [
        RUN.other, RUN.other.deeper[3], RUN.rows[9].speed, at(RUN.curve, 7), pick(RUN.rows, n=64).speed,
        spread(ONE.updates), lowest(STUDY, "other"), highest(RUN.other, "loss"), count(RUN.other), ratio(1, 0),
        ratio(RUN.other, 2), 1 - abs(RUN.other / 2 + 1) * 3, Figures().loss
    ],
)  # fmt: skip
def test_what_is_not_recorded_leaves_a_gap_and_decides_nothing(figure):
    assert not is_recorded(figure)
    assert f"{figure:.2f}" == GAP
    assert values(figure) == ()
    for decide in (
        lambda: bool(figure < 1),
        lambda: bool(figure == 1),
        lambda: max(figure, 1),
        lambda: not figure,
    ):
        with pytest.raises(Missing):
            decide()


def test_text_of_no_table_is_a_gap():
    assert best(RUN.other, "loss") == listing(RUN.other, "loss") == GAP
    assert list(RUN.other) == []


def test_a_branch_is_no_figure():
    for wrong in (lambda: RUN.rows + 1, lambda: f"{ONE:.2f}", lambda: ONE == 1):
        with pytest.raises(TypeError, match="is no figure"):
            wrong()


def test_numbers_are_typeset():
    assert (
        typeset("-3% or (-0.5), 1e-05, epoch-1, 2025-01-02")
        == "−3% or (−0.5), 1e-5, epoch-1, 2025-01-02"
    )
