"""A recorded run; and every number in ledger and comparison stands in the record that it names."""

import re
from pathlib import Path

import pytest

from studies import published, record
from studies.published import changed_since
from studies.records import SYSTEMS, entries, read, read_run, wrong_numbers
from tests.support.clone import set_params
from tinylm.base.config import InputError
from tinylm.base.files import write_json
from tinylm.params.presets.write import preset_text
from tinylm.report.render import escape


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a finished run of the default preset, as far as its files are read."""
    (tmp_path / "params.yaml").write_text(preset_text("storybook"), encoding="utf-8")
    write_json(tmp_path / "metrics/train.json", {"val_loss": 2.5})
    write_json(tmp_path / "data/figures/train.json", {"train_loss": 2.25, "updates": 5003})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record, "refuse_unfinished", lambda: None)
    monkeypatch.setattr(record, "git", lambda *words: "0123abc")
    monkeypatch.setattr(record, "entries", lambda: [{"numbers": {"runs/a": {"train/updates": 1}}}])
    return tmp_path


def test_metrics_and_named_numbers_are_recorded_for_each_seed(folder):
    assert record.record_run("a", "storybook") == ["1"]
    set_params(folder, {"train.seed": 2})
    assert record.record_run("a", "storybook") == ["1", "2"]
    run = read_run(folder / "studies/runs/a.csv")
    assert list(run.loc["metrics/train/val_loss"]) == ["2.5", "2.5"]
    assert list(run.loc["train/updates"]) == ["5003", "5003"]
    assert "train/train_loss" not in run.index
    assert run.loc["params/model/layers", "2"] == "4"


def test_other_settings_under_the_same_name_are_refused(folder):
    record.record_run("a", "storybook")
    before = (folder / "studies/runs/a.csv").read_bytes()
    set_params(folder, {"model.layers": 2})
    with pytest.raises(InputError, match=r"model\.layers"):
        record.record_run("a", "storybook")
    assert (folder / "studies/runs/a.csv").read_bytes() == before
    record.record_run("shallow", "storybook")
    assert changed_since(folder / "studies/runs/shallow.csv") == ["model.layers: 4 -> 2"]


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
