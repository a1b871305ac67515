"""Studies: settings x seeds, each a run of a sweep; what is made of their figures."""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.sweep import rig
from tinylm.base.config import InputError, load_params, read_section
from tinylm.cli import main
from tinylm.cli import study as command
from tinylm.evaluate.statistics import student_tail
from tinylm.host.command import CommandFailed
from tinylm.model.settings import ModelSettings
from tinylm.presets.write import flatten
from tinylm.studies.study import planned, results, unigram_loss
from tinylm.studies.study_plan import (
    beside_the_first,
    find_study,
    label,
    read_studies,
    summed_up,
    table,
    workspace_problems,
)
from tinylm.sweep import plan
from tinylm.train.trainer import TrainSettings

ROOT = Path(__file__).parents[2]
SMALL = """\
try-rates:
  preset: storybook
  system: E
  question: Which rate is best?
  answer: "the highest is {published.E.answers.highest_lr:g}"
  seeds: [1, 2]
  set: {train.tokens: 900, train.batch_size: 4, train.validate_every: 1000, model.layers: 1, model.heads: 2,
        model.feed_forward: 8, model.context: 12, train.optimizer: adamw, train.keep_epochs: []}
  vary: {train.lr: [1e-5, 0.01]}
try-vectors:
  preset: storybook
  question: Do vectors help?
  seeds: [1]
  set: {train.tokens: 300, train.batch_size: 4, model.layers: 1, model.heads: 2, model.context: 12}
  settings:
    as they are: {}
    random: {embedding.source: random, embedding.width: 6}
"""


@pytest.fixture
def studies(tmp_path, monkeypatch):
    path = tmp_path / "studies.yaml"
    path.write_text(SMALL, encoding="utf-8")
    monkeypatch.setattr("tinylm.studies.study_plan.FILE", path)
    monkeypatch.setattr(find_study, "__defaults__", (path,))
    monkeypatch.setattr(read_studies, "__defaults__", (path,))
    return path


