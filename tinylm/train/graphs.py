"""Updates on a CUDA card, recorded as a CUDA graph for each shape of mini-batches and replayed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tinylm.model import cuda_graph
from tinylm.model.transformer import TinyLM
from tinylm.train.distributed import Group
from tinylm.train.optimizers import clip_gradients_on_device
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer, Update, accumulate_gradients
from tinylm.vocab.batches import Batch, TrainBatches
from tinylm.vocab.prefetcher import Prefetcher

WIDTH_MULTIPLE = 64  # batches are padded to a multiple of this width, so that few graphs are needed


@dataclass(frozen=True)
class _Graph:
    """inputs, targets: (mini-batches, rows, width) on the device; `replay` reads them."""

    inputs: Tensor
    targets: Tensor
    replay: Callable[[], None]


class GraphedTrainer(Trainer):
    """The Trainer for a CUDA card: it replays updates, and a thread prepares their batches.

    An update is recorded once for each number and width of mini-batches. No update waits for the
    card. On a CPU nothing is recorded, and each replay computes the update directly; tests use this.
    """

    max_in_flight = 8  # so that the card always has work

    def __init__(self, model: TinyLM, batches: TrainBatches, settings: TrainSettings) -> None:
        super().__init__(model, batches, settings)
        self._device = model.embedding.device
        self._is_cuda = self._device.type == "cuda"
        # tokens and number of the update, learning rate of each optimizer
        count = 2 + len(self.optimizers)
        self._scalars = torch.zeros(count, dtype=torch.float32, device=self._device)
        self._results = torch.zeros(2, dtype=torch.float64, device=self._device)
        self._graphs: dict[tuple[int, int], _Graph] = {}
        self._pool: Any = None
        self._prefetcher = Prefetcher(self._padded_batches_of)

    def padded(self, batches: list[Batch]) -> list[Batch]:
        """The mini-batches of an update, padded to one shape, in pinned memory."""
        widest = max(batch.inputs.shape[1] for batch in batches)
        width = min(widest + -widest % WIDTH_MULTIPLE, self.model.settings.context)
        padded = [batch.padded(self.batches.batch_size, width) for batch in batches]
        if self._is_cuda:
            padded = [batch.pinned() for batch in padded]
        return padded

    def _padded_batches_of(self, update: int) -> list[Batch]:
        return self.padded(super().batches_of(update))

    def batches_of(self, update: int) -> list[Batch]:
        return self._prefetcher.get(update)

    def update(self, batches: list[Batch]) -> tuple[float, float, float]:
        return self.launch(self.padded(batches)).result()

    def launch(self, batches: list[Batch]) -> Update:
        """Start one update with the result of `next_batches`, without waiting for it."""
        graph = self._graph(len(batches), batches[0].inputs.shape[1])
        for index, batch in enumerate(batches):
            graph.inputs[index].copy_(batch.inputs, non_blocking=True)
            graph.targets[index].copy_(batch.targets, non_blocking=True)
        tokens = sum(batch.tokens for batch in batches)
        factor = self.learning_rate_factor(tokens)
        rates = [factor * peak for _, peak in self.optimizers]
        scalars = [float(tokens), float(self.updates + 1), *rates]
        pinned = torch.tensor(scalars, dtype=torch.float32, device="cpu", pin_memory=self._is_cuda)
        self._scalars.copy_(pinned, non_blocking=True)
        graph.replay()
        return self.record_update(tokens, factor, self._read_later())

    def _read_later(self) -> Callable[[], Any]:
        """A function that waits for this update and returns [nats, gradient norm]."""
        if not self._is_cuda:
            return self._results.clone().tolist
        copy = torch.empty(2, dtype=torch.float64, device="cpu", pin_memory=True)
        copy.copy_(self._results, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()

        def read() -> Any:
            copied.synchronize()
            return copy.tolist()

        return read

    def _graph(self, count: int, width: int) -> _Graph:
        """The graph for `count` mini-batches of this width, recorded when first needed."""
        key = (count, width)
        if key not in self._graphs:
            shape = (count, self.batches.batch_size, width)
            inputs = torch.zeros(shape, dtype=torch.int64, device=self._device)
            targets = torch.zeros_like(inputs)
            batches = [Batch(*pair, tokens=0) for pair in zip(inputs, targets, strict=True)]
            self._graphs[key] = _Graph(inputs, targets, self._record(batches))
        return self._graphs[key]

    def _record(self, batches: list[Batch]) -> Callable[[], None]:
        """A function that computes an update from the tensors of these mini-batches."""
        if not self._is_cuda:
            return lambda: self._compute(batches)
        graph = cuda_graph.record(
            lambda: self._compute(batches), lambda: self._warm_up(batches), self._pool
        )
        self._pool = self._pool or graph.pool()
        self.clear_gradients()
        replay: Callable[[], None] = graph.replay
        return replay

    def _warm_up(self, batches: list[Batch]) -> None:
        """Compute gradients only: a step would change the weights. The recording makes its own."""
        self._fresh_gradients(batches)
        self.clear_gradients()

    def _compute(self, batches: list[Batch]) -> None:
        """One update without waiting for the card: gradients, clipping, step, results."""
        nats = self._fresh_gradients(batches)
        norm = clip_gradients_on_device(self.parameters, self.settings.clip_norm)
        _, number, *rates = self._scalars
        for (optimizer, _), rate in zip(self.optimizers, rates, strict=True):
            optimizer.step(rate, number)
        self._results.copy_(torch.stack([nats, norm.double()]))

    def _fresh_gradients(self, batches: list[Batch]) -> Tensor:
        """Fresh gradients of an update; returns the sum of nats."""
        self.clear_gradients()
        tokens = self._scalars[0]
        return accumulate_gradients(self.model, batches, self.settings.precision, tokens)


def records_graphs(settings: TrainSettings, device: Any) -> bool:
    """Whether updates are replayed as CUDA graphs.

    Recomputed blocks set the random state, and several processes exchange gradients: neither can be
    recorded.
    """
    return device.type == "cuda" and settings.recompute == "none" and settings.processes == 1


def new_trainer(
    model: TinyLM, batches: TrainBatches, settings: TrainSettings, group: Group | None = None
) -> Trainer:
    """The Trainer for the model's device, with CUDA graphs if the settings allow them."""
    if records_graphs(settings, model.embedding.device):
        return GraphedTrainer(model, batches, settings)
    return Trainer(model, batches, settings, group)
