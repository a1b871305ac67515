"""Every line of `make bench` runs, once, at tiny size; no time is asserted."""

import json
import sys
from dataclasses import replace

import pytest

from tinylm.benchmarks import commands, decoding, loss
from tinylm.benchmarks import options as options_module
from tinylm.benchmarks.lines import LINES, line, run_line
from tinylm.benchmarks.loss import Plan
from tinylm.host.command import CommandFailed

APART = {
    "start",
    "repro",
    "lab",
}  # the first two start commands; lab needs a finished run: tests/test_stages.py


def plan_of(**given):
    usual = {
        "horizons": (200,),
        "grid": {"lr": (2e-3,), "dropout": (0.1,)},
        "seeds": (1,),
        "shares": (0.25, 0.5, 1.0),
    }
    return Plan(**usual | {"modes": ("bf16",)} | given)


@pytest.fixture
def alone(monkeypatch):
    """ckpt_bench measures in this process."""
    monkeypatch.setattr(
        "tinylm.bench.measure.in_own_process", lambda function, task: function(task)
    )


@pytest.mark.parametrize("name", [name for name in LINES if name not in APART])
def test_a_line_runs(name, options, alone):
    run_line(name, options, line(name))
    kept = json.loads(options.results.read_text())[name]
    assert kept["conditions"]["cpu"]
    assert "load" in kept["conditions"]
    assert kept["rows"]
    for row in kept["rows"]:
        assert row["what"]
        assert (
            row["ours"] is None
            or 0 < row["ours"]["low"] <= row["ours"]["median"] <= row["ours"]["high"]
        )


def test_the_start_of_generate_is_timed(options, monkeypatch):
    """The command is the real one elsewhere; here a stand-in that speaks as it does."""
    spoken = "import time; print('once upon a time', end='', flush=True); time.sleep(0.05); print(' there', flush=True)"
    monkeypatch.setattr(commands, "generate_command", lambda made: [sys.executable, "-c", spoken])
    (row,) = commands.start(options)
    assert row.ours["low"] > 0.05


def test_a_generate_that_says_nothing_is_an_error(options, monkeypatch):
    monkeypatch.setattr(
        commands,
        "generate_command",
        lambda made: [sys.executable, "-c", "raise SystemExit('no model')"],
    )
    with pytest.raises(CommandFailed, match="no model"):
        commands.start(options)


def test_the_pipelines_line(options, monkeypatch):
    run = []
    monkeypatch.setattr(commands, "clone", lambda folder: folder)
    monkeypatch.setattr(
        commands, "run_command", lambda *command, folder: run.append(command) or (7.0, 0.0)
    )
    whole, again = commands.repro(replace(options, size="full", trials=2))
    assert run == [("dvc", "repro")] * 3
    assert (whole.reached(), again.reached()) == ("must", "no")


def test_the_race_runs_both_in_turn_and_is_kept(options, monkeypatch):
    """Losses are made up: ours reaches the target at the second share."""
    asked = []

    def made_up(runs, name, task):
        asked.append((task["side"], task["tokens"], task["seed"], task.get("race", False)))
        nats = 3.0 if task["side"] == "nanoGPT" else 4.0 - task["tokens"] / 100
        return {
            "seconds": 10.0 if task["side"] == "nanoGPT" else 1.8,
            "held_out": task.get("lr", 1.0),
            "evaluation": nats,
        }

    monkeypatch.setattr(loss.Runs, "run", made_up)
    plan = plan_of(grid={"lr": (2e-3, 1e-3), "dropout": (0.1,)}, seeds=(1, 2), recipes=({},))
    (row,) = loss.measure(options, "storybook", plan)
    assert row.figure == pytest.approx(0.18)
    assert row.reached() == "must"
    assert "lr 0.001" in row.what  # the lower held-out loss, not the first one tried
    races = [(side, tokens, seed) for side, tokens, seed, race in asked if race]
    assert races == [
        (side, tokens, seed)
        for seed in (1, 2)
        for side, tokens in (("tinylm", 100), ("nanoGPT", 200))
    ]
    before = len(asked)
    loss.measure(options, "storybook", plan)
    assert len(asked) == before  # all of it was kept


def test_a_share_that_only_the_first_seed_reaches_is_followed_by_the_next(options, monkeypatch):
    """The peer runs once for each seed, whatever we need."""
    asked = []

    def made_up(runs, name, task):
        asked.append((task["side"], task["tokens"], task["seed"], task.get("race", False)))
        enough = task["side"] == "nanoGPT" or task["tokens"] >= (50 if task["seed"] == 1 else 100)
        return {"seconds": 1.0, "held_out": 1.0, "evaluation": 3.0 if enough else 3.1}

    monkeypatch.setattr(loss.Runs, "run", made_up)
    (row,) = loss.measure(
        options, "storybook", plan_of(seeds=(1, 2), recipes=({},), shares=(0.1, 0.25, 0.5, 1.0))
    )
    races = [(side, tokens, seed) for side, tokens, seed, race in asked if race]
    assert races == [
        ("tinylm", 50, 1), ("nanoGPT", 200, 1), ("tinylm", 50, 2), ("nanoGPT", 200, 2),
        ("tinylm", 100, 1), ("tinylm", 100, 2),
    ]  # fmt: skip
    assert row.note.startswith("ours 3.000 after 0.0001 M")
    (row,) = loss.measure(
        options, "storybook", plan_of(seeds=(1, 2), recipes=({},), shares=(0.25,))
    )
    assert (row.ours, row.note) == (None, "not reached")


