"""Every line of `make bench` runs, once, at tiny size; no time is asserted."""

import importlib
import json
import sys
from dataclasses import replace

import pytest

from tinylm.benchmarks import loss, one_prompt, repro, start
from tinylm.benchmarks import options as peers_options
from tinylm.benchmarks.loss import Plan
from tinylm.benchmarks.options import LINES, run_line
from tinylm.host.command import CommandFailed

SLOW = {"start", "repro"}  # they are commands of their own, whose start is what is measured


@pytest.fixture
def alone(monkeypatch):
    """ckpt_bench measures in this process."""
    monkeypatch.setattr("tinylm.bench.measure.in_own_process", lambda function, task: function(task))


@pytest.mark.parametrize("name", [name for name in LINES if name not in SLOW])
def test_a_line_runs(name, options, alone):
    line = importlib.import_module(f"tinylm.benchmarks.{name}")
    assert name == line.NAME
    run_line(name, line.run, options)
    kept = json.loads(options.results.read_text())[name]
    assert kept["conditions"]["cpu"]
    assert "load" in kept["conditions"]
    assert kept["rows"]
    for row in kept["rows"]:
        assert row["what"]
        assert row["ours"] is None or 0 < row["ours"]["low"] <= row["ours"]["median"] <= row["ours"]["high"]


def test_the_start_of_generate_is_timed(options, monkeypatch):
    """The command is the real one elsewhere; here a stand-in that speaks as it does."""
    spoken = "import time; print('once upon a time', end='', flush=True); time.sleep(0.05); print(' there', flush=True)"
    monkeypatch.setattr(start, "command_of", lambda made: [sys.executable, "-c", spoken])
    (row,) = start.run(options)
    assert row.ours["low"] > 0.05


def test_a_generate_that_says_nothing_is_an_error(options, monkeypatch):
    monkeypatch.setattr(start, "command_of", lambda made: [sys.executable, "-c", "raise SystemExit('no model')"])
    with pytest.raises(CommandFailed, match="no model"):
        start.run(options)


def test_the_pipelines_line(options, monkeypatch):
    commands = []
    monkeypatch.setattr(repro, "clone", lambda folder: folder)
    monkeypatch.setattr(repro, "seconds", lambda folder, *command: commands.append(command) or 7.0)
    whole, again = repro.run(replace(options, size="full", turns=2))
    assert commands == [("dvc", "repro")] * 3
    assert (whole.reached(), again.reached()) == ("must", "no")


def test_a_failing_command_of_the_pipeline_is_an_error(tmp_path):
    with pytest.raises(CommandFailed, match=r"tinylm\.no_such"):
        repro.seconds(tmp_path, "tinylm.no_such")


def test_the_race_runs_both_in_turn_and_is_kept(options, monkeypatch):
    """Losses are made up: ours reaches the target at the second share."""
    asked = []

    def made_up(task, where):
        asked.append((task["side"], task["tokens"], task["seed"], task.get("race", False)))
        nats = 3.0 if task["side"] == "nanoGPT" else 4.0 - task["tokens"] / 100
        return {
            "seconds": 10.0 if task["side"] == "nanoGPT" else 2.5,
            "held_out": task.get("lr", 1.0),
            "evaluation": nats,
        }

    monkeypatch.setattr("tinylm.benchmarks.loss_runs.here", made_up)
    plan = Plan((200,), (2e-3, 1e-3), (0.1,), (1, 2), (0.25, 0.5, 1.0), ("bf16",), ({},))
    (row,) = loss.measure(options, "storybook", plan)
    assert row.figure == pytest.approx(0.25)
    assert row.reached() == "must"
    assert "lr 0.001" in row.what  # the lower held-out loss, not the first one tried
    races = [(side, tokens, seed) for side, tokens, seed, race in asked if race]
    assert races == [(side, tokens, seed) for seed in (1, 2) for side, tokens in (("tinylm", 100), ("nanoGPT", 200))]
    before = len(asked)
    loss.measure(options, "storybook", plan)
    assert len(asked) == before  # all of it was kept


def test_of_the_recipes_that_reach_the_loss_the_quickest_is_raced(options, monkeypatch):
    """Random vectors need twice the tokens here and half the time; a third recipe never gets there."""

    def made_up(task, where):
        if task["side"] == "nanoGPT":
            return {"seconds": 30.0, "held_out": 1.0, "evaluation": 3.0}
        source = task["embedding"]["source"]
        need = {"skipgram": 50, "random": 100, "file": 1000}[source]
        seconds = task["tokens"] / 100 + (8.0 if source == "skipgram" else 0.0)
        return {"seconds": seconds, "held_out": 1.0, "evaluation": 3.0 if task["tokens"] >= need else 4.0}

    monkeypatch.setattr("tinylm.benchmarks.loss_runs.here", made_up)
    recipes = tuple({"embedding": {"source": source}} for source in ("skipgram", "random", "file"))
    plan = Plan((200,), (2e-3,), (0.1,), (1,), (0.25, 0.5, 1.0), ("bf16",), recipes)
    (row,) = loss.measure(options, "storybook", plan)
    assert "vectors random" in row.note
    assert row.figure == pytest.approx(1.0 / 30.0)


def test_a_loss_that_is_not_reached_is_said(options, monkeypatch):
    monkeypatch.setattr(
        "tinylm.benchmarks.loss_runs.here",
        lambda task, where: {"seconds": 1.0, "held_out": 1.0, "evaluation": float(task["side"] == "tinylm")},
    )
    (row,) = loss.measure(options, "storybook", Plan((100,), seeds=(1,), shares=(1.0,), modes=("bf16",), recipes=({},)))
    assert (row.ours, row.reached(), row.note) == (None, "no", "not reached")


def test_peers_that_are_not_there_are_left_out_and_named(options, monkeypatch, capsys):
    monkeypatch.setattr(peers_options, "versions", lambda python: {})
    rows = one_prompt.run(replace(options, nanogpt=None))
    assert rows
    assert all(row.peer is None for row in rows)
    assert "ctranslate2 is not installed" in capsys.readouterr().out
