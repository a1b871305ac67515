"""Settings that do not fit the tokens are refused before training, and before every later stage."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clone import set_params
from tests.support.stages import plant, run, small_params
from tinylm.base.config import load_params
from tinylm.params.estimate import Corpus, stage_seconds, validation_seconds
from tinylm.params.fitting import check_tokens
from tinylm.params.params import params_from
from tinylm.params.speed import Speed

LONGEST = {"vocab.tokenizer": "longest_match", "vocab.max_size": 60}
UNFIT = [  # (changes, the lines that they cause)
    ({"train.tokens": 5}, ["train.tokens"]),
    ({"train.tokens": None, "train.epochs": 1e-4}, ["train.epochs"]),
    ({"train.keep_epochs": [0.5, 900.0]}, ["train.keep_epochs"]),
    ({"evaluate.prompt_tokens": 28}, ["evaluate.prompt_tokens"]),
    ({"beam_bench.widths": [1, 999]}, ["beam_bench.widths"]),
    ({"kv_bench.batch": 60}, ["kv_bench.batch"]),
    ({"accum_sweep.tokens": 3}, ["accum_sweep.tokens"]),
    ({"train.layout": "windows", "train.batch_size": 1, "model.context": 200}, ["model.context"]),
    (
        LONGEST | {"report.prompts": ["a", "zzz"], "report.sentences": ["qqq"]},
        ["report.prompts, text 2", "report.sentences, text 1"],
    ),
    (LONGEST | {"runtime.sample_prompt": "zzz"}, ["runtime.sample_prompt"]),
    ({"train.tokens": 5, "kv_bench.batch": 60}, ["train.tokens", "kv_bench.batch"]),
]


def test_the_estimate_counts_validations_per_update():
    """Two mini-batches of three rows make an update as large as one of six."""
    corpus = Corpus(train=100, evaluation=9)
    found = set()
    for size, accumulation in ((3, 2), (6, 1)):
        params = small_params()
        params["train"] |= {"batch_size": size, "accumulation": accumulation}
        found.add(validation_seconds(params_from(params), corpus, 1e-4))
    assert len(found) == 1


@given(context=st.integers(16, 300), epochs=st.floats(0.01, 50))
def test_an_epoch_of_windows_is_estimated_to_read_each_token_once_for_each_place(context, epochs):
    corpus = Corpus(train=100, evaluation=9)
    speed = Speed(token_s=1.0, forward_s=0.0, device="cpu")
    seconds = {}
    for layout in ("stream", "windows"):
        params = small_params()
        params["model"]["context"] = context
        budget = {"layout": layout, "tokens": None, "epochs": epochs, "validate_every": 10**12}
        params["train"] |= budget
        params["data"]["held_out_share"] = 1e-9
        seconds[layout] = stage_seconds(params_from(params), corpus, speed)["train"]
    assert seconds["windows"] == pytest.approx(context * seconds["stream"], rel=0.01)


def errors(capsys) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize(("changes", "keys"), UNFIT)
def test_stage_vocab_refuses_what_does_not_fit_the_tokens(
    tmp_path, monkeypatch, capsys, changes, keys
):
    plant(tmp_path, small_params())
    set_params(tmp_path, changes)
    monkeypatch.chdir(tmp_path)
    assert run("download") == 0
    assert run("vocab") == 2
    lines = errors(capsys)
    assert len(lines) == len(keys)
    for line, key in zip(lines, keys, strict=True):
        assert line.startswith(f"error: params.yaml: {key}: ")


@pytest.mark.parametrize("stage", ["train", "evaluate", "ckpt_bench", "seed_train 2", "report"])
def test_a_later_stage_refuses_an_edit_of_any_section(
    finished_run, tmp_path, monkeypatch, capsys, stage
):
    shutil.copytree(finished_run, tmp_path / "run", symlinks=True)
    monkeypatch.chdir(tmp_path / "run")
    set_params(tmp_path / "run", {"kv_bench.batch": 60})
    assert run(stage) == 2
    (line,) = errors(capsys)
    assert "kv_bench.batch" in line


def test_an_update_that_surely_fits_needs_no_batches(finished_run, monkeypatch):
    """Batches of a large corpus take seconds, and every stage would wait for them."""
    monkeypatch.chdir(finished_run)
    monkeypatch.setattr("tinylm.train.preparation.training_batches", None)
    monkeypatch.setattr("tinylm.bench.accum.training_batches", None)
    check_tokens(params_from(load_params()))
