"""Experiments of DVC: listed side by side, and compared by what other seeds give."""

import csv
import io
import sys

import pytest

from tinylm.base.files import read_json


@pytest.fixture(scope="module")
def lab(clone):
    """The copy with two experiments of its commit, of which the workspace knows nothing."""
    for name, change in (("rate", "train.lr=0.05"), ("seed", "train.seed=5")):
        clone.dvc("exp", "run", "--temp", "-n", name, "-S", change, "evaluate")
    yield clone
    assert clone.run("git", "status", "--porcelain").stdout == ""


def compare(lab, *words):
    """(what is printed, the JSON)"""
    words = ("compare", *words, "--json", "runs/found.json")
    done = lab.run(sys.executable, "-m", "tinylm.cli", *words)
    return done.stdout, read_json(lab.path / "runs/found.json")


def test_experiments_are_listed_side_by_side_with_their_losses(lab):
    rows = csv.DictReader(io.StringIO(lab.run("dvc", "exp", "show", "--csv").stdout))
    losses = {(row["train.lr"], row["train.seed"]): row["val_loss"] for row in rows}
    assert {("0.003", "1"), ("0.05", "1"), ("0.003", "5")} <= set(losses)
    assert len(set(losses.values())) == 3


def test_the_same_files_are_the_same_run(lab):
    _, found = compare(lab, "main", "workspace")
    findings = found["against_first"]["workspace"]["findings"]
    assert {finding["kind"] for finding in findings.values()} == {"equal"}
    assert set(findings) == {"perplexity", "bits_per_byte", "bleu4"}


def test_runs_of_other_seeds_are_not_said_to_differ(lab):
    _, found = compare(lab, "main", "seed")
    assert found["parameters"] == {"train.seed": {"main": 1, "seed": 5}}
    finding = found["against_first"]["seed"]["findings"]["perplexity"]
    difference = finding["difference"]
    assert difference["first"] != difference["second"]
    assert (difference["count"], finding["kind"]) == (30, "seeds only")


def test_all_experiments_are_held_against_the_commit_by_what_seeds_give(lab):
    text, found = compare(lab, "--all", "--html", "runs/page.html")
    assert [run["name"] for run in found["runs"]] == ["HEAD", "rate", "seed"]
    against = found["against_first"]["rate"]
    finding = against["findings"]["perplexity"]
    # each with the losses of its stories, from stage seed_score
    seeds = read_json(lab.path / "data/figures/seeds.json")["seeds"]
    difference = finding["difference"]
    assert against["seeds"] == [sorted([*seeds, 5]), [1]]
    assert difference["seeds"] is None  # of one seed nobody knows how much it varies
    assert difference["low"] < difference["second"] - difference["first"] < difference["high"]
    assert finding["p"] is None
    assert len(against["changed"]) == 3
    assert "train.lr" in text
    assert "rate" in (lab.path / "runs/page.html").read_text("utf-8")


def test_a_seeds_stage_of_other_parameters_is_no_yardstick(lab):
    _, found = compare(lab, "rate", "seed")
    assert any("stage seeds" in note for note in found["runs"][0]["notes"])


def test_a_plan_is_made_from_the_seeds_and_stories_of_these_runs(lab):
    done = lab.run(sys.executable, "-m", "tinylm.cli", "compare", "--effect", "0.5")
    assert "30 evaluation stories" in done.stdout
