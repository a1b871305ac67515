"""Trials, records, verdicts, planning, fits: what the lines rest on."""

import argparse
import json
import os
import struct
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import psutil
import pytest
import torch

from tinylm.base.config import InputError
from tinylm.benchmarks import company, gpu, growth, loss, planning, record, vectors, watched
from tinylm.benchmarks.contenders import nanochat, nanogpt
from tinylm.benchmarks.interleaved import Contender, spread, trials
from tinylm.benchmarks.options import (
    Entry,
    Options,
    above_zero,
    add_options,
    clone,
    count,
    options_of,
)
from tinylm.benchmarks.record import Row
from tinylm.benchmarks.shape import TINY
from tinylm.host.command import CommandFailed, Parser
from tinylm.host.runtime import Progress

ONE = {"median": 2.0, "low": 1.0, "high": 3.0, "turns": 3}


def counting(setup):
    """A contender for tests: counts its trials."""
    if setup.get("bad"):
        raise ValueError("no such peer")
    state = {"trials": setup["from"]}

    def step(request):
        print("chatter", flush=True)
        if request.get("die"):
            os._exit(3)
        state["trials"] += 1
        return {"trials": state["trials"]} if request else {}

    return step


@pytest.fixture
def target(tmp_path, monkeypatch):
    (tmp_path / "counting.py").write_text(
        "import os\n\n" + "".join(map(str, __import__("inspect").getsourcelines(counting)[0]))
    )
    monkeypatch.setattr(
        "tinylm.benchmarks.interleaved.ROOT", f"{tmp_path}{os.pathsep}{watched.ROOT}"
    )
    return "counting:counting"


def test_a_contender_answers_from_a_process_of_its_own_whatever_it_prints(target):
    with Contender("peer", target, {"from": 4}) as contender:
        assert contender.measure(again=1) == {"trials": 5}
        assert contender.measure() == {}  # an empty answer is an answer
        assert contender.measure(again=1) == {"trials": 7}
        with pytest.raises(
            CommandFailed, match=r"(?s)peer: its process ended \(3\); it said: .*chatter"
        ):
            contender.measure(die=True)


def test_a_contender_that_cannot_be_prepared_says_why(target):
    with pytest.raises(CommandFailed, match="peer: ValueError: no such peer"):
        Contender("peer", target, {"bad": True})


@pytest.mark.parametrize("own", [True, False])
def test_our_contenders_threads_are_those_of_our_commands(tmp_path, monkeypatch, own):
    """A command lets idle threads sleep soon; a peer keeps its own way."""
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    (tmp_path / "asking.py").write_text(
        "import os\n\ndef make(setup):\n    return lambda request: {'spins': os.environ.get('GOMP_SPINCOUNT')}\n"
    )
    monkeypatch.setattr(
        "tinylm.benchmarks.interleaved.ROOT", f"{tmp_path}{os.pathsep}{watched.ROOT}"
    )
    with Contender("one", "asking:make", {}, own=own) as contender:
        assert contender.measure() == {"spins": "1000" if own else None}


def test_busy_processes_are_busy_and_end():
    with company.busy(2):
        before = psutil.Process().children()
        assert len(before) >= 2
        while not all(child.cpu_times().user > 0.05 for child in before[-2:]):
            time.sleep(0.02)
    assert not any(child.is_running() for child in before[-2:])


def test_who_waits_for_a_contender_is_told_what_for(target, monkeypatch, capsys):
    """`make bench LINES=training` into a file said nothing for ten minutes."""
    monkeypatch.setattr("tinylm.benchmarks.interleaved.SAID_EVERY_S", 0.0)
    with Contender("peer", target, {"from": 4}) as contender:
        assert "peer: being prepared for 0 s\n" in capsys.readouterr().out
        while "peer: being measured for 0 s\n" not in capsys.readouterr().out:
            assert contender.measure(again=1)["trials"] < 10_000


def test_trials_are_interleaved_and_counted(monkeypatch, capsys):
    order = []

    class Named:
        def __init__(self, name):
            self.name = name

        def measure(self, **request):
            order.append(self.name)
            return {"n": len(order), **request}

    monkeypatch.setattr("tinylm.benchmarks.interleaved.Progress", partial(Progress, every_s=0.0))
    found = trials({name: Named(name) for name in "ab"}, 2, warm_up=1, asked=7)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "measuring:  17% of 6 trials, a"
    assert told[-1] == "measuring: 100% of 6 trials, 0 s left, b"
    assert "".join(order) == "ababab"
    assert found == {
        name: [{"n": n, "asked": 7} for n in each] for name, each in (("a", (3, 5)), ("b", (4, 6)))
    }


def test_spread():
    assert spread([3.0, 1.0, 10.0]) == {"median": 3.0, "low": 1.0, "high": 10.0, "turns": 3}


