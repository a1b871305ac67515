"""Gradients by several threads: those of one thread, the same bytes each time, rows left to none."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.small import needs_compiler, random_model
from tinylm.kernels.train.ops import ManualGradOps, NativeOps
from tinylm.model.ops import Ops
from tinylm.model.recompute import Checkpointing
from tinylm.train.row_threads import RowThreads
from tinylm.train.trainer import accumulate_gradients
from tinylm.vocab.batches import Batch

ROWS = 5


def gradients(
    threads: int, ops: Ops, dropout: float = 0.0, recompute: str = "none", device: str = "cpu"
):
    """Loss and gradients of two mini-batches in one vector, and the number of threads that computed it."""
    ids = torch.randint(4, 31, (ROWS, 12), generator=torch.Generator().manual_seed(3))
    batch = Batch(ids[:, :-1], ids[:, 1:], ROWS * 11)
    torch.manual_seed(1)
    model = random_model(31, 40, ops=ops, layers=3, dropout=dropout).train()
    model.run_blocks = Checkpointing(recompute)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.manual_seed(7)
    row_threads = RowThreads(model, ROWS)
    used = set()

    def accumulate(own, batches):
        used.add(id(own))
        return accumulate_gradients(own, batches, "fp32", total=2 * batch.tokens)

    with torch.device(device):
        nats = row_threads.run(accumulate, [batch, batch])
    assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    parts = [nats[None].float(), *(p.grad.flatten() for p in model.parameters())]
    return torch.cat(parts), len(used)


@pytest.mark.parametrize("threads", [2, 3, 9])
def test_the_gradient_is_that_of_one_thread(threads):
    expected, alone = gradients(1, Ops())
    got, used = gradients(threads, Ops())
    assert (alone, used) == (1, min(threads, 4))
    assert torch.allclose(got, expected, rtol=1e-4, atol=1e-6)


@needs_compiler
@settings(max_examples=60)  # more than there are combinations
@given(
    ops=st.sampled_from(
        [Ops(), ManualGradOps(), ManualGradOps(True), NativeOps(), NativeOps(True)]
    ),
    dropout=st.sampled_from([0.0, 0.3]),
    threads=st.integers(1, 4),
)
def test_gradients_are_the_same_to_the_bit_each_time(ops, dropout, threads):
    """Also with blocks that are recomputed, and whatever device new tensors are on."""
    first, used = gradients(threads, ops, dropout)
    shared = torch.get_rng_state()
    for recompute, device in (("none", "cpu"), ("blocks", "cpu"), ("none", "meta")):
        again, _ = gradients(threads, ops, dropout, recompute, device)
        assert torch.equal(first, again)
    if used > 1:  # torch's generator gave the threads' seeds, and none of them drew from it
        torch.manual_seed(7)
        torch.randint(1 << 62, (used,))
        assert torch.equal(shared, torch.get_rng_state())
    if dropout:
        assert not torch.allclose(first, gradients(threads, ops)[0])  # something was dropped


@needs_compiler
def test_rows_are_divided_where_each_thread_draws_its_own_dropout():
    assert gradients(3, NativeOps(), dropout=0.3)[1] == 3


def test_rows_stay_together_where_dropout_draws_from_one_generator():
    assert gradients(3, Ops(), dropout=0.3)[1] == 1
