"""The lab of real stories in the documentation: small enough, and it goes on after its openings."""

from pathlib import Path

import pytest

from tests.lab.page_engine import Engine

PAGE = Path(__file__).parents[2] / "docs/lab/index.html"


@pytest.fixture(scope="module")
def engine():
    return Engine(PAGE.read_bytes())


def test_the_page_has_at_most_six_mebibytes_and_an_earlier_checkpoint(engine):
    assert PAGE.stat().st_size <= 6 << 20
    assert len(engine.facts["checkpoints"]) == 2


def test_it_goes_on_after_each_opening_without_repeating_itself(engine):
    openings = engine.facts["openings"]
    assert len(openings) > 3
    for opening in openings:
        ids = [engine.facts["tokenizer"]["sos_id"], *engine.call("tokenizer.encode", opening)]
        assert engine.facts["tokenizer"]["unk_id"] not in ids
        new = engine.call("greedy", ids, 20)
        assert len(set(new)) > 10
