"""Every section of params.yaml is checked before any work, and the rules between sections too; what a run will take."""

from pathlib import Path

import pytest
import yaml

from tests.support.stages import small_params
from tinylm.base.config import InputError, load_params
from tinylm.params import estimate, speed
from tinylm.params.params import SECTIONS, params_from
from tinylm.params.presets.write import FOLDER

BASE = load_params(FOLDER / "storybook.yaml")
for section, values in {  # what the limits below are counted from, whatever the preset is tuned to
    "data": {"evaluation_stories": 500},
    "embedding": {"width": 128},
    "model": {"heads": 8, "context": 192, "head_width": None},
    "train": {"batch_size": 32, "accumulation": 1, "tokens": 1_500_000, "validate_every": 50},
    "decode": {"top_k": 50},
    "evaluate": {"stories": 50},
    "accum_sweep": {"settings": [1, 2, 4, 8], "batch_size": 16, "tokens": 160_000},
}.items():
    assert BASE[section].keys() >= values.keys()
    BASE[section] |= values
STREAM = {
    "train.layout": "stream",
    "model.context": 64,
    "train.batch_size": 32,
    "train.accumulation": 2,
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(changes: dict) -> dict:
    """The parameters with {"section.key": value} changed."""
    copy = {section: dict(values) for section, values in BASE.items()}
    for path, value in changes.items():
        section, _, key = path.partition(".")
        copy[section][key] = value
    return copy


def errors(changes: dict) -> list[str]:
    try:
        params_from(changed(changes))
    except InputError as error:
        return str(error).splitlines()
    return []


def test_the_table_names_every_section_of_a_preset():
    assert list(SECTIONS) == list(BASE)


def test_errors_of_all_sections_are_raised_at_once():
    copy = changed({"train.lr": -1, "train.lrr": 1, "model.layers": "four", "seeds.more": [1]})
    del copy["report"]
    copy["trian"] = {}
    Path("params.yaml").write_text(yaml.safe_dump(copy), encoding="utf-8")
    with pytest.raises(InputError) as error:
        params_from(load_params())
    lines = str(error.value).splitlines()
    keys = ["model.layers", "train.lr", "train.lrr", "section 'report'", "section 'trian'"]
    assert len(lines) == len(keys)
    for key in keys:
        assert any(
            line.startswith((f"params.yaml: {key}:", f"params.yaml: {key} ")) for line in lines
        )


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"model.heads": 129}, "model.heads"),
        ({"model.norm_kind": "std", "model.heads": 1, "embedding.width": 1}, "model.norm_kind"),
        ({"evaluate.prompt_tokens": 191}, "evaluate.prompt_tokens"),
        (STREAM | {"train.tokens": 4095}, "train.tokens"),
        (STREAM | {"train.tokens": 4096 * 49, "train.patience": 3}, "train.validate_every"),
        ({"seeds.more": [2, 1]}, "seeds.more"),
    ],
)
def test_a_broken_rule_between_sections_is_one_line_with_its_key(changes, key):
    (line,) = errors(changes)
    assert line.startswith((f"params.yaml: {key} ", f"params.yaml: {key}: "))


@pytest.mark.parametrize(
    "changes",
    [
        {"model.heads": 129, "model.head_width": 3},
        {"evaluate.prompt_tokens": 190},
        STREAM | {"train.tokens": 4096, "train.patience": None},
        STREAM | {"train.tokens": 4096 * 50, "train.patience": 3},
        {"runtime.device": "cuda", "train.compile": True},
    ],
)
def test_the_last_allowed_value_breaks_no_rule(changes):
    assert errors(changes) == []


def test_a_stage_says_where_it_stands_and_what_is_left(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    values = {"train": {"lr": 1}}
    estimate.announce("train", values)
    assert capsys.readouterr().out == ""
    estimate.keep({"vocab": 30.0, "train": 200.0, "report": 40.0}, values)
    estimate.announce("train", values)
    assert capsys.readouterr().out == "stage 2 of 3, train; about 4 min left in all\n"
    estimate.announce("train", {"train": {"lr": 2}})  # the estimate was for another run
    assert capsys.readouterr().out == "stage 2 of 3, train\n"
    estimate.announce("seed_train", values)
    assert capsys.readouterr().out == ""


def test_both_speeds_are_measured(monkeypatch):
    monkeypatch.setattr(speed, "MEASURED_S", 0.0)
    measured = speed.measure(params_from(small_params()))
    assert measured.token_s > 0 < measured.forward_s
    assert measured.device == "cpu"
