"""report.md of a finished run: everything that was measured is in it, and what is missing is named."""

import dataclasses
import re
import subprocess
import sys

import numpy as np
import pytest

from tinylm.report.document import write_document
from tinylm.report.html_page import to_html
from tinylm.report.pictures import PICTURES, draw_pictures
from tinylm.report.sources import FILES, read_run
from tinylm.report.values import with_and_without
from tinylm.report.wording import byte_count, loss, number, with_trials


def plain(markdown):
    return re.sub(r"\\(?=\W)", "", markdown)


def test_the_numbers_are_those_of_the_files(run, settings):
    markdown = write_document(run, settings, {})
    assert "Not shown" not in markdown
    for text in (
        f"text is {number(run.value('evaluate.perplexity'))}",
        f"| unigram | {number(run.value('evaluate.baselines.unigram.perplexity'))} |",
        f"| tokens scored | {run.value('evaluate.tokens'):,} |",
        f"lowest held-out loss was {loss(run.value('train.held_out_loss_best'))}",
        f"| trained parameters | {run.value('train.parameters_trainable'):,} |",
        run.rows("samples")[0]["reference"][:40],
    ):
        assert text in markdown
    for text in ("Undefined", "{", "}"):
        assert text not in markdown


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_one_line_with_its_repair(name, run, settings):
    path, stage = FILES[name]
    problem = f"{path} is missing; dvc repro {stage} makes it"
    files = {key: value for key, value in run.files.items() if key != name}
    without = dataclasses.replace(run, files=files, problems={name: problem})
    markdown = plain(write_document(without, settings, {}))
    assert markdown.count("**Not shown:**") == 1
    assert problem in markdown


def test_a_folder_without_results_has_a_report_still(run, settings, tmp_path):
    empty = read_run(tmp_path, run.params)
    assert len(empty.problems) >= len(FILES) - 2
    markdown = write_document(empty, settings, draw_pictures(empty))
    assert to_html(markdown).count('class="missing"') == len(empty.problems)


def test_no_damaged_file_ends_the_report(finished_run, run, settings, tmp_path):
    """Each file as another program could have left it: not readable, or without what is expected."""
    for path, _ in FILES.values():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("<<<<<<< HEAD\n{")
    damaged = read_run(tmp_path, run.params)
    assert len(damaged.problems) + len(damaged.files) == len(FILES)
    assert all(FILES[name][0] in line for name, line in damaged.problems.items())
    write_document(damaged, settings, draw_pictures(damaged))
    for name, value in run.files.items():
        if isinstance(value, dict):
            wrong = dict.fromkeys(value, 7)
        else:
            wrong = [{"x": 1}] if hasattr(value, "columns") else []
        changed = dataclasses.replace(run, files=run.files | {name: wrong})
        assert len(re.findall(r"^## ", write_document(changed, settings, {}), re.MULTILINE)) > 8


def test_an_empty_text_is_a_text(run, tmp_path):
    (tmp_path / "data/evaluate").mkdir(parents=True)
    (tmp_path / "data/evaluate/samples.csv").write_text("prompt,continuation,bleu\n007,,\n")
    rows = read_run(tmp_path, run.params).rows("samples")
    assert rows == [{"prompt": "007", "continuation": "", "bleu": None}]


def test_samples_are_few_and_the_first_ones(run, settings):
    samples = run.rows("samples")
    many = [samples[0] | {"continuation": f"sample number {index}"} for index in range(20)]
    files = run.files | {"samples": many, "sense": []}
    markdown = write_document(dataclasses.replace(run, files=files), settings, {})
    report, appendix = markdown.split("# Appendix")
    shown = [len(re.findall(r"\| model \| sample number", part)) for part in (report, appendix)]
    assert shown == [2, 6]