@pytest.mark.parametrize(
    ("figure", "goal", "reached"),
    [
        (1.8, {"must": 1.8, "stretch": 2.2}, "must"),
        (2.2, {"must": 1.8, "stretch": 2.2}, "stretch"),
        (1.79, {"must": 1.8, "stretch": 2.2}, "no"),
        (0.3, {"must": 1 / 3, "stretch": 1 / 5, "higher": False}, "must"),
        (0.4, {"must": 1 / 3, "stretch": 1 / 5, "higher": False}, "no"),
        (0.9, {"stretch": 1.0}, "not the stretch"),
        (5.0, {"must": 4.0}, "must"),
        (None, {"must": 4.0}, "no"),
        (5.0, {}, ""),
    ],
)
def test_verdicts(figure, goal, reached):
    assert Row("speed", "x", ONE, figure=figure, **goal).reached() == reached


def test_a_line_replaces_its_own_results_and_no_others(tmp_path):
    path = tmp_path / "results.json"
    record.keep(path, "training", [Row("old", "s", ONE)], {"cpu": "a"})
    record.keep(path, "vectors", [Row("other", "s", ONE)], {"cpu": "a"})
    found = record.keep(
        path, "training", [record.against("new", "s", ONE, ONE, "peer", must=1.0)], {"cpu": "b"}
    )
    assert [row["what"] for line in found.values() for row in line["rows"]] == ["new", "other"]
    assert json.loads(path.read_text()) == found
    page = tmp_path / "page.md"
    page.write_text(f"before\n{record.RESULTS[0]}\nold\n{record.RESULTS[1]}\nafter\n")
    record.put(page, record.RESULTS, record.table(found, ["vectors", "training"]))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.index("| vectors | other") < text.index(
        "| training | new | 2 (1–3) s | peer: 2 (1–3) s | 1 x | 1 / – | must |"
    )
    with pytest.raises(InputError, match="no lines"):
        record.put(page, record.PLAN, "")


def test_a_part_of_a_line_replaces_itself_alone(tmp_path):
    path = tmp_path / "results.json"
    record.keep(path, "loss", [Row("whole", "s", ONE)], {})
    record.keep(path, "loss", [Row("two", "s", ONE, part=2.0), Row("half", "s", ONE, part=0.5)], {})
    found = record.keep(
        path, "loss", [Row("one", "s", ONE, part=1.0), Row("half anew", "s", ONE, part=0.5)], {}
    )
    assert [row["what"] for row in found["loss"]["rows"]] == ["half anew", "one", "two"]


def test_a_clone_that_is_not_there_is_refused(monkeypatch, tmp_path):
    for folder in (tmp_path / "none", tmp_path):
        monkeypatch.setenv("NANOGPT", str(folder))
        with pytest.raises(InputError, match=r"holds no model\.py; allowed: a clone"):
            clone("NANOGPT", "model.py")
    (tmp_path / "model.py").touch()
    assert clone("NANOGPT", "model.py") == tmp_path
    monkeypatch.delenv("NANOGPT")
    assert clone("NANOGPT", "model.py") is None


@pytest.mark.parametrize("wrong", ["0", "-5", "nan", "inf", "x"])
def test_numbers_of_a_benchmark_are_above_zero(wrong):
    assert (above_zero("0.5"), count("5e5")) == (0.5, 500_000)
    for kind in (above_zero, count):
        with pytest.raises((argparse.ArgumentTypeError, ValueError)):
            kind(wrong)
    with pytest.raises(argparse.ArgumentTypeError, match="a whole number >= 1"):
        count("0.5")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", ".*; allowed: a JSON file"),
        ("[" * 100_000, ".*; allowed: a JSON file"),
        ("[]", "; allowed: an object of"),
        ('{"data": {}}', "; allowed: an object of"),
        ('{"train": 1}', "; allowed: an object of"),
        ('{"train": {"no": 1}}', ": train.no is unknown"),
        ('{"model": {"layers": "x"}}', ": model.layers"),
    ],
)
def test_a_recipe_that_is_none_is_refused(tmp_path, monkeypatch, text, said):
    path = tmp_path / "recipe.json"
    path.write_text(text)
    monkeypatch.setattr(sys, "argv", ["loss", "--recipe", str(path)])
    with pytest.raises(InputError, match=rf"--recipe .*recipe\.json{said}"):
        loss.main()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--node", "65"], "--node 65; allowed: a number > 0, at most 64"),
        (["--vocabulary", "9" * 30], r"--vocabulary 9+; allowed: a number > 0, at most 1e\+08"),
        (["--write", "page.md"], "page.md: no lines"),
        (["--write", "."], "--write . is a folder"),
    ],
)
def test_what_planning_cannot_use_is_named_before_its_table(
    tmp_path, monkeypatch, capsys, words, said
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["planning", *words])
    with pytest.raises(InputError, match=said):
        planning.main()
    assert not capsys.readouterr().out


