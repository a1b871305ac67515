import pytest

from stages import accum_sweep
from tinylm.base.config import InputError, read_section
from tinylm.base.files import read_json
from tinylm.bench import accum, measure, training
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import CommandFailed
from tinylm.host.runtime import RuntimeSettings
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer
from tinylm.vocab.token_store import TokenStore


@pytest.fixture
def tasks_of(folder, params, model_settings):
    """The tasks of the sweep, with these values of its section."""

    def tasks(**changed):
        return accum.make_tasks(
            read_section({"accum_sweep": params["accum_sweep"] | changed}, "accum_sweep", AccumSettings),
            model_settings,
            read_section(params, "train", TrainSettings),
            pad_id=2,
            runtime=read_section(params, "runtime", RuntimeSettings),
        )  # fmt: skip

    return tasks


def test_settings_are_compared_at_equal_tokens_and_at_equal_updates(
    folder, inline, tasks_of, results
):
    one, two = (training.train_task(task) for task in tasks_of())
    assert one["held_out"][0] == two["held_out"][0]  # the same initial weights
    budget = two["curve"][-1][1]
    assert one["curve"][-1][1] == budget <= 300  # the same mini-batches
    assert one["updates"] == 2 * two["updates"]
    assert [point[0] for point in two["curve"]] == list(range(1, two["updates"] + 1))

    accum_sweep.main()
    merged, times = results("accum_sweep")
    assert merged["budget_tokens"] == budget
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
    store = training.train_store(count)
    kept = len(whole) if count is None else min(count, len(whole))
    assert len(store) == kept
    assert store.ids.tolist() == whole.ids[: whole.offsets[kept]].tolist()


def test_accumulation_adds_no_memory(tasks_of, monkeypatch):
    monkeypatch.setattr(accum, "CONTEXT", 16)
    peaks = []
    for task in tasks_of(settings=[1, 8], batch_size=6, tokens=800):
        run = training.fresh(task)
        peaks.append(training.update_peak_mib(Trainer(run.model, run.batches, run.settings)))
    assert peaks[1] == pytest.approx(peaks[0], rel=0.05)


def test_the_plan_fits_the_budget_and_no_further_update_would(tasks_of):
    task = tasks_of()[-1]
    batches = training.fresh(task).batches
    fits = training.tokens_of(batches, task.mini_batches)
    assert fits <= 300 < training.tokens_of(batches, task.mini_batches + 2)
    with pytest.raises(InputError, match=r"accum_sweep\.tokens"):
        tasks_of(tokens=20)


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
