import csv
import json

import pytest

from stages import accum_run, accum_sweep
from tinylm.base.config import InputError, read_section
from tinylm.bench import accum, measure
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import CommandFailed
from tinylm.train.settings import TrainSettings
from tinylm.vocab.batches import TrainBatches
from tinylm.vocab.token_store import TokenStore


def run_stage(monkeypatch, number):
    monkeypatch.setattr("sys.argv", ["accum_run", str(number)])
    accum_run.main()


def read(path):
    return json.loads(path.read_text())


@pytest.fixture
def task(folder, params, model_settings):
    return accum.Task(
        accumulation=1,
        sweep=read_section(params, "accum_sweep", AccumSettings),
        model=model_settings,
        train=read_section(params, "train", TrainSettings),
        pad_id=2,
        embedding="data/vocab/embedding.safetensors",
        tokens="data/tokens",
        device="cpu",
        threads=1,
        log_every_s=5.0,
    )


def test_runs_and_their_merge(folder, monkeypatch):
    run_stage(monkeypatch, 1)  # in a process of its own
    monkeypatch.setattr(measure, "in_own_process", lambda function, task: function(task))
    run_stage(monkeypatch, 2)
    one, two = (read(folder / f"data/accum/{number}.json") for number in (1, 2))
    assert one["held_out"][0] == two["held_out"][0]  # the same initial weights
    assert one["tokens"] == two["tokens"] == two["budget_tokens"] <= 300  # the same mini-batches
    assert one["updates"] == 2 * two["updates"]
    assert [point[:2] for point in two["curve"]] == [
        [2 * n, n] for n in range(1, two["updates"] + 1)
    ]
    assert two["updates"] in [point[1] for point in one["held_out"]]

    accum_sweep.main()
    merged = read(folder / "data/figures/accum_sweep.json")
    update = merged["equal_updates"]
    assert update == two["updates"]
    rows = merged["settings"]
    assert rows["1"]["held_out_loss_at_equal_tokens"] == one["held_out"][-1][3]
    assert rows["1"]["held_out_loss_at_equal_updates"] == next(
        p[3] for p in one["held_out"] if p[1] == update
    )
    assert rows["2"]["held_out_loss_at_equal_updates"] == rows["2"]["held_out_loss_at_equal_tokens"]
    assert rows["1"]["tokens_at_equal_updates"] < rows["2"]["tokens_at_equal_updates"]
    times = read(folder / "metrics/accum_sweep_time.json")
    one = times["settings"]["1"]
    assert set(one) == {*measure.with_spread(accum.TIMES), "peak_mib", "process_mib"}
    assert 0 < one["low_epoch_s"] <= one["epoch_s"] <= one["high_epoch_s"]
    assert times["not_measured"] == []
    for name, axis, column in (
        ("micro_steps", "micro_step", 0),
        ("updates", "update", 1),
        ("tokens", "tokens", 2),
    ):
        table = list(csv.DictReader((folder / f"plots/accum_{name}.csv").open()))
        mine = [int(row[axis]) for row in table if row["series"] == "accumulation 2"]
        assert mine == [point[column] for point in two["curve"]]


@pytest.mark.parametrize("count", [3, None, 10_000])
def test_only_the_first_stories_are_trained_on(folder, count):
    whole = TokenStore("data/tokens", "train")
    store = accum.first_stories(TokenStore("data/tokens", "train"), count)
    kept = len(whole) if count is None else min(count, len(whole))
    assert len(store) == kept
    assert len(store.ids) == whole.offsets[kept]
    assert all((store.story(i) == whole.story(i)).all() for i in range(kept))


def test_a_trial_trains_every_setting_on_the_same_mini_batches(task, monkeypatch):
    seen = {1: [], 2: []}
    for number, updates in seen.items():
        monkeypatch.setattr(
            accum.Trainer, "update", lambda self, batches, to=updates: to.append(batches)
        )
        found = accum.time_task(accum.dataclasses.replace(task, accumulation=number))
        assert found["epoch_s"] > 0 < found["tokens_per_s"]
    kept = {
        number: [batch.inputs.tolist() for update in updates[1:] for batch in update]
        for number, updates in seen.items()
    }
    assert [len(update) for update in seen[2]] == [2] * (
        accum.TRIAL_UPDATES + 1
    )  # one is the warm-up
    assert kept[1] == kept[2]


def test_accumulation_adds_no_memory(task):
    settings = accum.run_settings(task, 3, 300)
    store = TokenStore("data/tokens", "train")
    peaks = []
    for number in (1, 8):
        model = accum.fresh_model(task)
        batches = TrainBatches(store, "stories", 6, 16, 2, 1)
        chosen = accum.dataclasses.replace(settings, accumulation=number)
        peaks.append(
            accum.update_peak_mib(accum.Trainer(model, batches, chosen), model.embedding.device)
        )
    assert peaks[1] == pytest.approx(peaks[0], rel=0.05)


def test_the_plan_fits_the_budget_and_no_further_update_would(task):
    batches = TrainBatches(TokenStore("data/tokens", "train"), "stories", 3, 16, 2, 1)
    updates, tokens = accum.plan(batches, task.sweep)
    counts = [batches.batch(index).tokens for index in range(2 * updates + 2)]
    assert tokens == sum(counts[:-2]) <= 300 < sum(counts)


def test_the_sweep_overrides_what_it_names_and_nothing_else(task):
    settings = accum.run_settings(accum.dataclasses.replace(task, accumulation=2), 4, 280)
    assert (
        settings.accumulation,
        settings.batch_size,
        settings.tokens,
        settings.validate_every,
    ) == (2, 3, 280, 4)
    assert settings.patience is None
    assert settings.lr == task.train.lr


def test_a_budget_below_one_update_is_bad_input(task):
    small = accum.dataclasses.replace(task.sweep, tokens=20)
    batches = TrainBatches(TokenStore("data/tokens", "train"), "stories", 3, 16, 2, 1)
    with pytest.raises(InputError, match=r"accum_sweep\.tokens"):
        accum.plan(batches, small)


def test_a_setting_that_dies_is_recorded_and_the_sweep_goes_on(folder, inline, monkeypatch):
    run_stage(monkeypatch, 1)
    with monkeypatch.context() as dying:
        dying.setattr(measure, "in_own_process", lambda *_: {"error": "oom"})
        run_stage(monkeypatch, 2)
    accum_sweep.main()
    assert list(read(folder / "data/figures/accum_sweep.json")["settings"]) == ["1"]
    times = read(folder / "metrics/accum_sweep_time.json")
    assert times["not_measured"] == [
        {"setting": "accumulation 2", "figure": "all", "reason": "oom"}
    ]


def test_a_killed_run_is_no_result(folder, monkeypatch):
    monkeypatch.setattr(measure, "in_own_process", lambda *_: {"error": measure.KILLED})
    with pytest.raises(CommandFailed, match="accumulation 2: its process was killed"):
        run_stage(monkeypatch, 2)
    assert not (folder / "data/accum/2.json").exists()


def test_settings_that_end_at_other_tokens_are_refused():
    known = {"batch_size": 2, "stories": None, "tokens": 100, "held_out_batches": 1}
    assert AccumSettings(settings=(1, 2, 8), **known).problems() == []
    assert AccumSettings(settings=(3, 4), **known).problems() == [
        "settings = [3, 4]; allowed: numbers that divide the largest, 4"
    ]
