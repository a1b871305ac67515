"""Pictures of a run that pages show: as the report draws them, in the colours of both styles."""

import re
import runpy
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from tests.support.size import ROOT
from tinylm.report.drawing import COLOURS, Picture, in_style, to_svg
from tinylm.report.truth_charts import draw_decoding

FROM_RUN = runpy.run_path(str(ROOT / "docs/pictures/from_run.py"))


@pytest.mark.parametrize("name", FROM_RUN["PICTURES"].values())
def test_a_picture_has_both_styles_and_no_colour_of_its_own(name):
    text = (ROOT / f"docs/pictures/{name}.svg").read_text(encoding="utf-8")
    ET.fromstring(text)
    style, _, drawing = text.partition("</style>")
    assert "prefers-color-scheme: dark" in style
    assert "var(--ink)" in drawing
    assert not re.findall("#[0-9a-f]{6}", drawing)
    assert set(re.findall(r"href=.#([\w-]+)", drawing)) <= set(re.findall(r"id=.([\w-]+)", drawing))


def test_a_picture_is_as_the_report_draws_it():
    rows = [("section decode", 0.05, 0.04), ("greedy", 0.03, 0.2)]
    with in_style():
        picture = draw_decoding(pd.DataFrame(rows, columns=["setting", "let_in", "cut"]))
    assert isinstance(picture, Picture)
    text = FROM_RUN["on_its_own"](to_svg(picture), "decoding")
    assert ">min-p 0.1 (default)<" in text
    assert ">greedy<" in text
    assert not set(COLOURS.values()) & set(
        re.findall("#[0-9a-f]{6}", text.partition("</style>")[2])
    )
