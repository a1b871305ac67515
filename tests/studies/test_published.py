"""Every number in ledger and comparison stands in the record that it names."""

import re
from pathlib import Path

import pytest

from studies import published
from studies.records import SYSTEMS, entries, read, wrong_numbers
from tinylm.host.command import CommandFailed
from tinylm.report.render import escape

ROOT = Path(__file__).parents[2]
FIELDS = {"claim", "system", "verdict", "place", "quote", "quotes", "evidence", "numbers"}


def test_every_number_stands_in_the_record_that_is_named():
    assert [line for entry in entries() for line in wrong_numbers(entry)] == []


def test_a_verdict_is_one_of_five_and_has_evidence_with_numbers():
    for name, entry in read("ledger.yaml").items():
        assert entry["verdict"] in published.VERDICTS, name
        assert entry["system"] in SYSTEMS, name
        assert "evidence" in entry or "quotes" in entry or "numbers" in entry, name
        assert {"claim", "system", "verdict"} <= set(entry) <= FIELDS, name


def test_the_page_of_results_shows_the_headlines():
    text = (ROOT / "docs/reference/results.md").read_text("utf-8")
    shown = re.search(r"<!-- results -->\n(.*?)\n?<!-- /results -->", text, re.DOTALL)
    assert shown is not None
    assert shown[1].strip() == published.headlines().strip()


def test_the_page_has_every_claim():
    page = published.page()
    assert all(str(escape(entry["claim"])) in page for entry in read("ledger.yaml").values())


def test_there_is_no_page_if_a_number_is_wrong(monkeypatch):
    monkeypatch.setattr(published, "wrong_numbers", lambda entry: ["a number differs"])
    with pytest.raises(CommandFailed):
        published.page()
