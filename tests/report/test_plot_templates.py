"""The Vega-Lite templates of .dvc/plots and the offline page that carries Vega."""

import re
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


TEMPLATES = ["series", "series_log", "methods"]
BLUE, ORANGE = "#1c6cb0", "#c4560b"  # the first two colours of the templates


def drawn(name: str, rows: list[dict]) -> str:
    """The template as DVC fills it, as SVG."""
    import vl_convert
    from dvc_render.vega import VegaRenderer

    labels = {"title": "Loss", "x_label": "tokens seen"}
    renderer = VegaRenderer(
        rows, "loss", template=name, template_dir=str(FOLDER), x="tokens", y="value", **labels
    )
    svg = vl_convert.vegalite_to_svg(renderer.get_filled_template(), vl_version="5.20")
    assert "<DVC_METRIC" not in svg
    return svg


def colours(svg: str) -> dict[str, str]:
    """{what a mark shows: its colour}, read from the labels that Vega gives the marks."""
    shown_colours = {}
    for tag in re.findall(r'<path aria-label="[^"]*" [^>]*>', svg):
        shown = re.search(r"revision: ([^;\"]+); series: ([^;\"]+)", tag)
        colour = re.search(r'(?:fill|stroke)="(#\w{6})"', tag)
        if shown and colour:
            shown_colours[shown.groups()] = colour[1]
    return shown_colours


@pytest.mark.parametrize("name", TEMPLATES)
def test_colour_is_the_revision_where_two_are_compared_and_the_series_where_one_is_shown(name):
    compared = colours(drawn(name, ROWS))
    assert {revision: colour for (revision, _), colour in compared.items()} == {
        "HEAD": BLUE,
        "workspace": ORANGE,
    }
    assert len(compared) == 4
    alone = colours(drawn(name, [row for row in ROWS if row["rev"] == "workspace"]))
    assert {series: colour for (_, series), colour in alone.items()} == {
        "train": BLUE,
        "held-out": ORANGE,
    }


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
