"""Data parallel training: several processes of one run (ranks) on one host, started by torchrun.

Every rank holds the whole model and takes its share of the rows of each mini-batch. Its loss is
divided by the tokens of all ranks, and gradients are summed. So any number of ranks computes the
same gradient, that of the mean over all tokens. Decisions (the end, early stopping, a signal)
rest on numbers that are equal on all ranks. Only rank 0 writes and prints.
"""

import contextlib
import dataclasses
import datetime
import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tinylm.base.command import BAD_INPUT, FAILED, CommandFailed, Interrupted, one_line
from tinylm.base.config import InputError
from tinylm.base.files import write_json
from tinylm.base.machine import pick_device
from tinylm.base.processes import end_with_parent, exclusive_lock
from tinylm.base.seeding import derive_seed
from tinylm.vocab.batches import Batch

WAIT_S = 300  # how long a rank waits for one that does not answer
LOST = 3  # exit code of a rank that ends because another one did


class RankLost(CommandFailed):
    """Another rank has ended or does not answer."""


@contextlib.contextmanager
def _collective() -> Iterator[None]:
    """Raise RankLost if a collective fails because another rank has ended."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip()[:100]
        raise RankLost(f"another process of the run has ended: {reason}") from None


@dataclasses.dataclass(frozen=True)
class Group:
    """The rank of this process and the number of processes in its run.

    The default is a run of one process, whose methods change and send nothing.
    """

    rank: int = 0
    size: int = 1

    @property
    def is_rank0(self) -> bool:
        """Whether this rank writes and prints."""
        return self.rank == 0

    @contextlib.contextmanager
    def lock(self, folder: str) -> Iterator[None]:
        """Keep other commands from training in the folder. Raises InputError if one does."""
        with exclusive_lock(f"{folder}.lock", "training") if self.is_rank0 else nullcontext():
            yield

    def device(self, name: str) -> torch.device:
        """Like `pick_device`, but ranks take several CUDA devices in turn."""
        device: torch.device = pick_device(name)
        if device.type == "cuda" and self.size > 1:
            torch.cuda.set_device(self.rank % torch.cuda.device_count())
        return device

    def share(self, batches: list[Batch]) -> list[Batch]:
        """This rank's rows of each mini-batch, every size-th one; empty batches are left out."""
        if self.size == 1:
            return batches
        shares = [batch.rows(self.rank, self.size) for batch in batches]
        return [share for share in shares if len(share.inputs)]

    def seed_dropout(self, seed: int, update: int) -> None:
        """Seed dropout for an update: each rank draws its own numbers."""
        if self.size > 1:
            torch.manual_seed(derive_seed(seed, "dropout", update, self.rank))

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace every gradient by the sum over all ranks; a missing gradient counts as zero."""
        if self.size == 1:
            return
        parameters = list(parameters)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = parameters_to_vector(gradients)  # one transfer instead of one for each tensor
        with _collective():
            dist.all_reduce(flat)
        vector_to_parameters(flat, gradients)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient

    def gather(self, *values: float) -> Tensor:
        """The values of every rank.  -> (size, values) float64, equal bits on all ranks"""
        mine = torch.tensor(values, dtype=torch.float64, device="cpu")
        if self.size == 1:
            return mine[None]
        gathered = [torch.empty_like(mine) for _ in range(self.size)]
        with _collective():
            dist.all_gather(gathered, mine)
        return torch.stack(gathered)

    def wait(self) -> None:
        """Wait until every rank has called this."""
        self.gather(0.0)

    def summed_loss(
        self, score: Callable[[Iterable[Batch]], tuple[float, int]], batches: Iterable[Batch]
    ) -> tuple[float, int]:
        """(nats, tokens) of `score` over all batches; each rank scores every size-th batch."""
        if self.size == 1:
            return score(batches)
        share = list(itertools.islice(batches, self.rank, None, self.size))
        # rank 0 scores even without a batch, since `score` raises an error for an empty split
        mine = score(share) if share or self.is_rank0 else (0.0, 0)
        nats, tokens = self.gather(*mine).sum(0).tolist()
        return nats, int(tokens)


def is_rank() -> bool:
    """Whether torchrun started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def start_ranks(processes: int, command: list[str]) -> None:
    """Run a command, such as ["-m", "stages.train"], in several processes.

    Raises the error that ended it.
    """
    from torch.distributed import run  # slow, and rarely needed
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.disable(logging.CRITICAL)  # torchrun's messages; the ranks log in their own processes
    sys.stdout.flush()
    words = ["--standalone", "--nproc-per-node", str(processes), *command]
    try:
        run.run(run.parse_args(words))
    except SignalException as error:
        sys.exit(128 + error.sigval)  # rank 0 has printed how far it got
    except ChildFailedError as error:
        first = _cause(list(error.failures.values()))
        gave_no_reason = first.exitcode > 0 and not os.path.isfile(first.error_file)
        if gave_no_reason or first.exitcode > 128:
            sys.exit(first.exitcode)  # the rank has printed why, or how far it got
        text = f"rank {first.local_rank}: {first.message}"
        raise InputError(text) if first.exitcode == BAD_INPUT else CommandFailed(text) from None