@pytest.mark.parametrize("seeds", [["-1"], ["1", "1"], ["9" * 30]])
def test_seeds_differ(monkeypatch, seeds):
    monkeypatch.setattr(sys, "argv", ["loss", "--seeds", *seeds])
    with pytest.raises(InputError, match=r"--seeds .*; allowed: different whole numbers"):
        loss.main()


def test_the_peers_learning_rate_ends_with_the_horizon():
    rates = [nanogpt.learning_rate(update, 100, 1.0) for update in range(100)]
    assert rates[0] == pytest.approx(1 / 6)
    assert max(rates) == rates[5] == 1.0
    assert rates[-1] == pytest.approx(0.1, abs=1e-3)


def test_nanochats_schedule_warms_up_holds_and_goes_down():
    rates = [nanochat.multiplier(update, 200) for update in range(200)]
    assert rates[0] == pytest.approx(1 / 40)
    assert rates[39] == rates[70] == 1.0
    assert rates[-1] == pytest.approx(0.05, abs=0.01)
    assert nanochat.momentum(0, 2000) == 0.85
    assert nanochat.momentum(400, 2000) == pytest.approx(0.97)
    assert nanochat.momentum(1999, 2000) == pytest.approx(0.90, abs=1e-3)


def test_a_grid_is_of_what_the_peer_has():
    tuned = loss.grid_of("nanochat", ["lr=1,2", "decay=0", "batch=16"])
    assert tuned == {"lr": (1.0, 2.0), "decay": (0.0,), "batch": (16,)}
    assert loss.grid_of("nanoGPT", []) == {}
    for wrong in (
        ["lr=1"],
        ["lr=1", "decay=0"],
        ["lr=a", "decay=0", "batch=16"],
        ["lr=1", "dropout=0", "batch=16"],
        ["lr=nan", "decay=0", "batch=16"],
        ["lr=0", "decay=0", "batch=16"],
        ["lr=1", "decay=0", "batch=0"],
        ["lr=1", "decay=0", "batch=1.5"],
        ["lr=1", "lr=2", "decay=0", "batch=16"],
    ):
        with pytest.raises(InputError, match="allowed for nanochat: lr=N,N decay=N,N batch=N,N"):
            loss.grid_of("nanochat", wrong)


def test_the_peers_windows_are_shifted_by_one(work):
    shape = replace(TINY, context=5, batch=3)
    inputs, targets = nanogpt.windows(np.arange(50), shape)
    assert inputs.shape == (3, 5)
    assert torch.equal(inputs + 1, targets)


def test_a_bin_file_is_as_long_as_its_header_says_and_asks_for_unknown_words_too(tmp_path):
    asked = vectors.asked_words(300, 40)
    assert len(set(asked)) == 40
    assert sum(word.endswith("x") for word in asked) == 8
    vectors.write_bin(tmp_path / "a.bin", 12, 300, 50, 7, asked)
    content = (tmp_path / "a.bin").read_bytes()
    entries = sum(len(vectors.spelled(n)) + 10 for n in range(300))
    assert len(content) == 8 + 56 + 28 + entries + 2 * 17 + 4 * 7 * (350 + 300)
    assert struct.unpack_from("<i", content, 8) == (7,)


def test_fit_finds_the_exponent():
    assert growth.fit([1, 2, 4, 8], [3.0, 12.0, 48.0, 192.0]) == pytest.approx(2.0)


def test_an_axis_chooses_its_own_threads(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "tinylm.benchmarks.options.Contender", lambda name, target, setup, *_, **__: setup
    )
    made = Options(threads=4, work=tmp_path).contender
    assert made("cores", Entry("growth:train", {"threads": 1})) == {"threads": 1}
    assert made("width", Entry("growth:train", {})) == {"threads": 4}


@pytest.mark.parametrize("name", ["depth", "cores", "beams", "data"])
def test_growth_runs_and_draws(name, options, tmp_path):
    told = replace(options, results=tmp_path / "growth.json")
    growth.grow([name], told)
    found = json.loads(told.results.read_text())[name]
    assert [point["x"] for point in found["points"]] == list(growth.AXES[name].tiny)
    assert (tmp_path / f"pictures/growth_{name}.png").read_bytes()[:4] == b"\x89PNG"


