"""Gradients by several threads: those of one thread, the same bytes each time, rows left to none."""

import pytest
import torch

from tests.support.small import needs_compiler, random_model
from tinylm.kernels.train.ops import NativeOps
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
def test_dropout_and_recomputation_give_the_same_bytes_each_time():
    first, used = gradients(3, NativeOps(), dropout=0.3)
    assert used == 3
    assert torch.equal(first, gradients(3, NativeOps(), dropout=0.3)[0])
    assert torch.equal(first, gradients(3, NativeOps(), dropout=0.3, recompute="blocks")[0])
    assert torch.equal(first, gradients(3, NativeOps(), dropout=0.3, device="meta")[0])
    assert not torch.allclose(first, gradients(3, NativeOps())[0])  # something was dropped


def test_rows_stay_together_where_dropout_draws_from_one_generator():
    assert gradients(3, Ops(), dropout=0.3)[1] == 1
