"""The Vega-Lite templates of .dvc/plots and the offline page that carries Vega."""

from pathlib import Path

import pytest

from tinylm.report.offline_page import offline_page

FOLDER = Path(__file__).parents[2] / ".dvc/plots"
ROWS = [
    {"tokens": n, "value": 2.5 / n, "series": series, "rev": rev}
    for n in (1, 2)
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