def test_of_the_recipes_that_reach_the_loss_the_quickest_is_raced(options, monkeypatch):
    """Random vectors need twice the tokens here and half the time; a third recipe never gets there."""

    def made_up(runs, name, task):
        if task["side"] == "nanoGPT":
            return {"seconds": 30.0, "held_out": 1.0, "evaluation": 3.0}
        source = task["embedding"]["source"]
        need = {"skipgram": 50, "random": 100, "file": 1000}[source]
        seconds = task["tokens"] / 100 + (8.0 if source == "skipgram" else 0.0)
        return {
            "seconds": seconds,
            "held_out": 1.0,
            "evaluation": 3.0 if task["tokens"] >= need else 4.0,
        }

    monkeypatch.setattr(loss.Runs, "run", made_up)
    recipes = tuple({"embedding": {"source": source}} for source in ("skipgram", "random", "file"))
    plan = plan_of(recipes=recipes)
    (row,) = loss.measure(options, "storybook", plan)
    assert "vectors random" in row.note
    assert row.figure == pytest.approx(1.0 / 30.0)


def test_a_loss_that_is_not_reached_is_said(options, monkeypatch):
    monkeypatch.setattr(
        loss.Runs,
        "run",
        lambda runs, name, task: {
            "seconds": 1.0,
            "held_out": 1.0,
            "evaluation": float(task["side"] == "tinylm"),
        },
    )
    (row,) = loss.measure(options, "storybook", plan_of(recipes=({},)))
    assert (row.ours, row.reached(), row.note) == (None, "no", "not reached")


def test_peers_that_are_not_there_are_left_out_and_named(options, monkeypatch, capsys):
    monkeypatch.setattr(options_module, "versions", lambda python: {})
    rows = decoding.one_prompt(replace(options, nanogpt=None))
    assert rows
    assert all(row.peer is None for row in rows)
    assert "ctranslate2 is not installed" in capsys.readouterr().out


def test_llama_cpp_is_compared_at_equal_precision_on_one_core_and_on_all():
    def at(median):
        return {"median": median, "low": median, "high": median, "turns": 1}

    rate = {
        "tinylm fp32": at(40.0), "tinylm int8": at(90.0), "one core: tinylm fp32": at(30.0),
        "llama.cpp f32, 1 core": at(10.0), "llama.cpp f32, 2 cores": at(16.0), "llama.cpp q8_0, 1 core": at(45.0),
    }  # fmt: skip
    rows = {row.what: row for row in decoding.equal_precision("sampling", rate)}
    one, both, int8, _ = rows.values()
    assert (one.what, one.figure, one.reached()) == (
        "sampling, one core: tinylm fp32",
        3.0,
        "stretch",
    )
    assert (both.what, both.figure, both.peer_name) == (
        "sampling (tinylm fp32)",
        2.5,
        "llama.cpp f32, 2 cores",
    )
    assert (int8.what, int8.figure, int8.reached()) == (
        "sampling, one core (tinylm int8)",
        2.0,
        "must",
    )
    assert decoding.equal_precision("sampling", {"tinylm fp32": at(40.0)}) == []


def test_llama_cpp_decodes_what_we_do(options):
    pytest.importorskip("llama_cpp")
    entries = decoding.llama_cpp(options, 20) | decoding.entries(options, [1])
    chosen = {
        name: entries[name] for name in entries if name.endswith("1 core") or name == "tinylm fp32"
    }
    with options.contenders(chosen) as contenders:
        ours = contenders["tinylm fp32"].measure(method="greedy")["ids"]
        theirs = contenders["llama.cpp f32, 1 core"]
        assert theirs.measure(method="greedy")["ids"] == ours
        assert theirs.measure(method="greedy", alone=2)["ids"] == ours[:2]
        assert theirs.measure(method="sample", alone=1)["tokens"] == len(ours[0])


@pytest.mark.parametrize(
    ("theirs", "share"),
    [
        ([[1, 2, 3, 4], [5, 6, 7, 8]], 0.0),
        ([[1, 2, 9, 9], [5, 6, 7, 8]], 1 / 7),  # three positions of the first, four of the second
        ([[9, 2, 3, 4], [5, 6, 7, 9]], 2 / 5),
    ],
)
def test_changed_tokens_count_up_to_a_texts_first_difference(theirs, share):
    assert decoding.changed_share([[1, 2, 3, 4], [5, 6, 7, 8]], theirs) == pytest.approx(share)