@pytest.fixture
def workspace(folder, studies):
    """The working directory with tokens in it."""
    return folder


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone with these studies in it."""
    made = rig.lab(tmp_path_factory.mktemp("study") / "clone", data__held_out_share=0.02)
    (made.path / "tinylm/studies/studies.yaml").write_text(SMALL, encoding="utf-8")
    made.dvc("repro", "vocab")
    return made


def study(clone, *words, code=0):
    return clone.run(sys.executable, "-m", "tinylm.cli", "study", *words, code=code).stdout


def test_a_study_is_a_sweep_and_its_result_is_written_and_printed(clone):
    out = study(clone, "try-rates", "--threads", "1", "--workers", "2")
    found = clone.json("docs/studies/try-rates.json")
    assert found["seeds"] == [1, 2]
    assert found["commands"][-1] == "tinylm study try-rates --seeds 1,2"
    assert found["data"]["tokens"]["train"] > 0
    assert found["conditions"]["threads"] == 1
    assert found["answer"] == "the highest is 0.003"
    assert (clone.path / "docs/ledger.yaml").exists()
    first, row = (found["settings"][setting] for setting in ("1e-5", "0.01"))
    assert row["values"] == {"train.lr": 0.01}
    for run in (*first["runs"].values(), *row["runs"].values()):
        assert run["held_out_perplexity"] == pytest.approx(math.exp(run["held_out_loss"]))
        assert 600 < run["tokens"] <= 900
        assert run["diverged"] == 0
    losses = [run["held_out_loss"] for run in row["runs"].values()]
    assert losses[0] != losses[1]
    assert losses[0] < first["runs"]["1"]["held_out_loss"]
    assert row["mean"]["held_out_loss"] == pytest.approx(sum(losses) / 2)
    assert row["spread"]["held_out_loss"] == pytest.approx(
        abs(losses[0] - losses[1]) / math.sqrt(2)
    )
    assert f"{row['mean']['held_out_loss']:.4f} ± {row['spread']['held_out_loss']:.4f}" in out
    apart = [
        row["runs"][seed]["held_out_loss"] - first["runs"][seed]["held_out_loss"]
        for seed in ("1", "2")
    ]
    assert f"{sum(apart) / 2:+.4f} ± {abs(apart[0] - apart[1]) / 2:.4f}" in out
    p = student_tail(sum(apart) / abs(apart[0] - apart[1]), 1)
    beside = row["beside_first"]
    assert (beside["p"], beside["seeds"], beside["paired"]) == (pytest.approx(p), 2, True)
    assert beside["says"] in out
    assert study(clone, "try-rates", "--table") in out
    assert [name for name in rig.locks(clone) if name.startswith("study-try-rates-")]

    (sweep,) = clone.path.glob("runs/sweeps/study-try-rates-*")
    (sweep / "0002/state.json").unlink()  # as if it had been cut off
    clone.run("git", "checkout", "-q", "docs/ledger.yaml")
    again = study(clone, "try-rates", "--threads", "1")
    assert [n for n in range(1, 5) if f"run {n} (" in again] == [2]
    assert [sweep] == [*clone.path.glob("runs/sweeps/study-try-rates-*")]
    assert clone.json("docs/studies/try-rates.json")["settings"]["0.01"]["mean"] == row["mean"]

    (clone.path / "params.yaml").write_text(
        (clone.path / "params.yaml").read_text() + "# another text\n"
    )
    again = study(
        clone, "try-rates", "--threads", "1"
    )  # another sweep, whose models DVC already has
    assert table(found["settings"]) in again
    logs = [*clone.path.glob("runs/sweeps/study-try-rates-*/0001/log.txt")]
    assert sorted("held-out loss" in log.read_text() for log in logs) == [False, True]
    assert clone.json("docs/studies/try-rates.json")["conditions"] == found["conditions"]


def test_each_run_has_the_values_of_its_setting_and_seed(workspace, studies):
    params = load_params()
    runs = planned(find_study("try-rates"), (1, 2), params, None)
    assert list(runs) == [("1e-5", 1), ("0.01", 1), ("1e-5", 2), ("0.01", 2)]
    for (setting, seed), values in runs.items():
        whole = flatten(params) | values
        assert (label(whole["train.lr"]), whole["train.seed"]) == (setting, seed)
        assert (whole["train.tokens"], whole["model.layers"]) == (900, 1)
        assert not {key for key, value in values.items() if value == flatten(params)[key]}
    vectors = planned(find_study("try-vectors"), (7,), params, 3)
    assert vectors["random", 7]["embedding.seed"] == 7  # drawn for each seed
    assert "embedding.seed" not in vectors["as they are", 7]
    assert vectors["random", 7]["runtime.threads"] == 3


def ended(folder, **states):
    """A sweep of study try-rates, with seed 1, whose runs have ended."""
    runs = planned(find_study("try-rates"), (1,), load_params(), None)
    sweep = plan.Sweep("s", "", "", ["train"] * len(runs), [*runs.values()], {})
    for number in sweep.numbers:
        (folder / "runs/sweeps/s" / f"{number:04d}").mkdir(parents=True)
        sweep.end(number, **states[f"run_{number}"])
    return sweep, runs


def test_a_diverging_run_is_a_result_and_another_failure_is_none(workspace, studies):
    nan = "update 3: loss nan, gradient norm nan at learning rate 0.01: not finite; lower train.lr"
    trained = {
        "held_out_perplexity": 4.0,
        "train_loss": 1.5,
        "updates": 9,
        "tokens": 900,
        "epochs": 0.1,
        "parameters": 7,
    }
    sweep, runs = ended(workspace, run_1={"state": "done"}, run_2={"state": "failed", "why": nan})
    (sweep.run(1) / "figures.json").write_text(json.dumps({"train": trained}))
    found = results(sweep, runs)
    assert found["1e-5"]["1"]["held_out_loss"] == math.log(4.0)
    assert found["0.01"]["1"] == {"diverged": 1, "error": nan}
    rows = summed_up(find_study("try-rates"), found)
    assert rows["0.01"]["mean"] == {"diverged": 1}
    assert "diverged" in table(rows)
    sweep.end(2, state="failed", why="no space left on the disk")
    with pytest.raises(
        CommandFailed,
        match=r"^run 2 .*: no space left on the disk; the same command tries it again$",
    ):
        results(sweep, runs)


def row(*losses):
    """A setting whose runs with seeds 1, 2, ... have these losses; None: diverged."""
    runs = {
        str(seed): {"held_out_loss": x} if x else {"diverged": 1}
        for seed, x in enumerate(losses, start=1)
    }
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
    assert (found["two"].difference, found["two"].seeds, found["two"].paired) == (
        pytest.approx(0.55),
        2,
        True,
    )
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
        (["study", "--list", "--table"], "argument --table: not allowed with argument --list"),
        (
            ["study", "try-rates", "--table"],
            "study try-rates is not in docs/studies; allowed: none yet",
        ),
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
    assert workspace_problems(find_study("try-rates", studies), params) == [
        "vocab.min_count = 3, wanted 1"
    ]
    with pytest.raises(
        InputError, match=r"wants the tokens of preset storybook.*tinylm preset storybook"
    ):
        planned(find_study("try-rates"), (1,), params, None)


def test_counting_words_gives_the_loss_to_beat():
    train, held_out = np.array([0, 1, 1, 1]), np.array([0, 1, 0])
    expected = (
        -(math.log(4 / 7) + math.log(2 / 7)) / 2
    )  # of the last two tokens, three words, one added to each
    assert unigram_loss(train, held_out, 3) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "name"),
    [(1e-5, "1e-5"), (0.003, "0.003"), (64, "64"), ("none", "none"), (0.01, "0.01")],
)
def test_settings_are_named_by_their_value(value, name):
    assert label(value) == name


def test_pages_show_what_is_recorded():
    recipe, results = (
        (ROOT / f"docs/{page}.md").read_text("utf-8")
        for page in ("explanation/recipe", "reference/results")
    )
    baseline = [
        study.name for study in read_studies().values() if study.preset == "assignment-baseline"
    ]
    for page, name in [
        (recipe, "ingredients"),
        (recipe, "epochs"),
        *((results, name) for name in baseline),
    ]:
        found = json.loads((ROOT / f"docs/studies/{name}.json").read_text(encoding="utf-8"))
        assert f"```text\n{table(found['settings'])}\n```" in page
        assert found["seeds"] == list(find_study(name).seeds)
        assert set(found["settings"]) == set(find_study(name).settings)


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (ROOT / "docs/studies").glob("*.json"))
)
def test_a_recorded_study_is_the_one_that_can_be_run(name):
    found, study = (
        json.loads((ROOT / f"docs/studies/{name}.json").read_text(encoding="utf-8")),
        find_study(name),
    )
    assert {setting: row["values"] for setting, row in found["settings"].items()} == study.settings
    assert (
        found["set"].items() <= study.common.items()
    )  # a newer preset may need more to be as it was


@pytest.mark.parametrize("study", read_studies().values(), ids=lambda study: study.name)
def test_every_study_of_the_package_can_be_run(study):
    assert len(study.settings) >= (1 if study.name == "epoch-1" else 2)
    for setting in study.settings:
        sections: dict = {}
        for key, value in study.values(setting).items():
            section, _, name = key.partition(".")
            sections.setdefault(section, {})[name] = value
        model = read_section(sections, "model", ModelSettings)
        read_section(sections, "train", TrainSettings)
        assert not model.problems_with_width(sections["embedding"]["width"])
    assert workspace_problems(study, sections) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {preset: storybook, question: x}", "a: seeds is missing"),
        (
            "a: {preset: storybook, question: x, seeds: [1], vary: {train.lr: [1]}, odd: 1}",
            "a: odd is unknown",
        ),
        ("a: {preset: other, question: x, seeds: [1], vary: {train.lr: [1]}}", "a: preset 'other'"),
        (
            "a: {preset: storybook, question: x, seeds: [1], vary: {decode.top_k: [1]}}",
            "a: decode.top_k; allowed",
        ),
        (
            "a: {preset: storybook, question: x, seeds: [1], vary: {train.rate: [1]}}",
            "a: train.rate; allowed",
        ),
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
        assert line.endswith(
            f"{study.question} ({study.preset}, {len(study.settings) * len(study.seeds)} runs)"
        )
    with pytest.raises(InputError, match=r"^no study named; allowed: "):
        command.run(argparse.Namespace(list=False, name=None))
