"""What release 0.3.0 wrote still loads, with the numbers that it gave (tests/fixtures/release-0.3.0)."""

import json
import shutil
import warnings
from pathlib import Path

import pytest
import yaml

import tinylm
from tinylm.base.config import MOVED, InputError, load_params
from tinylm.cli.check import Findings, check_files
from tinylm.host.params import read_sections, rule_errors
from tinylm.vocab.kinds import open_tokenizer

RELEASE = Path(__file__).parents[1] / "fixtures/release-0.3.0"
EXPECTED = json.loads((RELEASE / "expected.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    shutil.copytree(RELEASE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def test_the_model_has_the_same_probabilities_and_texts():
    text = EXPECTED["text"]
    lm = tinylm.load("models")
    assert lm.log_prob(text) == pytest.approx(EXPECTED["log_prob"], abs=1e-5)
    assert lm.perplexity(text) == pytest.approx(EXPECTED["perplexity"], rel=1e-5)
    assert lm.generate(text, max_tokens=8, temperature=0) == EXPECTED["greedy"]
    half = tinylm.load("models", epoch=0.5)
    assert half.log_prob(text) == pytest.approx(EXPECTED["log_prob_0.5"], abs=1e-5)


@pytest.mark.parametrize("name", EXPECTED["tokenizers"])
def test_each_tokenizer_has_the_same_ids(name):
    tokenizer = open_tokenizer(f"tokenizers/{name}.json")
    of_release = EXPECTED["tokenizers"][name]
    assert tokenizer.encode_story(of_release["text"]) == of_release["ids"]


def test_parameters_load_and_what_moved_is_named():
    sections, errors = read_sections(load_params())
    assert errors == rule_errors(sections) == []
    findings = Findings()
    check_files(sections, findings)
    for problem, new in zip(findings.problems, MOVED.values(), strict=True):
        assert (RELEASE.parents[2] / new).exists()
        assert new in problem
    params = yaml.safe_load(Path("params.yaml").read_text("utf-8"))
    params["decode"]["precision"] = "int8"
    Path("params.yaml").write_text(yaml.safe_dump(params), "utf-8")
    with pytest.raises(InputError, match=r"decode\.precision"), warnings.catch_warnings():
        tinylm.load("models")
