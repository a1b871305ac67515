"""Studies: settings x seeds by the training loop itself, kept one by one."""

import argparse
import json
import math
from pathlib import Path

import numpy as np
import pytest

import tinylm.studies.study as study_module
from tinylm.base.config import InputError, load_params, read_section
from tinylm.bench.seeds import student_tail
from tinylm.cli import main
from tinylm.cli import study as command
from tinylm.model.settings import ModelSettings
from tinylm.studies.study import Workbench, run_study, unigram_loss
from tinylm.studies.study_plan import (
    beside_the_first,
    find_study,
    label,
    read_studies,
    summed_up,
    table,
    workspace_problems,
)
from tinylm.training.trainer import TrainingFailed, TrainSettings

ROOT = Path(__file__).parents[2]
SMALL = """\
try-rates:
  preset: storybook
  system: E
  question: Which rate is best?
  answer: "the highest is {published.E.answers.highest_lr:g}"
  seeds: [1, 2]
  set: {train.tokens: 900, train.batch_size: 4, train.validate_every: 1000, model.layers: 1, model.heads: 2,
        model.feed_forward: 8, model.context: 12, train.optimizer: adamw}
  vary: {train.lr: [1e-5, 0.01]}
try-vectors:
  preset: storybook
  question: Do vectors help?
  seeds: [1]
  held_out_every: 2
  set: {train.tokens: 300, train.batch_size: 4, model.layers: 1, model.heads: 2, model.context: 12}
  settings:
    as they are: {}
    random: {embedding.source: random, embedding.width: 6}
"""


@pytest.fixture
def studies(tmp_path, monkeypatch):
    path = tmp_path / "studies.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture
def workspace(folder, studies, monkeypatch):
    """The working directory with tokens in it; the code is hashed where it stands."""
    root = study_module.__file__.rpartition("/tinylm/")[0]
    (folder / "tinylm").symlink_to(f"{root}/tinylm")
    monkeypatch.setattr("tinylm.studies.study_plan.FILE", studies)
    monkeypatch.setattr(find_study, "__defaults__", (studies,))
    monkeypatch.setattr(read_studies, "__defaults__", (studies,))
    return folder


def run_all(name, studies, seeds=(1, 2)):
    bench = Workbench(find_study(name, studies), load_params(), threads=1)
    return {(setting, seed): found for setting, seed, found in run_study(bench, seeds)}


def without_times(result):
    return {key: value for key, value in result.items() if key not in ("train_s", "tokens_per_s", "conditions")}


def test_every_setting_is_trained_with_every_seed(workspace, studies):
    found = run_all("try-rates", studies)
    assert set(found) == {("1e-5", 1), ("1e-5", 2), ("0.01", 1), ("0.01", 2)}
    for result in found.values():
        assert result["held_out_perplexity"] == pytest.approx(math.exp(result["held_out_loss"]))
        assert 600 < result["tokens"] <= 900
        assert result["diverged"] == 0
    assert found["0.01", 1]["held_out_loss"] < found["1e-5", 1]["held_out_loss"]
    assert found["0.01", 1]["held_out_loss"] != found["0.01", 2]["held_out_loss"]


def test_a_study_that_was_cut_off_goes_on(workspace, studies, monkeypatch):
    bench = Workbench(find_study("try-rates", studies), load_params(), threads=1)
    runs = run_study(bench, (1,))
    first = next(runs)
    runs.close()
    trained = []
    real = study_module.train
    monkeypatch.setattr(study_module, "train", lambda *a, **k: trained.append(1) or real(*a, **k))
    found = run_all("try-rates", studies, seeds=(1,))
    assert len(trained) == 1  # the second setting only
    assert found["1e-5", 1] == json.loads(json.dumps(first[2]))
    assert run_all("try-rates", studies, seeds=(1,)) == found
    assert len(trained) == 1


def test_other_settings_seeds_data_or_code_are_other_runs(workspace, studies):
    def parts(**changed):
        bench = Workbench(find_study("try-rates", studies), load_params())
        return bench.parts(changed.get("setting", "0.01"), changed.get("seed", 1))

    base = parts()
    assert parts() == base
    assert parts(setting="1e-5") != base
    assert parts(seed=2) != base
    studies.write_text(SMALL.replace("900", "800"), encoding="utf-8")
    assert parts() != base
    studies.write_text(SMALL, encoding="utf-8")
    assert parts() == base
    ids = workspace / "data/tokens/held_out.ids"
    ids.write_bytes(ids.read_bytes()[:-2] + b"\x05\x00")
    assert (
        study_module.fingerprint({}, study_module.DATA, "")["data/tokens/held_out.ids"]
        != base["data/tokens/held_out.ids"]
    )


