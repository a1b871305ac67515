import dataclasses

import pytest
import torch

from stages import accum_sweep
from tinylm.base.config import InputError, read_section
from tinylm.base.files import read_json
from tinylm.bench import accum, measure
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import CommandFailed
from tinylm.host.runtime import RuntimeSettings
from tinylm.train.settings import TrainSettings
from tinylm.vocab.batches import TrainBatches
from tinylm.vocab.token_store import TokenStore


@pytest.fixture
def task(folder, params, model_settings):
    return accum.Task(
        accumulation=1,
        sweep=read_section(params, "accum_sweep", AccumSettings),
        model=dataclasses.replace(model_settings, context=8),
        train=read_section(params, "train", TrainSettings),
        runtime=read_section(params, "runtime", RuntimeSettings),
        pad_id=2,
    )


def mini_batches(rows, context=8):
    return TrainBatches(TokenStore("data/tokens", "train"), "stories", rows, context, 2, 1)


def test_settings_are_compared_at_equal_tokens_and_at_equal_updates(folder, inline, task, results):
    one, two = (
        accum.train_setting(dataclasses.replace(task, accumulation=number)) for number in (1, 2)
    )
    assert one["held_out"][0] == two["held_out"][0]  # the same initial weights
    ends = [run["curve"][-1][1] for run in (one, two)]
    assert ends == [two["budget_tokens"]] * 2  # the same mini-batches
    assert two["budget_tokens"] <= 300
    assert one["updates"] == 2 * two["updates"]
    assert [point[0] for point in two["curve"]] == list(range(1, two["updates"] + 1))

    accum_sweep.main()
    merged, times = results("accum_sweep")
    update = merged["equal_updates"]
    assert update == two["updates"]
    first, second = (merged["settings"][number] for number in "12")
    loss_at = {update: nats for update, _, nats in one["held_out"]}
    assert first["held_out_loss_at_equal_tokens"] == one["held_out"][-1][2]
    assert first["held_out_loss_at_equal_updates"] == loss_at[update]
    assert second["held_out_loss_at_equal_updates"] == second["held_out_loss_at_equal_tokens"]
    assert times["not_measured"] == []
    cost = times["settings"]["2"]
    shown = read_json(folder / "metrics/accum/2.json")
    assert shown == {name: cost[name] for name in ("epoch_s", "peak_mib")}
    axes = accum.curves({2: two})
    update, tokens, nats = two["curve"][-1]
    ends = [(name, *rows[-1]) for name, rows in axes.items()]
    places = {"micro_step": 2 * update, "update": update, "tokens": tokens}
    assert ends == [(name, x, "accumulation 2", nats) for name, x in places.items()]


@pytest.mark.parametrize("count", [3, None, 10_000])
def test_only_the_first_stories_are_trained_on(folder, count):
    whole = TokenStore("data/tokens", "train")
    store = accum.first_stories(TokenStore("data/tokens", "train"), count)
    kept = len(whole) if count is None else min(count, len(whole))
    assert len(store) == kept
    assert store.ids.tolist() == whole.ids[: whole.offsets[kept]].tolist()


def test_accumulation_adds_no_memory(task, model_settings):
    task = dataclasses.replace(task, model=model_settings)
    batches = mini_batches(6, model_settings.context)
    settings = accum.run_settings(task, 3, 300)
    peaks = []
    for number in (1, 8):
        chosen = dataclasses.replace(settings, accumulation=number)
        trainer = accum.Trainer(accum.fresh(task).model, batches, chosen)
        peaks.append(accum.update_peak_mib(trainer, trainer.model.embedding.device))
    assert peaks[1] == pytest.approx(peaks[0], rel=0.05)


def test_the_plan_fits_the_budget_and_no_further_update_would(task):
    batches = mini_batches(3)
    updates, tokens = accum.plan_budget(batches, task.sweep)
    counts = [batches.batch(index).tokens for index in range(2 * updates + 2)]
    assert tokens == sum(counts[:-2]) <= 300 < sum(counts)
    with pytest.raises(InputError, match=r"accum_sweep\.tokens"):
        accum.plan_budget(batches, dataclasses.replace(task.sweep, tokens=20))


def test_the_sweep_overrides_what_it_names_and_nothing_else(task):
    settings = accum.run_settings(dataclasses.replace(task, accumulation=2), 4, 280)
    named = {"accumulation": 2, "batch_size": 3, "tokens": 280, "validate_every": 4}
    absent = {"epochs": None, "patience": None, "keep_epochs": ()}
    expected = dataclasses.replace(task.train, **named, **absent, processes=1)
    assert settings == expected.resolved(torch.device("cpu"))


def test_a_setting_without_memory_is_recorded_and_a_killed_one_is_no_result(
    folder, inline, monkeypatch, results
):
    def failing(reason):
        def run(function, tasks, together):
            return iter([function(tasks[0]), {"error": reason}])

        return run

    monkeypatch.setattr(measure, "in_own_processes", failing("its process was killed"))
    with pytest.raises(CommandFailed):
        accum_sweep.main()
    assert not (folder / "data/figures/accum_sweep.json").exists()
    monkeypatch.setattr(measure, "in_own_processes", failing(measure.OOM))
    accum_sweep.main()
    merged, times = results("accum_sweep")
    assert list(merged["settings"]) == ["1"]
    (failed,) = times["not_measured"]
    assert (failed["setting"], failed["reason"]) == ("accumulation 2", "oom")


def test_settings_that_end_at_other_tokens_are_refused():
    known = {"batch_size": 2, "stories": None, "tokens": 100}
    assert AccumSettings(settings=(1, 2, 8), **known).problems() == []
    assert len(AccumSettings(settings=(3, 4), **known).problems()) == 1
