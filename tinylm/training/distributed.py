"""Data parallel training: what the processes of one run (ranks) tell each other, by torch.distributed's collectives.

Every rank holds the whole model and takes its share of the rows of each mini-batch. Its loss is divided by the tokens
of all ranks, and gradients are summed, so that N ranks compute what one does, however ragged the batch: the gradient
of the mean over all tokens. What is decided (the end, early stopping, a signal) is decided from figures that every
rank has got alike; rank 0, which leads, alone writes and prints.
"""

import contextlib
import dataclasses
import itertools
import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.seeding import derive_seed
from tinylm.host.command import CommandFailed, is_out_of_memory
from tinylm.host.runtime import pick_device
from tinylm.text.batches import Batch

BUCKET_BYTES = 25 << 20  # of gradients that travel together: small tensors would each pay for a round of their own


class RankLost(CommandFailed):
    """Another rank is gone or silent. kept: what the run has saved since, in words."""

    def __init__(self, message: str, kept: str = "") -> None:
        super().__init__(message)
        self.kept = kept


@contextlib.contextmanager
def _together() -> Iterator[None]:
    """Turn what a collective raises when another rank is gone into RankLost."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise RankLost(str(error).strip().partition("\n")[0][:200]) from None


def _buckets(tensors: list[Tensor]) -> Iterator[list[Tensor]]:
    """The tensors in order, in runs of at most BUCKET_BYTES; a larger one is a run of its own."""
    run: list[Tensor] = []
    for tensor in tensors:
        if run and sum(other.nbytes for other in run) + tensor.nbytes > BUCKET_BYTES:
            yield run
            run = []
        run.append(tensor)
    if run:
        yield run


@dataclasses.dataclass(frozen=True)
class Group:
    """This process among those of its run; the default is a run of one, for which nothing here has any effect."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among those of this host
    local_size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the rank that writes and prints."""
        return self.rank == 0

    def threads(self, of_host: int) -> int:
        """This rank's share of the host's threads, at least 1."""
        return max(1, of_host // self.local_size)

    def device(self, name: str) -> torch.device:
        """As `pick_device`, a card of its own for every rank. Raises InputError where there are fewer cards."""
        device = pick_device(name)
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
        """This rank's rows of each mini-batch, every size-th; a mini-batch with too few rows for it is left out."""
        if self.size == 1:
            return batches
        shares = []
        for batch in batches:
            inputs, targets = (rows[self.rank :: self.size].contiguous() for rows in (batch.inputs, batch.targets))
            if len(inputs):
                shares.append(Batch(inputs, targets, int((targets >= 0).sum())))
        return shares

    def seed_dropout(self, seed: int, update: int) -> None:
        """Random numbers of this rank in this update: a stream of its own that no snapshot has to hold."""
        if self.size > 1:
            torch.manual_seed(derive_seed(seed, "dropout", update, self.rank))

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Make every parameter's gradient the sum of all ranks' in place; a missing one counts as zeros."""
        if self.size == 1:
            return
        for parameter in (parameters := list(parameters)):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        under_way = []
        with _together():
            for bucket in _buckets([parameter.grad for parameter in parameters if parameter.grad is not None]):
                flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
                under_way.append((bucket, flat, dist.all_reduce(flat, async_op=True)))
            for bucket, flat, work in under_way:
                work.wait()
                for gradient, piece in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
                    gradient.copy_(piece.view_as(gradient))

    def _gathered(self, values: list[float]) -> Tensor:
        """The values of every rank.  -> (size, values) float64, equal to the bit on all"""
        mine = torch.tensor(values, dtype=torch.float64)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        with _together():
            dist.all_gather(found, mine)
        return torch.stack(found)

    def total(self, *values: float) -> list[float]:
        """The sum of each value over all ranks, in their order."""
        return list(values) if self.size == 1 else self._gathered(list(values)).sum(0).tolist()

    def largest(self, value: int) -> int:
        """The largest of all ranks' values."""
        return value if self.size == 1 else int(self._gathered([value]).max())

    def summed_loss(
        self, score: Callable[[Iterable[Batch]], tuple[float, int]], batches: Iterable[Batch]
    ) -> tuple[float, int]:
        """(nats, tokens) of `score` over all batches, every rank scoring each size-th of them."""
        if self.size == 1:
            return score(batches)
        mine = itertools.islice(batches, self.rank, None, self.size)
        first = list(itertools.islice(mine, 1))  # the lead scores even none, and so refuses an empty split
        nats, tokens = score(itertools.chain(first, mine)) if first or self.leads else (0.0, 0)
        all_nats, all_tokens = self.total(nats, tokens)
        return all_nats, int(all_tokens)

    def align(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether some rank's tensors differed from the lead's, whose every rank has then.

        Equal processors never differ; others may round differently, where a product of matrices decides an update.
        """
        if self.size == 1:
            return False
        weights = [tensor for name, tensor in tensors.items() if name.startswith("model.")]
        sums = [float(w.detach().view(torch.int32).sum() % (1 << 52)) for w in weights if w.element_size() == 4]
        found = self._gathered(sums)
        if bool((found == found[0]).all()):
            return False
        with _together():
            for name in sorted(tensors):
                if not name.startswith("random."):
                    dist.broadcast(tensors[name], 0)
        return True

    def _told(self, value: Any) -> Any:
        """The lead's value, one that JSON holds, on every rank."""
        text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        size = torch.tensor(len(text))
        with _together():
            dist.broadcast(size, 0)
            text = text if self.leads else torch.empty(int(size), dtype=torch.uint8)
            dist.broadcast(text, 0)
        return json.loads(bytes(text.tolist()))

    def from_lead(
        self, found: tuple[dict[str, Tensor], dict[str, Any]] | None
    ) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The snapshot that the lead has found, or None, on every rank."""
        if self.size == 1:
            return found
        shapes = {name: (str(t.dtype).removeprefix("torch."), list(t.shape)) for name, t in (found or ({},))[0].items()}
        shapes, numbers = self._told((shapes, found and found[1]))
        if numbers is None:
            return None
        tensors = found[0] if found else {n: torch.empty(s, dtype=getattr(torch, d)) for n, (d, s) in shapes.items()}
        with _together():
            for name in shapes:
                dist.broadcast(tensors[name], 0)
        return tensors, numbers

    def check_same(self, parts: Mapping[str, Any]) -> None:
        """InputError where this rank was started with other settings, data, code or torch than the lead."""
        if self.size == 1:
            return
        mine = json.loads(json.dumps({**parts, "torch": str(torch.__version__)}))
        lead = self._told(mine)
        other = [key for key in {**lead, **mine} if lead.get(key) != mine.get(key)]
        if other:
            raise InputError(
                f"{', '.join(other[:3])} differs from rank 0's on {socket.gethostname()}; every host needs the same "
                f"{PARAMS_FILE}, data, code and versions"
            )

    def wait(self) -> None:
        """Return when every rank has come here."""
        self.total(0.0)