def test_a_diverging_run_is_a_result(workspace, studies, monkeypatch):
    def fails(*_, **__):
        raise TrainingFailed("update 3: loss nan")

    monkeypatch.setattr(study_module, "train", fails)
    found = run_all("try-rates", studies, seeds=(1,))
    assert found["0.01", 1]["diverged"] == 1
    assert found["0.01", 1]["error"] == "update 3: loss nan"
    rows = summed_up(find_study("try-rates", studies), {"0.01": {"1": found["0.01", 1]}})
    assert rows["0.01"]["mean"] == {"diverged": 1}
    assert "diverged" in table(rows)


def test_random_vectors_are_drawn_for_each_seed_and_files_are_not(workspace, studies):
    bench = Workbench(find_study("try-vectors", studies), load_params(), threads=1)
    _, _, plain = bench.settings("as they are", 1)
    _, _, random = bench.settings("random", 1)
    np.testing.assert_array_equal(bench._matrix(plain, 1), bench._matrix(plain, 2))
    assert bench._matrix(random, 1).shape == (35, 6)
    assert (bench._matrix(random, 1) != bench._matrix(random, 2)).any()
    found = run_all("try-vectors", studies, seeds=(1,))
    assert found["random", 1]["parameters"] < found["as they are", 1]["parameters"]


def test_the_command_writes_the_result_and_prints_a_table(workspace, studies, capsys):
    assert main(["study", "try-rates", "--seeds", "1,2", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    found = json.loads((workspace / "docs/studies/try-rates.json").read_text("utf-8"))
    assert found["seeds"] == [1, 2]
    assert found["commands"][-1] == "tinylm study try-rates --seeds 1,2"
    row = found["settings"]["0.01"]
    losses = [run["held_out_loss"] for run in row["runs"].values()]
    assert row["mean"]["held_out_loss"] == pytest.approx(sum(losses) / 2)
    assert row["spread"]["held_out_loss"] == pytest.approx(abs(losses[0] - losses[1]) / math.sqrt(2))
    assert f"{row['mean']['held_out_loss']:.4f} ± {row['spread']['held_out_loss']:.4f}" in out
    assert found["data"]["tokens"]["train"] > 0
    assert found["conditions"]["threads"] == 1
    assert row["values"] == {"train.lr": 0.01}
    assert found["answer"] == "the highest is 0.003"
    assert all("held_out" in run and "curve" not in run for run in row["runs"].values())
    assert (workspace / "docs/ledger.yaml").exists()
    first = found["settings"]["1e-5"]["runs"]
    apart = [row["runs"][seed]["held_out_loss"] - first[seed]["held_out_loss"] for seed in ("1", "2")]
    assert f"{sum(apart) / 2:+.4f} ± {abs(apart[0] - apart[1]) / 2:.4f}" in out
    p = student_tail(sum(apart) / abs(apart[0] - apart[1]), 1)
    beside = row["beside_first"]
    assert (beside["p"], beside["seeds"], beside["paired"]) == (pytest.approx(p), 2, True)
    assert beside["says"] in out
    assert main(["study", "try-rates", "--table"]) == 0
    assert capsys.readouterr().out in out


def row(*losses):
    """A setting whose runs with seeds 1, 2, ... have these losses; None: diverged."""
    runs = {str(seed): {"held_out_loss": x} if x else {"diverged": 1} for seed, x in enumerate(losses, start=1)}
    return {"mean": {}, "spread": {}, "runs": runs}


def test_settings_are_set_beside_the_first_seed_by_seed_and_corrected_for_their_number():
    settings = {
        "first": row(2.0, 3.0, 4.0),
        "better": row(1.5, 2.52, 3.48),
        "alike": row(2.1, 2.9, 4.05),
        "two": row(2.5, 3.6, None),
        "one": row(9.0),
        "none": row(None),
    }
    found = beside_the_first(settings)
    assert list(found) == ["better", "alike", "two", "one"]
    apart = np.array([-0.5, -0.48, -0.52])
    t = apart.mean() / (apart.std(ddof=1) / 3**0.5)
    assert found["better"].difference == pytest.approx(-0.5)
    assert found["better"].p == pytest.approx(4 * student_tail(t, 2))  # the smallest of four
    assert found["better"].says.startswith("better; p = 0.002")
    assert found["alike"].says.startswith("no difference claimed: p = ")
    assert (found["two"].difference, found["two"].seeds, found["two"].paired) == (pytest.approx(0.55), 2, True)
    assert (found["one"].paired, found["one"].seeds) == (False, 1)  # taken to vary as the first
    assert "what may be said (4 comparisons)" in table(settings).splitlines()[0]
    alone = beside_the_first({"first": row(2.0), "second": row(1.0)})["second"]
    assert (alone.error, alone.p, alone.says) == (None, None, "no difference claimed: one seed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["study"], "no study named; allowed: try-rates | try-vectors"),
        (["study", "rates"], "study 'rates' is unknown; allowed: try-rates | try-vectors"),
        (["study", "try-rates", "--seeds", "1,x"], "--seeds 1,x; allowed: different whole numbers"),
        (["study", "try-rates", "--seeds", "1,1"], "--seeds 1,1"),
        (["study", "try-rates", "--threads", "0"], "--threads 0; allowed: 1 to 1024"),
        (["study", "try-rates", "--table"], "study try-rates is not in docs/studies; allowed: none yet"),
    ],
)
def test_bad_input_is_one_line(workspace, capsys, words, message):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_tokens_of_another_preset_are_refused(workspace, studies, params, capsys):
    params["vocab"]["min_count"] = 3
    params["data"]["train_stories"] = 7  # free
    assert workspace_problems(find_study("try-rates", studies), params) == ["vocab.min_count = 3, wanted 1"]
    with pytest.raises(InputError, match=r"wants the tokens of preset storybook.*tinylm preset storybook"):
        Workbench(find_study("try-rates", studies), params)


def test_counting_words_gives_the_loss_to_beat():
    train, held_out = np.array([0, 1, 1, 1]), np.array([0, 1, 0])
    expected = -(math.log(4 / 7) + math.log(2 / 7)) / 2  # of the last two tokens, three words, one added to each
    assert unigram_loss(train, held_out, 3) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "name"), [(1e-5, "1e-5"), (0.003, "0.003"), (64, "64"), ("none", "none"), (0.01, "0.01")]
)
def test_settings_are_named_by_their_value(value, name):
    assert label(value) == name


