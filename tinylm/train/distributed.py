"""Data parallel training: what the processes of one run (ranks) exchange, by torch.distributed's collectives.

Every rank holds the whole model and takes its share of the rows of each mini-batch. Its loss is divided by the tokens
of all ranks, and gradients are summed, so N ranks compute what one does, however ragged the batch: the gradient
of the mean over all tokens. Every decision (the end, early stopping, a signal) is made from figures that are equal on
all ranks; rank 0 alone writes and prints.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import pick_device
from tinylm.base.seeding import derive_seed
from tinylm.host.command import CommandFailed, is_out_of_memory
from tinylm.train.arithmetic import PREFIX
from tinylm.vocab.batches import Batch


class RankLost(CommandFailed):
    """Another rank ended or does not answer. kept: what the run has saved, in words."""

    def __init__(self, message: str, kept: str = "") -> None:
        super().__init__(message)
        self.kept = kept


@contextlib.contextmanager
def _collective() -> Iterator[None]:
    """Raise RankLost if a collective fails because another rank has ended."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise RankLost(str(error).strip().partition("\n")[0][:200]) from None


@dataclasses.dataclass(frozen=True)
class Group:
    """This process among those of its run; by default a run of one process, for which no method here has any effect."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among those of this host
    local_size: int = 1

    @property
    def is_rank0(self) -> bool:
        """Whether this is the rank that writes and prints."""
        return self.rank == 0

    def threads(self, of_host: int) -> int:
        """This rank's share of the host's threads, at least 1."""
        return max(1, of_host // self.local_size)

    def device(self, name: str) -> torch.device:
        """As `pick_device`, but each rank gets its own CUDA device. Raises InputError if there are too few."""
        device: torch.device = pick_device(name)
        if device.type == "cuda" and self.size > 1:
            cards = torch.cuda.device_count()
            if self.local_size > cards:
                raise InputError(
                    f"{PARAMS_FILE}: train.processes: {self.local_size} on this host; allowed: at most {cards}, its "
                    "CUDA devices, or runtime.device = 'cpu'"
                )
            torch.cuda.set_device(self.local_rank)
        return device

    def share(self, batches: list[Batch]) -> list[Batch]:
        """This rank's rows of each mini-batch, every size-th; a mini-batch without a row for it is left out."""
        if self.size == 1:
            return batches
        shares = []
        for batch in batches:
            inputs, targets = (
                rows[self.rank :: self.size].contiguous() for rows in (batch.inputs, batch.targets)
            )
            if len(inputs):
                shares.append(Batch(inputs, targets, int((targets >= 0).sum())))
        return shares

    def seed_dropout(self, seed: int, update: int) -> None:
        """Seed dropout for an update: each rank draws its own numbers, and no snapshot has to store their state."""
        if self.size > 1:
            torch.manual_seed(derive_seed(seed, "dropout", update, self.rank))

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace every parameter's gradient by the sum of all ranks' gradients; a missing one counts as zeros."""
        if self.size == 1:
            return
        parameters = list(parameters)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = parameters_to_vector(
            gradients
        )  # one transfer: each small tensor would need its own round
        with _collective():
            dist.all_reduce(flat)
        vector_to_parameters(flat, gradients)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient

    def _gathered(self, values: list[float]) -> Tensor:
        """The values of every rank.  -> (size, values) float64, equal bits on all ranks"""
        own = torch.tensor(values, dtype=torch.float64)
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        with _collective():
            dist.all_gather(gathered, own)
        return torch.stack(gathered)

    def total(self, *values: float) -> list[float]:
        """The sum of each value over all ranks, in their order."""
        return list(values) if self.size == 1 else self._gathered(list(values)).sum(0).tolist()

    def largest(self, value: int) -> int:
        """The largest of all ranks' values."""
        return value if self.size == 1 else int(self._gathered([value]).max())

    def summed_loss(
        self, score: Callable[[Iterable[Batch]], tuple[float, int]], batches: Iterable[Batch]
    ) -> tuple[float, int]:
        """(nats, tokens) of `score` over all batches, every rank scoring each size-th batch."""
        if self.size == 1:
            return score(batches)
        share = itertools.islice(batches, self.rank, None, self.size)
        first = list(
            itertools.islice(share, 1)
        )  # rank 0 calls `score` even without a batch: it refuses an empty split
        nats, tokens = self.total(
            *(score(itertools.chain(first, share)) if first or self.is_rank0 else (0.0, 0))
        )
        return nats, int(tokens)

    def align(self, tensors: Mapping[str, Tensor]) -> bool:
        """Give every rank the tensors of rank 0 if any rank's weights differ; returns whether any did.

        On equal processors they never differ. Other processors may round matrix products differently.
        """
        if self.size == 1:
            return False
        weights = [tensor for name, tensor in tensors.items() if name.startswith("model.")]
        sums = [
            float(w.detach().view(torch.int32).sum() % (1 << 52))
            for w in weights
            if w.element_size() == 4
        ]
        gathered = self._gathered(sums)
        if bool((gathered == gathered[0]).all()):
            return False
        with _collective():
            for name in sorted(tensors):
                if not name.startswith("random."):
                    dist.broadcast(tensors[name], 0)
        return True

    def _broadcast(self, value: Any) -> Any:
        """Rank 0's value, which must be picklable, on every rank."""
        values = [value]
        with _collective():
            dist.broadcast_object_list(values, 0)
        return values[0]

    def from_rank0(
        self, snapshot: tuple[dict[str, Tensor], dict[str, Any]] | None
    ) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Rank 0's snapshot, or None if it has none, on every rank."""
        if self.size == 1:
            return snapshot
        tensors, numbers = snapshot or ({}, None)
        shapes, numbers = self._broadcast(
            ({name: (t.shape, t.dtype) for name, t in tensors.items()}, numbers)
        )
        if numbers is None:
            return None
        if not self.is_rank0:
            tensors = {
                name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in shapes.items()
            }
        with _collective():
            for tensor in tensors.values():
                dist.broadcast(tensor, 0)
        return tensors, numbers

    def together(self, kind: Mapping[str, Any]) -> dict[str, Any]:
        """This rank's kind of arithmetic, with that of all ranks as one number if there are several."""
        if self.size == 1:
            return dict(kind)
        own = hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).digest()
        every = self._gathered([float(int.from_bytes(own[:6], "big"))])
        return {**kind, f"{PREFIX}ranks": hashlib.sha256(every.numpy().tobytes()).hexdigest()[:12]}

    def check_same(self, parts: Mapping[str, Any]) -> None:
        """InputError if this rank was started with other settings, data, code or torch than rank 0."""
        if self.size == 1:
            return
        own = {**parts, "torch": str(torch.__version__)}
        rank0 = self._broadcast(own)
        differing = [key for key in {**rank0, **own} if rank0.get(key) != own.get(key)]
        if differing:
            raise InputError(
                f"{', '.join(differing[:3])} differs from rank 0's on {socket.gethostname()}; every host needs the "
                f"same {PARAMS_FILE}, data, code and versions"
            )

    def wait(self) -> None:
        """Return when every rank has reached this call."""
        self.total(0.0)
