"""Every number in ledger and comparison stands in the record that it names."""

import re
from pathlib import Path

from studies import published
from studies.records import SYSTEMS, entries, read, wrong_numbers
from tinylm.report.render import escape

ROOT = Path(__file__).parents[2]
FIELDS = {"system", "place", "claim", "quote", "evidence", "verdict"}


def test_every_number_stands_in_the_record_that_is_named():
    assert [line for entry in entries() for line in wrong_numbers(entry)] == []


def test_a_claim_has_its_quote_place_evidence_and_one_of_five_verdicts():
    for name, entry in read("ledger.yaml").items():
        assert entry["verdict"] in published.VERDICTS, name
        assert entry["system"] in SYSTEMS, name
        assert set(entry) - {"quotes", "numbers"} == FIELDS, name
        assert all(entry[field] for field in FIELDS), name


def test_the_page_of_results_shows_the_headlines():
    text = (ROOT / "studies/README.md").read_text("utf-8")
    shown = re.search(r"<!-- results -->\n(.*?)\n?<!-- /results -->", text, re.DOTALL)
    assert shown is not None
    assert shown[1].strip() == f"{published.headlines().strip()}\n\n{published.counts()}"


def test_the_page_has_every_claim():
    page = published.page()
    assert all(str(escape(entry["claim"])) in page for entry in read("ledger.yaml").values())