def test_the_page_of_the_recipe_shows_what_is_recorded():
    page = (ROOT / "docs/explanation/recipe.md").read_text(encoding="utf-8")
    found = json.loads((ROOT / "docs/studies/ingredients.json").read_text(encoding="utf-8"))
    assert f"```text\n{table(found['settings'])}\n```" in page
    assert len(found["seeds"]) == 3
    assert set(found["settings"]) == set(find_study("ingredients").settings)


@pytest.mark.parametrize("study", read_studies().values(), ids=lambda study: study.name)
def test_every_study_of_the_package_can_be_run(study):
    assert len(study.settings) >= (1 if study.name == "epoch-1" else 2)
    for setting in study.settings:
        sections = study.sections(setting)
        model = read_section(sections, "model", ModelSettings)
        read_section(sections, "train", TrainSettings)
        assert not model.problems_with_width(sections["embedding"]["width"])
    assert workspace_problems(study, study.sections(next(iter(study.settings)))) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {preset: storybook, question: x}", "a: seeds is missing"),
        ("a: {preset: storybook, question: x, seeds: [1], vary: {train.lr: [1]}, odd: 1}", "a: odd is unknown"),
        ("a: {preset: other, question: x, seeds: [1], vary: {train.lr: [1]}}", "a: preset 'other'"),
        ("a: {preset: storybook, question: x, seeds: [1], vary: {decode.top_k: [1]}}", "a: decode.top_k; allowed"),
        ("a: {preset: storybook, question: x, seeds: [1], vary: {train.rate: [1]}}", "a: train.rate; allowed"),
        ("a: {preset: storybook, question: x, seeds: [1]}", "either vary"),
    ],
)
def test_a_study_that_cannot_be_run_is_named(tmp_path, text, message):
    path = tmp_path / "studies.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_studies(path)


def test_the_list_names_every_study_with_its_question(capsys):
    command.run(argparse.Namespace(list=True, name=None))
    lines = capsys.readouterr().out.splitlines()
    studies = read_studies()
    assert [line.split()[0] for line in lines] == list(studies)
    for line, study in zip(lines, studies.values(), strict=True):
        assert line.endswith(f"{study.question} ({study.preset}, {len(study.settings) * len(study.seeds)} runs)")
    with pytest.raises(InputError, match=r"^no study named; allowed: "):
        command.run(argparse.Namespace(list=False, name=None))
