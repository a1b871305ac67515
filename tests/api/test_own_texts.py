"""Own prompts and sentences of section `report`: the texts and maps that the trained model gives anywhere else."""

import dataclasses

import pytest
import yaml

from tests.support.random_run import make_run
from tinylm.api.language_model import load
from tinylm.api.own_texts import with_own_texts
from tinylm.base.config import load_params, read_section
from tinylm.presets.write import FOLDER
from tinylm.report.document import write_document
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import ReportData

PROMPTS = ("the cat", "the zebra said", "the cat")
SETTINGS = read_section(load_params(FOLDER / "storybook.yaml"), "report", ReportSettings)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    make_run(tmp_path, "drop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(folder, **changes):
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    params["evaluate"]["new_tokens"] = 9
    settings = dataclasses.replace(SETTINGS, **changes)
    return with_own_texts(ReportData(params, {}), settings)


def test_prompts_are_continued_as_tinylm_generate_does(folder):
    run = _run(folder, prompts=PROMPTS)
    with pytest.warns(UserWarning, match="zebra"):
        expected = load("models").generate(list(PROMPTS), max_tokens=9)
    rows = run.rows("own_texts")
    assert [row["prompt"] for row in rows] == list(PROMPTS)
    tokenizer = load("models").tokenizer
    continuations = [tokenizer.decode(text.new_ids) for text in expected]
    assert [row["continuation"] for row in rows] == continuations
    assert [row["unknown"] for row in rows] == [[], ["zebra"], []]
    assert "*After “the zebra said”: " in write_document(run, SETTINGS, {})
