"""The published figures stand in published.yaml as printed, and the table of results is made from them."""

import math
import re
from pathlib import Path

import pytest

from tinylm.presets.write import names, preset_values
from tinylm.report.library import SYSTEMS, published
from tinylm.report.references import COLUMNS, results_table

ROOT = Path(__file__).parents[2]
SOURCE = ROOT.parent / "shared/reference-systems.md"
SPELT = {  # printed as words, as powers of ten or as minutes and seconds; or counted up
    ".A.data.said_share",
    ".D.train.seconds_s",
    *(f".{system}.train.lr" for system in SYSTEMS),
    ".E.answers.highest_lr",
    ".E.answers.tried_lr[0]",
}
FURTHER = {
    ".A.checked.stories",
    ".B.beam_gain_share",
    ".D.losses[9].held_out",
    ".E.checked.merge_order_windows_as_written",
}  # read in the sources after that page was written


def numbers(value, path=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from numbers(item, f"{path}[{place}]")
    elif isinstance(value, int | float):
        yield path, value


@pytest.mark.skipif(not SOURCE.exists(), reason="the description of the five systems is not here")
def test_every_figure_is_a_printed_one():
    printed = {
        float(n.rstrip(".,").replace(",", ""))
        for n in re.findall(r"\d[\d,]*\.?\d*", SOURCE.read_text("utf-8"))
    }
    for path, value in numbers(published()):
        if path not in SPELT | FURTHER and not path.endswith(".epoch"):
            assert {float(value), round(100 * value, 6), value / 1e6} & printed, path


def test_the_figures_fit_each_other_where_the_sources_say_so():
    systems = published()
    e, d, a = systems["E"], systems["D"], systems["A"]
    assert [row["epoch"] for row in e["epochs"]] == list(range(1, 21))
    assert (
        min(row["perplexity"] for row in e["epochs"])
        == e["best_perplexity"]
        == e["epochs"][18]["perplexity"]
    )
    assert (
        e["data"]["train_windows"] + e["data"]["held_out_windows"]
        == e["data"]["windows"]
        == 423_593
    )
    assert (
        sum(d["model"]["parameters_by_part"].values()) + 1024
        == d["model"]["parameters"]
        == 70_419_537
    )
    assert d["train"]["seconds_s"] == 14 * 60 + 36
    assert [row["iteration"] for row in d["losses"]] == [*range(0, 4001, 500), 4999]
    assert (
        a["model"]["parameters_trainable"] + 14_886 * 300 == a["model"]["parameters"] == 13_277_886
    )
    assert math.exp(a["train"]["train_loss"]) == pytest.approx(
        a["train"]["train_perplexity"], abs=0.005
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_names_its_source_and_its_preset(system):
    found = published()[system]
    assert found["kind"] == "assignment" or found["kind"].endswith(f"({system})")
    assert found["preset"] in names()
    assert preset_values(found["preset"])["report.compare"] == system


def test_the_table_of_results_is_markdown_with_a_row_for_every_headline():
    lines = results_table(ROOT).splitlines()
    assert lines[0] == f"| source | {' | '.join(COLUMNS)} |"
    assert len(lines) > 10
    assert {line.count(" | ") for line in lines} == {4}
    assert any("| 88.58 |" in line for line in lines)


def test_the_page_of_results_shows_the_table_as_the_files_give_it():
    text = (ROOT / "docs/reference/results.md").read_text("utf-8")
    found = re.search(r"<!-- results -->\n(.*?)\n?<!-- /results -->", text, re.DOTALL)
    if found is None:
        pytest.skip("no results table yet")
    assert found[1].strip() == results_table(ROOT), "tinylm record --table prints it"