def test_growth_as_a_table():
    points = [
        {"x": 1000, "seconds": ONE, "limit_s": 0.5},
        {"x": 2000, "seconds": ONE, "limit_s": 1.5},
    ]
    width = {
        "title": "Width",
        "x": "D",
        "points": points,
        "exponent": 1.5,
        "conditions": {"cpu": "a"},
    }
    data = width | {"title": "Data", "points": [points[0] | {"limit_s": None}]}
    text = growth.table({"data": data, "width": width})
    assert text.index("| Width | D: 1,000 / 2,000 | 2 / 2 | 25% / 75% | 1.50 |") < text.index(
        "| Data | D: 1,000 | 2 | – "
    )
    assert "- `width`: cpu a" in text
    assert "![Width](../pictures/growth_width.png)" in text


def test_the_plan_counts():
    a = planning.Assumptions(network=1e9, tokens_per_step=1000, vocabulary=100)
    machines = {machine.name: machine for machine in planning.machines(a, False)}
    model = planning.Model("m", 1e6, 6e6, False)
    one, _ = planning.epoch(a, model, machines["1 H200"], 1e9)
    assert one == pytest.approx(1e9 * 6e6 / (9.9e14 * 0.2))
    many, limit = planning.epoch(a, model, machines["64 H200"], 1e9)
    sent = 1e9 / 64_000 * 2 * 63 / 64 * 4e6 / 1e9
    assert many == pytest.approx(one / 64 + sent)
    assert limit == "gradients sent"
    lines = list(planning.rows(a))
    assert len(lines) == 3 * 2 * 4
    assert sum("does not fit" in line for line in lines) == 2


def test_the_gpu_script_runs_on_a_cpu_tiny_and_keeps_a_row_a_device(tmp_path, monkeypatch, capsys):
    path = tmp_path / "gpu.json"
    path.write_text(
        json.dumps(
            [{"conditions": {"device": "a card"}}, {"conditions": {"device": "cpu"}, "old": 1}]
        )
    )
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--results", str(path)])
    gpu.main()
    kept = json.loads(path.read_text())
    assert [row["conditions"]["device"] for row in kept] == ["a card", "cpu"]
    assert [row["rows"] for row in kept[1]["training"]] == [1, 2]
    assert kept[1]["one_prompt"]["tokens_per_s"] > 0
    assert kept[1]["report_d"]["iterations_measured"] == gpu.TINY.iterations
    assert "D's 5,000 iterations" in capsys.readouterr().out


def test_the_gpu_script_refuses_in_one_line_without_a_card(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu"])
    with pytest.raises(InputError, match="make bench-gpu: torch sees no CUDA device here"):
        gpu.main()


def test_a_watched_command_tells_time_and_memory(tmp_path):
    (tmp_path / "holds.py").write_text("import time; kept = b'x' * 50_000_000; time.sleep(0.6)")
    seconds, peak = watched.run_command("holds", folder=tmp_path, sampled=True)
    assert seconds > 0.6
    assert 50 < peak < 200
    with pytest.raises(CommandFailed, match=r"tinylm\.no_such"):
        watched.run_command("tinylm.no_such", folder=tmp_path)


@pytest.mark.parametrize("results", [Options.results, growth.RESULTS])
def test_tiny_results_stay_away_from_the_real_ones(tmp_path, results):
    parser = argparse.ArgumentParser()
    add_options(parser, results)
    tiny = options_of(parser.parse_args(["--size", "tiny", "--work", str(tmp_path)]))
    assert tiny.results == tmp_path / "results-tiny.json"
    assert options_of(parser.parse_args([])).results == results
    assert (
        options_of(parser.parse_args(["--size", "tiny", "--results", "own.json"])).results.name
        == "own.json"
    )


@pytest.mark.parametrize(
    ("results", "held"),
    [("own.json", '{"mine": [1]}'), ("own.json", "[1]"), ("own.json", "no JSON"), ("page.md", "")],
)
def test_foreign_files_are_no_results(tmp_path, monkeypatch, results, held):
    monkeypatch.chdir(tmp_path)
    (tmp_path / results).write_text(held)
    parser = argparse.ArgumentParser()
    add_options(parser)
    with pytest.raises(InputError, match=f"--results .*{results}.*; allowed: "):
        options_of(parser.parse_args(["--results", results, "--page", "page.md"]))
    assert (tmp_path / results).read_text() == held


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--threads", "1e14"], r"^--threads 100000000000000; allowed: 1 to 1024"),
        (["--work", "params.yaml"], r"^--work params\.yaml: a file; allowed: a folder"),
        (
            ["--turns", "0"],
            r": 0; allowed: a whole number >= 1; python -m x --help lists what is allowed$",
        ),
        (["--no-such", "3"], r"^python -m x: unrecognized arguments: --no-such 3; "),
    ],
)
def test_options_out_of_range_are_refused(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("train: {}\n")
    parser = Parser(prog="python -m x")
    add_options(parser)
    with pytest.raises(InputError, match=said):
        options_of(parser.parse_args(words))
    assert (tmp_path / "params.yaml").read_text() == "train: {}\n"
