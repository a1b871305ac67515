"""Two halves of the threads with half of the rows each."""

import threading
import time

import pytest
import torch

from tests.support.small import needs_compiler
from tinylm.model.transformer import block_matrices
from tinylm.train import halves
from tinylm.train.halves import Halves, Together
from tinylm.train.trainer import Trainer, accumulate_gradients
from tinylm.vocab.batches import Batch

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def new_trainer(new_model, new_settings, new_batches):
    def make(dropout: float = 0.0, **changes):
        settings = new_settings(precision="bf16", **changes)
        return Trainer(new_model(settings, dropout=dropout), new_batches(), settings)

    return make


def found(model):
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("tied", [False, True])
def test_halves_give_the_gradient_of_the_whole(new_model, new_settings, ragged, tied):
    models = [
        new_model(new_settings(precision="bf16"), tied_output=tied, dropout=0.0) for _ in "ab"
    ]
    total = sum(batch.tokens for batch in ragged)
    nats = [
        workers(model, accumulate_gradients).gradients(ragged, "bf16", total)
        for workers, model in zip((Halves, Together), models)
    ]
    assert nats[0] == pytest.approx(nats[1], rel=1e-5)
    for (name, half), whole in zip(
        found(models[0]).items(), found(models[1]).values(), strict=True
    ):
        assert not half.is_sparse
        assert (half - whole).norm() <= 0.01 * whole.norm() + 1e-7, name


def test_a_batch_of_one_row_is_the_first_halfs(new_model, new_settings, ragged):
    row = Batch(
        ragged[0].inputs[:1], ragged[0].targets[:1], int((ragged[0].targets[:1] >= 0).sum())
    )
    models = [new_model(new_settings(precision="bf16"), dropout=0.0) for _ in "ab"]
    nats = Halves(models[0], accumulate_gradients).gradients([row], "bf16", row.tokens)
    assert nats == accumulate_gradients(models[1], [row], "bf16")[0]
    for half, whole in zip(found(models[0]).values(), found(models[1]).values(), strict=True):
        assert torch.equal(half, whole)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_no_bit_depends_on_which_half_is_faster(new_trainer, optimizer):
    def trained(slow: str | None):
        torch.manual_seed(3)
        trainer = new_trainer(dropout=0.2, optimizer=optimizer, clip_norm=0.1)
        assert isinstance(trainer.workers, Halves)

        def at_its_pace(*args):
            if slow == (
                "first" if threading.current_thread() is threading.main_thread() else "second"
            ):
                time.sleep(0.01)
            return accumulate_gradients(*args)

        trainer.workers.accumulate = at_its_pace
        losses = [trainer.update(trainer.next_batches())[0] for _ in range(4)]
        return losses, [p.detach().clone() for p in trainer.model.parameters()]

    expected = trained(None)
    for slow in ("first", "second"):
        losses, weights = trained(slow)
        assert losses == expected[0]
        assert all(map(torch.equal, weights, expected[1]))


def test_the_halves_draw_different_dropout_and_leave_torchs_generator_alike(new_trainer):
    trainer = new_trainer(dropout=0.5)
    row = trainer.next_batches()[0]
    twice = Batch(row.inputs[:1].repeat(2, 1), row.targets[:1].repeat(2, 1), 0)
    parts = halves._in_two(twice)
    assert torch.equal(parts[0].inputs, parts[1].inputs)
    seen, of_half = [], []

    def noted(*args):
        of_half.append(accumulate_gradients(*args)[0])
        return of_half[-1], 0

    trainer.workers.accumulate = noted
    state = torch.get_rng_state()
    for _ in range(2):
        torch.set_rng_state(state)
        trainer.model.zero_grad()
        seen.append((trainer.workers.gradients([twice], "bf16", 10), torch.get_rng_state()))
    assert seen[0][0] == seen[1][0]
    assert torch.equal(seen[0][1], seen[1][1])
    assert not torch.equal(seen[0][1], state)
    assert len(set(of_half)) == 2  # of equal rows, the same two each time


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_in_a_half_is_raised_when_both_have_ended(new_trainer, failing):
    trainer = new_trainer()
    ended = []

    def fails(model, *others):
        if model is trainer.workers.twins[failing]:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        time.sleep(0.05)
        ended.append(model)
        return accumulate_gradients(model, *others)

    trainer.workers.accumulate = fails
    with pytest.raises(RuntimeError, match="allocate memory"):
        trainer.update(trainer.next_batches())
    assert len(ended) == 1
    assert torch.get_num_threads() == 2
    trainer.workers.accumulate = accumulate_gradients
    assert trainer.update(trainer.next_batches())[0] > 0


