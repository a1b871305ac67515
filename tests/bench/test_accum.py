import dataclasses
import itertools

import numpy as np
import pytest
import torch

from stages import accum_sweep
from tests.bench.conftest import results
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError
from tinylm.bench import accum, training, trials
from tinylm.bench.settings import AccumSettings
from tinylm.run.benches import AccumulatedRun
from tinylm.train.trainer import Trainer
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore, write_store


@pytest.fixture
def tasks_of(params):
    """The tasks of the sweep, with these values of its section."""
    tokenizer = open_tokenizer("data/vocab/tokenizer.json")

    def tasks(**changed):
        sweep = dataclasses.replace(params.accum_sweep, **changed)
        return accum.make_tasks(sweep, params.model, params.train, tokenizer, params.runtime)

    return tasks


@pytest.mark.parametrize("count", [3, None, 10_000])
def test_only_the_first_stories_are_trained_on(folder, count):
    whole = TokenStore("data/tokens", "train")
    store = training.train_store(count)
    kept = len(whole) if count is None else min(count, len(whole))
    assert len(store) == kept
    assert store.ids.tolist() == whole.ids[: whole.offsets[kept]].tolist()


def test_two_mini_batches_have_the_gradient_of_one_batch_with_their_rows(tasks_of, monkeypatch):
    (task, _) = tasks_of()
    assert 0 <= accum.gradient_difference(task) < 1e-5
    dropping = dataclasses.replace(task, model=dataclasses.replace(task.model, dropout=0.5))
    assert accum.gradient_difference(dropping) < 1e-5

    def last_only(model, batches, precision):
        model.loss(batches[-1].inputs, batches[-1].targets).backward()

    monkeypatch.setattr(accum, "accumulate_gradients", last_only)
    assert accum.gradient_difference(task) > 0.01


def test_accumulation_adds_no_memory(tasks_of):
    peaks = []
    for task in tasks_of(settings=(1, 8), batch_size=6, tokens=1600):
        run = training.new_training_run(task)
        peaks.append(training.update_peak_mib(Trainer(run.model, run.batches, run.settings)))
    assert peaks[1] == pytest.approx(peaks[0], rel=0.05)


def test_the_plan_is_the_most_updates_of_the_batches_trained_on_that_fit_a_budget(tasks_of):
    lengths = np.random.default_rng(1).integers(3, 30, 72)  # unequal, so that the order counts
    write_store("data/tokens", "train", [[4] * length for length in lengths], vocab_size=40)
    batches = training.new_training_run(tasks_of()[-1]).batches
    ends = [batches.tokens_of(2 * updates) for updates in range(1, 9)]
    for updates, (end, next_end) in enumerate(itertools.pairwise(ends), start=1):
        for tokens in (end, next_end - 1):
            planned = {task.mini_batches for task in tasks_of(tokens=tokens)}
            assert planned == {2 * updates}
    with pytest.raises(InputError, match=r"accum_sweep\.tokens"):
        tasks_of(tokens=ends[0] - 1)


def test_losses_are_compared_at_equal_tokens_and_at_equal_updates():
    known = {
        "times": training.TrainingTimes(tokens_per_s=9.0, update_s=1.0, epoch_s=2.0),
        "weights": "a",
        "texts": [],
        "peak_mib": 1.0,
    }
    runs = {
        1: training.TrainingMeasurement(
            held_out=[(0, 0, 9.0), (2, 20, 3.0), (4, 40, 2.0)],
            curve=[(4, 40, 2.5)],
            updates=4,
            **known,
        ),
        2: training.TrainingMeasurement(
            held_out=[(0, 0, 9.0), (2, 40, 2.5)], curve=[(2, 40, 2.6)], updates=2, **known
        ),
    }
    found = accum.results_of(
        accum.AccumResult(
            runs=runs,
            not_measured=[],
            row_tokens=8,
            bleu={1: None, 2: 0.5},
            gradient_difference=0.0,
        )
    )
    assert found.equal_updates == 2
    assert found.settings == {
        1: AccumulatedRun(4, held_out_loss_at_equal_tokens=2.0, held_out_loss_at_equal_updates=3.0),
        2: AccumulatedRun(2, 2.5, 2.5, bleu=0.5),
    }


def test_validations_are_over_the_held_out_stories(tasks_of):
    (task, _) = tasks_of()
    _, _, first = training.measure(task).held_out[0]
    model = training.new_training_run(task).model.eval()
    store = TokenStore("data/tokens", "held_out")
    losses = []
    for number in range(len(store)):
        ids = torch.tensor(store.story(number)[None], dtype=torch.long)
        losses += model.token_loss(ids[:, :-1], ids[:, 1:])[0].tolist()
    assert first == pytest.approx(np.mean(losses), rel=1e-4)


def test_a_setting_without_memory_is_recorded_and_a_killed_one_is_no_result(
    folder, inline, monkeypatch
):
    def failing(reason):
        def run(function, tasks, together):
            return iter([function(tasks[0]), trials.Failure(reason)])

        return run

    (folder / "data/figures/accum_sweep.json").unlink()
    monkeypatch.setattr(trials, "in_own_processes", failing("its process was killed"))
    with pytest.raises(CommandFailed):
        accum_sweep.main()
    assert not (folder / "data/figures/accum_sweep.json").exists()
    monkeypatch.setattr(trials, "in_own_processes", failing(trials.OOM))
    accum_sweep.main()
    merged, times = results(folder, "accum_sweep")
    assert list(merged["settings"]) == ["1"]
    (failed,) = times["not_measured"]
    assert (failed["setting"], failed["reason"]) == ("accumulation 2", "oom")


def test_settings_that_end_at_other_tokens_are_refused():
    known = {"batch_size": 2, "stories": None, "tokens": 100}
    assert AccumSettings(settings=(1, 2, 8), **known).problems() == []
    assert len(AccumSettings(settings=(3, 4), **known).problems()) == 1
