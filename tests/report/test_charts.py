"""Charts, and the templates of .dvc/plots: what a reader needs is there, whatever the values are."""

import itertools
import math
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.runs import part
from tests.support.stages import ROOT
from tinylm.base.config import load_params
from tinylm.report.charts import Labels, draw_lines, draw_points
from tinylm.report.drawing import to_svg
from tinylm.report.heatmaps import draw_sentence
from tinylm.report.offline_page import offline_page
from tinylm.report.pictures import PICTURES, draw_pictures
from tinylm.report.truth_charts import draw_training
from tinylm.run.benches import Beams, BeamTimes, CacheSpeed, CacheTimes, MethodQuality, MethodSpeed
from tinylm.run.finished_run import FinishedRun, Tables, Times, read_run
from tinylm.storybook.world import storybook
from tinylm.train.validation import capped_perplexity


@pytest.mark.parametrize("worst", [9.0, 3000.0, 3e5, 3.6e23, capped_perplexity(math.inf)])
def test_a_logarithmic_axis_has_numbers_however_bad_the_first_value_is(worst):
    frame = pd.DataFrame({"x": [0, 1, 2], "series": "held-out", "value": [worst, 20.0, 5.0]})
    axes = draw_lines(frame, Labels("p", "tokens", "perplexity"), log_y=True).drawing.axes[0]
    low, high = axes.get_ylim()
    shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert 2 <= len(shown) <= 14
    for label, tick in zip(axes.get_yticklabels(), axes.get_yticks()):
        assert label.get_text() or tick not in shown


ROWS_OF = {  # a table for each picture but those of the benches
    "truth_story": [{"word": "boy", "true": 0.5, "model": 0.75}],
    "truth_training": [{"tokens": n, "series": "end", "value": 0.5} for n in (10, 1000)],
    **{
        name: [{"tokens": n, "update": n, "series": "train", "value": 2.5} for n in (10, 20)]
        for name in ("loss", "perplexity", "accum_tokens", "accum_updates")
    },
}


@pytest.mark.parametrize("value", [math.nan, math.inf, None, 3e260])
def test_a_run_that_diverged_has_the_pictures_that_can_be_drawn(value):
    speed = part(MethodSpeed, tokens_per_s=9.0, low_tokens_per_s=8.0, high_tokens_per_s=9.5)
    setting = part(CacheSpeed, cache=True, new_tokens=8, tokens_per_s=value, peak_mib=value)
    tables = {name: pd.DataFrame(rows) for name, rows in ROWS_OF.items()}
    for table in tables.values():
        column = "model" if "model" in table else "value"
        table.loc[0, column] = value
    run = FinishedRun(
        params={},
        beam_bench=Beams(1, 1, {"greedy": part(MethodQuality, bleu4=value)}),
        times=Times(
            beam_bench=part(BeamTimes, methods={"greedy": speed}),
            kv_bench=part(CacheTimes, settings=[setting]),
        ),
        tables=Tables(**tables),
    )
    for draw in PICTURES.values():
        if picture := draw(run):
            to_svg(picture)


@settings(max_examples=20, deadline=None)
@given(
    speeds=st.lists(st.integers(200, 2000), min_size=4, max_size=4),
    scores=st.lists(st.integers(0, 50), min_size=4, max_size=4),
)
@example(speeds=[900, 900, 950, 2000], scores=[0, 0, 0, 0])
def test_no_name_of_a_point_covers_another_and_the_axis_shows_shares(speeds, scores):
    """Also where methods are alike, and where every score is zero."""
    rows = [
        {"series": name, "x": speed, "low": speed - 9, "high": speed + 9, "value": score / 100}
        for name, speed, score in zip(("sampling", "greedy", "beam 5", "beam 10"), speeds, scores)
    ]
    drawing = draw_points(pd.DataFrame(rows), Labels("", "", "")).drawing
    drawing.draw_without_rendering()
    (axes,) = drawing.axes
    names = [*axes.texts, *(text for legend in drawing.legends for text in legend.texts)]
    assert sorted(name.get_text() for name in names) == sorted(row["series"] for row in rows)
    for one, other in itertools.combinations([name.get_window_extent() for name in names], 2):
        assert not one.overlaps(other)
    low, high = axes.get_ylim()
    assert -0.1 * high < low < 0 <= max(scores) / 100 < high <= 1
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert min(ticks) == 0
    assert axes.yaxis.get_offset_text().get_text() == ""


def test_one_checkpoint_is_no_curve():
    one = pd.DataFrame({"tokens": [10, 10], "series": ["person", "end"], "value": 0.5})
    assert draw_training(one) is None
    from_the_start = pd.DataFrame({"tokens": [0, 10], "series": "end", "value": 0.5})
    assert draw_training(from_the_start) is None  # the axis is logarithmic