def test_parts_are_all_done_once_with_their_results_in_order(new_model, new_settings):
    both, done = Halves(new_model(new_settings(precision="bf16")), accumulate_gradients), []

    def part(number):
        time.sleep(0.001)
        done.append((number, threading.get_ident()))
        return -number

    results = both.do([lambda number=number: part(number) for number in range(50)])
    assert results == [-number for number in range(50)]
    assert sorted(number for number, _ in done) == list(range(50))
    assert len({thread for _, thread in done}) == 2
    with pytest.raises(ZeroDivisionError):
        both.do([lambda: 1 // 0, lambda: 1])


def test_the_twins_share_all_weights_but_the_blocks_matrices(new_trainer):
    trainer = new_trainer(optimizer="muon")
    trainer.update(trainer.next_batches())
    first, second = trainer.workers.twins
    matrices = block_matrices(trainer.model)
    for (name, mine), *theirs in zip(
        trainer.model.named_parameters(), first.parameters(), second.parameters()
    ):
        assert theirs[0].data_ptr() == theirs[1].data_ptr()
        assert all(its.grad is None for its in theirs)
        assert (theirs[0].data_ptr() == mine.data_ptr()) == (name not in matrices)
        assert theirs[0].dtype == (torch.bfloat16 if name in matrices else torch.float32)
        assert mine.grad.dtype == torch.float32
    assert first.ops.low_weight is second.ops.low_weight
    assert trainer.model.ops.low_weight is None


@pytest.mark.parametrize("tied", [False, True])
def test_the_weights_in_bfloat16_are_those_of_this_update(
    new_model, new_settings, new_batches, tied
):
    settings = new_settings(precision="bf16", lr=0.1)
    trainer = Trainer(new_model(settings, tied_output=tied, dropout=0.0), new_batches(), settings)
    for _ in range(2):
        trainer.update(trainer.next_batches())
    again = Halves(trainer.model, accumulate_gradients)
    batches, seen = trainer.next_batches(), []
    for workers in (trainer.workers, again):
        trainer.model.zero_grad()
        nats = workers.gradients(batches, "bf16", 10)
        seen.append((nats, found(trainer.model), workers.twins[0].ops.low_weight))
    assert seen[0][0] == seen[1][0]
    for mine, fresh in zip(seen[0][1].values(), seen[1][1].values(), strict=True):
        assert torch.equal(mine, fresh)
    assert torch.equal(seen[0][2], seen[1][2])


def test_gradients_of_many_mini_batches_are_summed_in_float32(new_model, new_settings, ragged):
    """Hundred small parts of a sum would be lost one by one in bfloat16."""
    models = [new_model(new_settings(precision="bf16"), dropout=0.0) for _ in "ab"]
    many = [ragged[0]] * 100
    Halves(models[0], accumulate_gradients).gradients(many, "bf16", 1)
    Halves(models[1], accumulate_gradients).gradients([ragged[0]], "bf16", 1)
    for sum_of_all, one in zip(found(models[0]).values(), found(models[1]).values(), strict=True):
        torch.testing.assert_close(
            sum_of_all, 100 * one, rtol=1e-4, atol=1e-5 * float(one.abs().max())
        )


@pytest.mark.parametrize(
    "changes",
    [{"precision": "fp32"}, {"recompute": "blocks"}, {"compile": "true"}, {"attention": "torch"}],
)
def test_what_depends_on_state_of_all_threads_is_computed_together(
    new_model, new_settings, changes
):
    settings = new_settings(**({"precision": "bf16"} | changes))
    assert isinstance(halves.sharing(new_model(settings), settings, accumulate_gradients), Together)


def test_one_thread_has_no_halves(new_trainer):
    torch.set_num_threads(1)
    assert isinstance(new_trainer().workers, Together)
