"""Pictures that pages show: of the recorded run, and readable on light and dark pages."""

import io
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
import yaml
from PIL import Image

from tests.pictures import head_off
from tests.pictures.charts import CHARTS, on_its_own
from tests.pictures.head_off import OTHERS, Scene
from tests.pictures.noted import (
    PICTURES,
    finished_run,
    models_md5,
    noted_in,
    recorded_md5,
    with_note,
)
from tests.support.size import ROOT
from tinylm.base.config import InputError
from tinylm.report.drawing import COLOURS, Picture, in_style, to_png, to_svg
from tinylm.report.truth_charts import draw_decoding

DRAWN = sorted(path.name for path in PICTURES.iterdir())
OF_NO_RUN = {
    "beliefs.svg"
}  # of a study's models: tests/studies/test_beliefs.py compares it with the study's tables
SCENE = Scene(["once", "mia"], 0, 1, {"mia": 0.75, OTHERS: 0.25}, {"mia": 0.0, OTHERS: 1.0})


def chart() -> Picture:
    rows = [("section decode", 0.05, 0.04), ("greedy", 0.03, 0.2)]
    with in_style():
        picture = draw_decoding(pd.DataFrame(rows, columns=["setting", "let_in", "cut"]))
    assert isinstance(picture, Picture)
    return picture


def lock_is_changed() -> bool:
    """Whether dvc.lock differs from the last commit, as after `make repro` on another processor."""
    command = ["git", "diff", "--quiet", "HEAD", "--", "dvc.lock"]
    return subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL).returncode == 1


@pytest.mark.skipif(lock_is_changed(), reason="dvc.lock is of a run of your own")
@pytest.mark.parametrize("name", [name for name in DRAWN if name not in OF_NO_RUN])
def test_a_picture_is_of_the_recorded_run(name):
    """Of other models than dvc.lock records: draw it again by `make pictures`."""
    assert noted_in(PICTURES / name) == recorded_md5()


def test_models_have_the_md5_that_dvc_gives_them(tmp_path):
    models = tmp_path / "models"
    (models / "checkpoints").mkdir(parents=True)
    for name in ("model.safetensors", "config.json", "checkpoints/0.5.safetensors"):
        (models / name).write_text(name)
    for command in (["init", "--no-scm", "-q"], ["add", "-q", "models"]):
        subprocess.run([sys.executable, "-m", "dvc", *command], cwd=tmp_path, check=True)
    assert f"md5: {models_md5(models)}\n" in (tmp_path / "models.dvc").read_text()


def test_pictures_are_not_drawn_from_a_report_of_other_models(tmp_path):
    """As after `dvc repro train`: the models are new, the report's charts and page are not."""
    (tmp_path / "models").mkdir()
    weights = tmp_path / "models/model.safetensors"
    weights.write_text("old")
    old = models_md5(tmp_path / "models")
    lock = {"stages": {"report": {"deps": [{"path": "models", "md5": old}]}}}
    (tmp_path / "dvc.lock").write_text(yaml.safe_dump(lock))
    assert finished_run(tmp_path) == old
    weights.write_text("new")
    with pytest.raises(InputError, match=f"got one of {old}: run make repro"):
        finished_run(tmp_path)


@pytest.mark.parametrize("name", [name for name in DRAWN if name.endswith(".svg")])
def test_a_picture_has_both_styles_and_its_own_background(name):
    text = (PICTURES / name).read_text(encoding="utf-8")
    ET.fromstring(text)
    style, _, drawing = text.partition("</style>")
    assert "prefers-color-scheme: dark" in style
    assert drawing.lstrip().startswith('<rect class="frame"')
    assert not re.findall("#[0-9a-f]{6}", drawing)
    assert set(re.findall(r"href=.#([\w-]+)", drawing)) <= set(re.findall(r"id=.([\w-]+)", drawing))


@pytest.mark.parametrize("name", CHARTS.values())
def test_a_chart_has_the_colours_of_the_page(name):
    assert "var(--ink)" in (PICTURES / f"{name}.svg").read_text(encoding="utf-8")


def test_a_chart_is_as_the_report_draws_it(tmp_path):
    text = on_its_own(to_svg(chart()), "decoding", "abc.dir")
    ET.fromstring(text)
    assert ">min-p 0.1 (default)<" in text
    assert ">greedy<" in text
    assert not set(COLOURS.values()) & set(
        re.findall("#[0-9a-f]{6}", text.partition("</style>")[2])
    )
    file = tmp_path / "decoding.svg"
    file.write_text(text, encoding="utf-8")
    assert noted_in(file) == "abc.dir"


def test_a_png_keeps_its_note_and_its_pixels(tmp_path):
    file = tmp_path / "lab.png"
    png = to_png(chart().drawing)
    file.write_bytes(with_note(png, "abc.dir"))
    assert noted_in(file) == "abc.dir"
    with Image.open(file) as noted, Image.open(io.BytesIO(png)) as drawn:
        assert noted.tobytes() == drawn.convert("RGB").tobytes()


def test_every_frame_of_the_animation_shows_all_text_and_both_states():
    text = head_off.draw(SCENE, "abc.dir").decode()
    shown = [element.text for element in ET.fromstring(text).iter() if element.tag.endswith("text")]
    assert {"once", "mia", OTHERS, "75 %", "25 %", "0 %", "100 %"} <= set(shown)
    assert set(map(float, re.findall(r"opacity: ([\d.]+)", text))) == {head_off.DIM, 1}


def test_readme_says_what_the_animation_shows():
    picture = ET.fromstring((PICTURES / "head-off.svg").read_bytes())
    [title] = [element.text for element in picture if element.tag.endswith("title")]
    assert f"![{title}](docs/pictures/head-off.svg)" in (ROOT / "README.md").read_text("utf-8")
