"""Every number in ledger and comparison stands in the record that it names."""

import copy
import math
import re
from pathlib import Path

import pytest

from studies import ledger, published
from studies.records import SYSTEMS, read, wrong_numbers
from studies.records import published as systems
from tinylm.host.command import CommandFailed
from tinylm.presets.write import names

ROOT = Path(__file__).parents[2]
FIELDS = {"claim", "system", "verdict", "place", "quote", "quotes", "evidence", "numbers"}


def test_the_published_numbers_fit_each_other_where_the_sources_say_so():
    a, d, e = (systems()[name] for name in "ADE")
    assert {systems()[name]["preset"] for name in SYSTEMS} <= set(names())
    perplexities = [row["perplexity"] for row in e["epochs"]]
    assert [row["epoch"] for row in e["epochs"]] == list(range(1, 21))
    assert min(perplexities) == e["best_perplexity"] == perplexities[18]
    windows = e["data"]["train_windows"] + e["data"]["held_out_windows"]
    assert windows == e["data"]["windows"] == 423_593
    parts = sum(d["model"]["parameters_by_part"].values())
    assert parts + 1024 == d["model"]["parameters"] == 70_419_537
    assert d["train"]["seconds_s"] == 14 * 60 + 36
    frozen = a["data"]["vocabulary"] * a["model"]["width"]
    assert a["model"]["parameters_trainable"] + frozen == a["model"]["parameters"]
    perplexity = a["train"]["train_perplexity"]
    assert math.exp(a["train"]["train_loss"]) == pytest.approx(perplexity, abs=0.005)


def test_every_number_stands_in_the_record_that_is_named():
    entries = list(read("ledger.yaml").values())
    for tables in read("comparison.yaml").values():
        for table in tables:
            entries += table["rows"]
    for entry in entries:
        assert list(wrong_numbers(entry)) == []


def test_a_verdict_is_one_of_five_and_has_evidence_with_numbers():
    for name, entry in read("ledger.yaml").items():
        assert entry["verdict"] in ledger.VERDICTS, name
        assert entry["system"] in SYSTEMS, name
        assert "evidence" in entry or "quotes" in entry or "numbers" in entry, name
        assert {"claim", "system", "verdict"} <= set(entry) <= FIELDS, name


@pytest.mark.parametrize("place", ["quotes", "numbers"])
def test_a_number_that_differs_from_its_record_is_named(place):
    entry = copy.deepcopy(read("ledger.yaml")["A-level"])
    numbers = entry[place] if place == "quotes" else entry[place]["runs/word-50k"]
    path = next(iter(numbers))
    numbers[path] += 1
    (line,) = wrong_numbers(entry)
    assert path in line
    numbers["nowhere"] = numbers.pop(path)
    (line,) = wrong_numbers(entry)
    assert "nowhere" in line


def test_the_ledger_is_printed_and_counted(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ledger"])
    ledger.main()
    printed = capsys.readouterr().out
    claims = read("ledger.yaml")
    assert all(name in printed for name in claims)
    assert f"{len(claims)} claims" in printed


def test_the_page_of_results_shows_the_headlines():
    text = (ROOT / "docs/reference/results.md").read_text("utf-8")
    shown = re.search(r"<!-- results -->\n(.*?)\n?<!-- /results -->", text, re.DOTALL)
    assert shown is not None
    assert shown[1].strip().splitlines() == published.table_lines(published.headlines())


def test_page_and_paper_are_written(tmp_path):
    published.write(tmp_path)
    page = (tmp_path / published.PAGE).read_text("utf-8")
    assert all(entry["claim"] in page for entry in read("ledger.yaml").values())
    assert (tmp_path / published.PAPER).read_bytes().startswith(b"%PDF")


def test_nothing_is_written_if_a_number_is_wrong(monkeypatch, tmp_path):
    monkeypatch.setattr(published, "wrong_numbers", lambda entry: ["a number differs"])
    with pytest.raises(CommandFailed):
        published.write(tmp_path)
    assert list(tmp_path.iterdir()) == []