def test_times_are_compared_the_right_way_round(run, settings):
    rows = [
        {"new_tokens": size, "cache": cache, "tokens_per_s": speed, "peak_mib": 1.0}
        for size, cache, speed in ((8, True, 9.0), (8, False, 9.0), (64, True, 400.0), (64, False, 100.0))
    ]  # fmt: skip
    steps = [
        {"recompute": recompute, "update_s": seconds, "peak_mib": mebibytes}
        for recompute, seconds, mebibytes in ((True, 1.5, 20.0), (False, 1.0, 90.0))
    ]
    files = run.files | {
        "kv_bench_time": {"settings": rows},
        "ckpt_bench_time": {"settings": steps},
    }
    changed = dataclasses.replace(run, files=files)
    markdown = " ".join(write_document(changed, settings, {}).split())
    assert "decoding 64 tokens is 4.0 times as fast: 400 tokens/s compared with 100" in markdown
    assert "needs at most 20.0 MiB, without it 90.0 MiB" in markdown
    assert "takes 1.5 times as long" in markdown
    assert with_and_without(rows, "new_tokens", "cache") == (rows[2], rows[3])
    drawn = draw_pictures(changed)
    for name, label, values in (
        ("kv_speed", "cache", [9.0, 400.0]),
        ("kv_speed", "no cache", [9.0, 100.0]),
    ):
        lines = {line.get_label(): line for line in drawn[name].drawing.axes[0].lines}
        assert lines[label].get_ydata().tolist() == values


def test_numbers_in_words():
    assert byte_count(5 * 2**30) == "5.00 GiB"
    assert byte_count(3 * 2**20) == "3.00 MiB"
    assert number(np.float32(9.996)) == "10.0"
    assert number(float("nan")) == number(None) == number("3") == "–"
    row = {"step_s": 2.0, "low_step_s": 1.5, "high_step_s": 3.0}
    assert with_trials(row, "step_s") == "2.00 (1.50 to 3.00)"
    assert with_trials({"step_s": 2.0, "low_step_s": 2.0, "high_step_s": 2.0}, "step_s") == "2.00"


def test_every_picture_is_on_the_page_with_an_alt_text(finished_run):
    page = (finished_run / "report/index.html").read_text(encoding="utf-8")
    drawn = {path.stem for path in (finished_run / "plots/pictures").glob("*.svg")}
    svgs = re.findall(r"<svg[^>]*>", page)
    assert len(svgs) == len(drawn)
    assert all(re.search(r'role="img" aria-label="[^"]{10,}"', svg) for svg in svgs)
    assert drawn >= {name for name in PICTURES if not name.startswith("truth")}  # no storybook


def test_the_page_is_whole_follows_dark_mode_and_loads_nothing(finished_run):
    page = (finished_run / "report/index.html").read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)=\"(?!#|data:|lab\.html)", page)
    assert not re.search(r"url\((?!#)|@import|<script|<link rel=\"stylesheet", page)
    assert "prefers-color-scheme: dark" in page
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        colours = set(re.findall(r"#[0-9a-f]{6}\b", svg))
        assert colours <= {"#000000", "#ffffff"}


def test_a_users_matplotlibrc_changes_no_picture(tmp_path):
    """text.usetex ended the report; other keys changed every picture."""
    draw = """
import hashlib, pandas
from tinylm.report.charts import draw_lines
from tinylm.report.drawing import in_style, to_inline, to_png, to_svg
frame = pandas.DataFrame({"x": [0, 1, 2], "series": "held-out", "value": [9.0, 3.0, 2.0]})
with in_style():
    picture = draw_lines(frame, "title", "tokens", "loss")
svg = to_inline(to_svg(picture), "p", "alt")
print(hashlib.sha256(svg.encode() + to_png(picture.drawing)).hexdigest())
"""
    (tmp_path / "matplotlibrc").write_text(
        "text.usetex: True\naxes.facecolor: black\nsavefig.bbox: tight\n"
    )
    results = []
    for rc in ("", str(tmp_path / "matplotlibrc")):
        command = [sys.executable, "-c", draw]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)} | (
            {"MATPLOTLIBRC": rc} if rc else {}
        )
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
        results.append(done.stdout)
    assert results[0] == results[1]
