"""The Vega-Lite templates of .dvc/plots and the offline page that carries Vega."""

import json
from pathlib import Path

import pytest

from tinylm.reporting.offline_page import offline_page

FOLDER = Path(__file__).parents[2] / ".dvc/plots"
ROWS = [
    {"tokens": n, "value": 2.5 / n, "series": series, "rev": rev}
    for n in (1, 2)
    for series in ("train", "held-out")
    for rev in ("HEAD", "workspace")
]


@pytest.mark.parametrize("name", ["series", "series_log"])
def test_template_has_the_anchors_and_tells_series_and_revisions_apart(name):
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    template = json.loads(text)
    for anchor in ("DATA", "X", "Y", "TITLE", "X_LABEL", "Y_LABEL"):
        assert f"<DVC_METRIC_{anchor}>" in text
    assert template["encoding"]["color"]["field"] == "series"
    assert template["encoding"]["strokeDash"]["field"] == "rev"
    assert template["encoding"]["y"]["scale"].get("type", "linear") == ("log" if name == "series_log" else "linear")


@pytest.mark.parametrize("name", ["series", "series_log"])
def test_filled_template_draws_all_series_and_revisions(name):
    import vl_convert
    from dvc_render.vega import VegaRenderer

    renderer = VegaRenderer(
        ROWS,
        "loss",
        template=name,
        template_dir=str(FOLDER),
        x="tokens",
        y="value",
        title="Loss",
        x_label="tokens seen",
    )
    svg = vl_convert.vegalite_to_svg(renderer.get_filled_template(), vl_version="5.20")
    assert "<DVC_METRIC" not in svg
    for text in ("Loss", "tokens seen", "train", "held-out", "HEAD", "workspace"):
        assert text in svg


def test_offline_page_carries_vega_and_dvc_accepts_it():
    from dvc_render.html import HTML
    from dvc_render.vega import VegaRenderer

    page = HTML(offline_page())
    page.with_scripts(VegaRenderer.SCRIPTS).with_element("<div id='chart'></div>")
    text = page.embed()
    assert "<div id='chart'></div>" in text
    assert "<script src" not in text
    assert "window.vegaEmbed=" in text.replace(" ", "")
    assert "{plot_divs}" not in text
    assert "{refresh_tag}" not in text