def _cause(failures: Sequence[Any]) -> Any:
    """The failure that ended the others: torchrun stops the ranks that are left with SIGTERM."""

    def order(failure: Any) -> tuple[bool, bool, int]:
        is_stopped = failure.exitcode in (128 + signal.SIGTERM, -signal.SIGTERM)
        return failure.exitcode == LOST, is_stopped, failure.timestamp

    return min(failures, key=order)


@contextlib.contextmanager
def joined_group() -> Iterator[Group]:
    """The group of this process, which is a group of its own unless `is_rank()`.

    If the block fails in a rank, the process ends, and torchrun is given the reason.
    """
    if not is_rank():
        yield Group()
        return
    group = Group(rank=int(os.environ["RANK"]), size=int(os.environ["WORLD_SIZE"]))
    end_with_parent(signal.SIGKILL)  # no rank outlives torchrun
    if not group.is_rank0:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (rank 0 prints)
    try:
        with _connected(group):
            yield group
    except BaseException as error:
        for number in (signal.SIGINT, signal.SIGTERM):  # torchrun ends all ranks if one has failed
            signal.signal(number, signal.SIG_IGN)
        code = _leave_reason(error, group)
        sys.stdout.flush()
        os._exit(code)  # an ordinary exit waits for ranks that may have ended


@contextlib.contextmanager
def _connected(group: Group) -> Iterator[None]:
    """Connect the ranks by gloo, and CUDA tensors by NCCL if each rank has its own device."""
    backend = "gloo"
    if dist.is_nccl_available() and group.size <= torch.cuda.device_count():
        backend = "cpu:gloo,cuda:nccl"
    try:
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=WAIT_S))
    except RuntimeError as error:  # such as an interface that GLOO_SOCKET_IFNAME misspells
        raise CommandFailed(f"the processes cannot connect: {one_line(error)}") from None
    yield
    group.wait()  # rank 0 may still be writing
    dist.destroy_process_group()


def _leave_reason(error: BaseException, group: Group) -> int:
    """Write the error to the file that torchrun reads; returns the exit code."""
    text = str(error) if isinstance(error, InputError | Interrupted) else one_line(error)
    path = os.environ["TORCHELASTIC_ERROR_FILE"]
    write_json(path, {"message": text, "timestamp": int(time.time())})
    if isinstance(error, Interrupted) and group.is_rank0:
        print(text, file=sys.stderr)
    if isinstance(error, RankLost):
        return LOST
    if isinstance(error, Interrupted | KeyboardInterrupt):
        return 128 + getattr(error, "number", signal.SIGINT)
    return BAD_INPUT if isinstance(error, InputError) else FAILED
