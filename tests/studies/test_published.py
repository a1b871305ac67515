"""Every number in ledger and comparison stands in the record that it names."""

import re
from pathlib import Path

import pytest

from studies import ledger, published
from studies.records import SYSTEMS, read, wrong_numbers
from tinylm.host.command import CommandFailed

ROOT = Path(__file__).parents[2]
FIELDS = {"claim", "system", "verdict", "place", "quote", "quotes", "evidence", "numbers"}


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
