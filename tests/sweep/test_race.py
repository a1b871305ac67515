"""What is refused of a race, what counts as a record and is kept of it; one race is really run."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.clone import ROOT
from tests.sweep import rig
from tinylm.base.config import InputError, load_params, parse_yaml
from tinylm.benchmarks import race
from tinylm.host.command import CommandFailed
from tinylm.presets.write import flatten
from tinylm.sweep.plan import Sweep

CONDITIONS = {"threads": 2, "cores": 2, "cpu": "A", "date": "2026-11-24"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    made = rig.lab(tmp_path_factory.mktemp("race") / "clone", embedding__source="random")
    made.dvc("repro", "download")
    return made


def run(clone, *words, code=0):
    done = rig.plain(clone, sys.executable, "-m", "tinylm.cli", "race", *words)
    assert done.returncode == code, done.stdout
    return done.stdout


def test_times_are_read():
    assert [race.limit_s(text) for text in ("90s", "2min", "2h")] == [90.0, 120.0, 7200.0]
    for wrong in ("10", "0min", "2 h", "-1s", "fast", f"{'9' * 400}min"):
        with pytest.raises(InputError, match="allowed: 2min"):
            race.limit_s(wrong)


def test_a_time_has_one_name():
    assert [race.named(text) for text in ("90s", "120s", "2min", "60min", "7200s")] == [
        "90s",
        "2min",
        "2min",
        "1h",
        "2h",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        "{",
        "{}",
        "null",
        "5",
        "[1]",
        "[{}]",
        '[{"stories": "a", "records": {"2min": [{}]}}]',
        '[{"records": {}}]',
    ],
)
def test_records_of_another_form_are_refused(ended, wrong):
    race.FILE.write_text(wrong)
    with pytest.raises(
        InputError, match=r"docs/records\.json: not the records of races .* git checkout"
    ):
        race.Records()


@pytest.mark.parametrize(
    "vocab", [{"tokenizer": "bpe"}, {"tokenizer": "longest_match", "lower_case": False}]
)
def test_tokens_of_which_no_raw_bits_are_known_are_refused_before_anything_is_trained(ended, vocab):
    records = race.Records()
    records.recipe |= {f"vocab.{key}": value for key, value in vocab.items()} | {
        "embedding.source": "random"
    }
    with pytest.raises(
        InputError, match=rf"vocab\.tokenizer = {vocab['tokenizer']}.*; allowed in a race: words"
    ):
        race.planned("2min", (1, 2, 3), records)


def download(**changed):
    """Stage download in a dvc.lock."""
    data = load_params(ROOT / "params.yaml")["data"] | changed
    return {
        "params": {"params.yaml": {"data": data}},
        "outs": [{"path": "data/stories", "md5": "a.dir"}],
    }


def test_stories_are_those_of_the_parameters(ended, tmp_path):
    assert race.stories_id() == "a.dir"
    for stages in ({}, {"download": {}}, {"download": download(seed=99)}):
        (tmp_path / "dvc.lock").write_text(json.dumps({"stages": stages}))
        with pytest.raises(
            InputError, match=r"dvc\.lock: stage download has not run with these data"
        ):
            race.stories_id()


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """A function: (our bits, seconds of each, the record's bits or None) -> a race of three seeds that has ended."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(
        (ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (tmp_path / "dvc.lock").write_text(json.dumps({"stages": {"download": download()}}))
    (tmp_path / "docs").mkdir()

    def make(ours, seconds, theirs=None):
        records = race.Records()
        if theirs:
            first = {"recipe": {"train.lr": 1.0}, "bits": {"1": theirs}}
            records.table["records"]["2min"] = [first]
        runs = [{"train.seed": seed} for seed in (1, 2, 3) for _ in range(1 + (theirs is not None))]
        sweep = Sweep("r", "b" * 40, "c" * 40, ["evaluate"] * len(runs), runs, {}, timed=True)
        for number in sweep.numbers:
            sweep.run(number).mkdir(parents=True)
            bits = theirs if theirs and number % 2 else ours
            figures = {
                "train": {"parameters": 10, "tokens": 1200}, "evaluate": {"raw_bits_per_byte": bits},
                "seconds": seconds, "conditions": CONDITIONS,
            }  # fmt: skip
            (sweep.run(number) / "figures.json").write_text(json.dumps(figures))
            sweep.end(number, state="done", held_out=2.0)
        return sweep, records

    return make


def test_the_first_within_the_limit_is_a_record(ended):
    *_, last = race.judge("2min", *ended(0.9, 120.0))
    assert last == "a record: docs/records.json has it, the first of its race"
    assert race.Records().newest("2min")["bits"] == {"1": 0.9, "2": 0.9, "3": 0.9}


def test_what_is_edited_while_it_runs_is_not_in_the_record(ended):
    sweep, records = ended(0.9, 120.0)
    Path("params.yaml").write_text("train: {lr: 9.0}")
    race.judge("2min", sweep, records)
    assert (
        records.newest("2min")["recipe"]["train.lr"]
        == load_params(ROOT / "params.yaml")["train"]["lr"]
    )


def test_what_took_longer_is_none_and_is_told_what_fits(ended):
    *_, last = race.judge("2min", *ended(0.9, 160.0))
    assert last == "no record: longer than 120 s; at this rate 900 tokens fit"
    assert not race.FILE.exists()


@pytest.mark.parametrize(
    ("ours", "p", "said"),
    [
        (0.9, 1e-4, "a record: docs/records.json has it, p = 0.0001"),
        (0.9, 0.02, "no record: p = 0.02; less than 0.01 counts"),
        (1.1, 1e-4, "no record: not better than the record"),
    ],
)
def test_beside_a_record_it_must_be_better_and_surely_so(ended, monkeypatch, ours, p, said):
    monkeypatch.setattr(race, "_p", lambda sweep: p)
    assert race.judge("2min", *ended(ours, 100.0, theirs=1.0))[-1] == said
    assert race.FILE.exists() == said.startswith("a record")


def test_text_without_raw_bits_decides_nothing(ended):
    with pytest.raises(CommandFailed, match="bits per byte of the raw text are not known here"):
        race.judge("2min", *ended(None, 100.0))


def test_a_recipe_is_a_record_if_it_is_better_in_time_and_is_kept_whole(clone):
    kept = clone.path / "docs/records.json"
    kept.unlink(missing_ok=True)  # the clone has this repository's own records
    clone.set({"embedding.source": "file"})
    assert "embedding.source = file; allowed in a race: random | counts" in run(
        clone, "10min", code=2
    )
    clone.set({"embedding.source": "counts", "train.muon_lr": 1e-5, "train.lr": 1e-5})
    assert "--seeds: 2 of them; allowed in a race: 3 or more" in run(
        clone, "10min", "--seeds", "1,2", code=2
    )
    assert "race 3M; allowed: 0.5M" in run(clone, "3M", code=2)
    code = clone.path / "tinylm/model/loss.py"
    code.write_text(code.read_text() + "# changed\n")
    assert "tinylm/model/loss.py is changed; allowed in a race: committed code" in run(
        clone, "10min", code=2
    )
    clone.run("git", "checkout", "-q", "--", "tinylm")
    assert not kept.exists()

    recipe = flatten(load_params(clone.path / "params.yaml"))
    stories = parse_yaml((clone.path / "dvc.lock").read_text(), "dvc.lock")["stages"]["download"][
        "outs"
    ]
    first = {
        "date": "2026-11-24", "commit": "b" * 40, "bits": {"1": 3.0}, "seconds": {"1": 9.0}, "before": None, "p": None,
        "parameters": 10, "tokens": 1200, "differs": [], "conditions": CONDITIONS,
        "recipe": {key: value for key, value in recipe.items() if key.partition(".")[0] in race.RECIPE},
    }  # fmt: skip
    kept.write_text(
        json.dumps(
            [{"stories": stories[1]["md5"], "data": {"source": "a"}, "records": {"10min": [first]}}]
        )
    )
    assert "its recipe is the record's of 10min" in run(clone, "10min", code=2)
    clone.set({"train.muon_lr": 0.02, "train.lr": 3e-3})
    said = run(clone, "10min")
    assert "a record: docs/records.json has it, p = " in said, said
    (table,) = json.loads(kept.read_text())
    _, second = table["records"]["10min"]
    assert second["differs"] == ["train.lr", "train.muon_lr"]
    assert second["recipe"]["train.lr"] == 3e-3
    assert list(second["bits"]) == list(second["seconds"]) == ["1", "2", "3"]
    assert max(second["bits"].values()) < min(second["before"]["bits"].values())
    assert second["p"] < race.P
    assert all(
        seconds > 0.1 for seconds in second["seconds"].values()
    )  # trained, not taken from DVC's cache
    assert "| 10min |" in (clone.path / "docs/reference/benchmarks.md").read_text()