def test_a_picture_that_fails_costs_a_line_not_the_report(
    finished_run, tmp_path, monkeypatch, capsys
):
    def fails(run):
        raise ValueError("Axis limits cannot be NaN or Inf")

    monkeypatch.setitem(PICTURES, "perplexity", fails)
    monkeypatch.chdir(tmp_path)
    params = load_params(finished_run / "params.yaml")
    drawn = draw_pictures(read_run(finished_run, params))
    assert "perplexity" not in drawn
    assert "loss_tokens" in drawn
    assert "picture perplexity was left out" in capsys.readouterr().out


def test_a_notebooks_backend_that_is_missing_here_is_no_obstacle():
    environment = os.environ | {"MPLBACKEND": "module://no_such_package.backend_inline"}
    command = [sys.executable, "-c", "import tinylm.report.charts"]
    assert subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode == 0


FOLDER = ROOT / ".dvc/plots"
ROWS = [
    {"tokens": n, "value": 2.5 / n, "series": series, "rev": rev}
    for n in (1_000, 16_000)
    for series in ("train", "held-out")
    for rev in ("HEAD", "workspace")
]


@pytest.mark.parametrize("name", ["series", "series_log", "methods"])
def test_dvc_fills_a_template_and_vega_draws_every_series_of_every_revision(name):
    import vl_convert
    from dvc_render.vega import VegaRenderer

    labels = {"title": "Loss", "x_label": "tokens seen"}
    renderer = VegaRenderer(
        ROWS, "loss", template=name, template_dir=str(FOLDER), x="tokens", y="value", **labels
    )
    svg = vl_convert.vegalite_to_svg(renderer.get_filled_template(), vl_version="5.20")
    assert "<DVC_METRIC" not in svg
    for series in ("train", "held-out"):
        for revision in ("HEAD", "workspace"):
            assert f"revision: {revision}; series: {series}" in svg
    axis = re.search(r'aria-label="X-axis.*?>tokens seen<', svg, re.DOTALL)[0]
    numbers = re.findall(
        r'"middle" transform="translate\(([\d.]+),\d+\)"[^>]*opacity="1"[^>]*>([\d,]+)<', axis
    )
    for (left, _), (right, shown) in itertools.pairwise(numbers):
        assert float(right) - float(left) > 6 * len(shown), "labels touch"


@pytest.mark.parametrize("name", ["series", "series_log"])
@pytest.mark.parametrize("revisions", [("HEAD",), ("HEAD", "workspace")])
def test_no_two_lines_of_a_plot_look_the_same(name, revisions):
    """The truth over training has a line for each of the storybook's kinds of words."""
    import vl_convert
    from dvc_render.vega import VegaRenderer

    rows = [
        {"tokens": n, "value": n + number, "series": kind, "rev": revision}
        for n in (1, 2)
        for number, kind in enumerate(storybook().meaning)
        for revision in revisions
    ]
    renderer = VegaRenderer(
        rows, "truth", template=name, template_dir=str(FOLDER), x="tokens", y="value"
    )
    svg = vl_convert.vegalite_to_svg(renderer.get_filled_template(), vl_version="5.20")
    lines = re.findall(
        r'<path aria-label="[^"]*" role="graphics-symbol" aria-roledescription="line mark".*?>', svg
    )
    looks = [re.findall(r'stroke(?:-dasharray)?="[^"]*"', line) for line in lines]
    assert len(looks) == len(storybook().meaning) * len(revisions)
    assert len(set(map(tuple, looks))) == len(looks)


def test_offline_page_carries_vega_and_dvc_accepts_it():
    from dvc_render.html import HTML
    from dvc_render.vega import VegaRenderer

    page = HTML(offline_page())
    page.with_scripts(VegaRenderer.SCRIPTS).with_element("<div id='chart'></div>")
    text = page.embed()
    assert "<div id='chart'></div>" in text
    assert "<script src" not in text
    assert "window.vegaEmbed=" in text.replace(" ", "")
    assert "grid-template-columns" in text
    assert "white-space: normal !important" in text  # DVC forbids a picture's revisions to wrap
    assert "{plot_divs}" not in text
    assert "{refresh_tag}" not in text


def test_a_map_of_the_last_rows_labels_its_last_row_and_column():
    words = [f"word{index}" for index in range(24)]
    drawing = draw_sentence(words, np.full((1, 4, 12, 24), 1 / 24))
    axes = drawing.axes[0]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    columns = [label.get_text() for label in axes.get_xticklabels()]
    assert rows == words[12:]
    assert columns == words[1::2] * 4  # too narrow for every word
