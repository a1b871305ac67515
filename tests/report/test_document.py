"""report.md of a finished run: everything that was measured is in it, and what is missing is named."""

import dataclasses
import re

import pytest

from tinylm.report.document import write_document
from tinylm.report.html_page import to_html
from tinylm.report.pictures import PICTURES, draw_pictures
from tinylm.report.sources import FILES, read_run
from tinylm.report.wording import loss, number


def test_the_numbers_are_those_of_the_files(run, settings):
    markdown = write_document(run, settings, {})
    evaluate, train = run.tree("evaluate"), run.tree("train")
    for text in (
        f"text is {number(evaluate.perplexity)}",
        f"| unigram | {number(evaluate.baselines.unigram.perplexity)} |",
        f"| bits per byte, normalised text | {loss(evaluate.bits_per_byte)} |",
        f"lowest held-out loss was {loss(train.held_out_loss_best)}",
        f"| trained parameters | {train.parameters_trainable:,} |",
    ):
        assert text in markdown
    for row in run.rows("samples")[: settings.samples]:
        assert row["reference"][:40] in markdown


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_one_line_with_its_repair(name, run, settings):
    path, stage = FILES[name]
    problem = f"{path} is missing; dvc repro {stage} makes it"
    files = {key: value for key, value in run.files.items() if key != name}
    without = dataclasses.replace(run, files=files, problems={name: problem})
    assert f"**Not shown:** {problem}" in write_document(without, settings, {}).replace("\\", "")


def test_a_folder_without_results_has_a_report_still(run, settings, tmp_path):
    empty = read_run(tmp_path, run.params)
    assert len(empty.problems) >= len(FILES) - 2
    markdown = write_document(empty, settings, draw_pictures(empty))
    assert to_html(markdown).count('class="missing"') >= len(empty.problems)


def test_a_damaged_file_is_named_and_an_empty_text_is_a_text(run, tmp_path):
    (tmp_path / "data/figures").mkdir(parents=True)
    (tmp_path / "data/figures/train.json").write_text("{")
    (tmp_path / "data/evaluate").mkdir()
    (tmp_path / "data/evaluate/samples.csv").write_text("prompt,continuation,bleu\n007,,\n")
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots/loss.csv").write_text("<<<<<<< HEAD\nstep,tokens,series,value\n")
    read = read_run(tmp_path, run.params)
    assert "plots/loss.csv: damaged" in read.problems["loss"]
    assert read.rows("samples") == [{"prompt": "007", "continuation": "", "bleu": None}]
    assert FILES["train"][0] in read.problems["train"]
    assert "dvc repro" in read.problems["train"]


def test_every_picture_is_on_the_page_with_an_alt_text(finished_run):
    page = (finished_run / "report/index.html").read_text(encoding="utf-8")
    drawn = {path.stem for path in (finished_run / "plots/pictures").glob("*.png")}
    svgs = re.findall(r"<svg[^>]*>", page)
    assert len(svgs) == len(drawn)
    assert all(re.search(r'role="img" aria-label="[^"]{10,}"', svg) for svg in svgs)
    assert drawn >= set(PICTURES) - {"sense_training"}


def test_the_page_is_whole_follows_dark_mode_and_loads_nothing(finished_run):
    page = (finished_run / "report/index.html").read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)=\"(?!#|data:|lab\.html)", page)
    assert not re.search(r"url\((?!#)|@import|<script|<link rel=\"stylesheet", page)
    assert "prefers-color-scheme: dark" in page
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        colours = set(re.findall(r"#[0-9a-f]{6}\b", svg))
        assert colours <= {"#000000", "#ffffff"}
    anchors = re.findall(r'href="#([\w-]+)">', page.split("<main>")[0])
    assert anchors
    assert all(f'<section id="{anchor}"' in page for anchor in anchors)
