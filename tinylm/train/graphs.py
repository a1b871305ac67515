"""Updates on a CUDA card: each shape of mini-batches is recorded as a CUDA graph and replayed.

An update of a small model consists of many short kernels. Starting them one by one takes longer
than computing them; a graph starts all of them at once (NVIDIA, CUDA C++ Programming Guide, chapter
"CUDA Graphs"). A graph reads its inputs from fixed addresses in the card's memory, which are
filled before each replay.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tinylm.model.transformer import TinyLM
from tinylm.train.distributed import Group
from tinylm.train.optimizers import clip_gradients_on_device
from tinylm.train.precision import resolved
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer, Update
from tinylm.vocab.batches import Batch, Prefetcher, TrainBatches

WIDTH_MULTIPLE = 64  # batches are padded to a multiple of this width, so that few graphs are needed
WARM_UPS = 3  # passes before recording, in which libraries allocate and blocks are compiled


@dataclass(frozen=True)
class _Graph:
    """inputs, targets: (mini-batches, rows, width) on the device; `replay` reads them."""

    inputs: Tensor
    targets: Tensor
    replay: Callable[[], None]


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch the garbage collector off inside: freeing an old graph would break a recording."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class GraphedUpdates:
    """Updates of one model, recorded once for each number and width of mini-batches.

    gradients(batches, share): adds the gradients of the summed loss times `share`, a scalar on the
    device, and returns the summed loss in nats, also on the device. step(scalars): clips, makes the
    step and returns the gradient norm, without waiting for the device. On a CPU nothing is
    recorded, and each replay computes the update directly; tests use this.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        gradients: Callable[[list[tuple[Tensor, Tensor]], Tensor], Tensor],
        step: Callable[[Tensor], Tensor],
        *,
        rows: int,
        context: int,
        scalars: int,
    ) -> None:
        """rows, context: size of the largest mini-batch; scalars: how many numbers `step` takes."""
        self._parameters = parameters
        self._gradients = gradients
        self._step = step
        self._rows = rows
        self._context = context
        self._device = parameters[0].device
        self._scalars = torch.zeros(1 + scalars, device=self._device)
        self._results = torch.zeros(2, dtype=torch.float64, device=self._device)
        self._graphs: dict[tuple[int, int], _Graph] = {}
        self._pool: Any = None

    def prepare(self, batches: Sequence[Batch]) -> list[Batch]:
        """The mini-batches of an update, padded to one shape, in pinned memory."""
        widest = max(batch.inputs.shape[1] for batch in batches)
        width = min(widest + -widest % WIDTH_MULTIPLE, self._context)
        padded = [batch.padded(self._rows, width) for batch in batches]
        if self._device.type == "cuda":
            padded = [batch.pinned() for batch in padded]
        return padded

    def launch(self, batches: Sequence[Batch], scalars: Sequence[float]) -> Callable[[], Any]:
        """Start an update with the result of `prepare`.

        The returned function waits for the device and gives (nats, gradient norm).
        """
        graph = self._graph(len(batches), batches[0].inputs.shape[1])
        for index, batch in enumerate(batches):
            graph.inputs[index].copy_(batch.inputs, non_blocking=True)
            graph.targets[index].copy_(batch.targets, non_blocking=True)
        tokens = sum(batch.tokens for batch in batches)
        self._fill_scalars([1.0 / tokens, *scalars])
        graph.replay()
        return self._read_later()

    def _fill_scalars(self, values: list[float]) -> None:
        pinned = torch.tensor(values, pin_memory=self._device.type == "cuda")
        self._scalars.copy_(pinned, non_blocking=True)

    def _read_later(self) -> Callable[[], Any]:
        """A function that waits for this update and returns [nats, gradient norm]."""
        if self._device.type != "cuda":
            return self._results.clone().tolist
        copy = torch.empty(2, dtype=torch.float64, pin_memory=True)
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
            shape = (count, self._rows, width)
            inputs = torch.zeros(shape, dtype=torch.int64, device=self._device)
            targets = torch.zeros_like(inputs)
            batches = list(zip(inputs, targets, strict=True))
            self._graphs[key] = _Graph(inputs, targets, self._record(batches))
        return self._graphs[key]

    def _record(self, batches: list[tuple[Tensor, Tensor]]) -> Callable[[], None]:
        """A function that computes an update from the tensors of these mini-batches."""

        def update() -> None:
            self._clear_gradients()
            nats = self._gradients(batches, self._scalars[0])
            norm = self._step(self._scalars[1:])
            self._results.copy_(torch.stack([nats.double(), norm.double()]))

        if self._device.type != "cuda":
            return update
        state = torch.cuda.get_rng_state(self._device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self._clear_gradients()
                self._gradients(batches, self._scalars[0])
        torch.cuda.current_stream().wait_stream(side)
        self._clear_gradients()
        torch.cuda.set_rng_state(state, self._device)  # as if there had been no warm-up
        graph = torch.cuda.CUDAGraph()
        # All graphs share memory: they run one after another, and none keeps a result in it.
        # thread_local: the thread that pins batches may allocate memory during a recording.
        with (
            _no_garbage_collection(),
            torch.cuda.graph(graph, self._pool, side, capture_error_mode="thread_local"),
        ):
            update()
        self._pool = self._pool or graph.pool()
        self._clear_gradients()
        replay: Callable[[], None] = graph.replay
        return replay

    def _clear_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None


class GraphedTrainer(Trainer):
    """The Trainer for a CUDA card: it replays updates, and a thread prepares their batches.

    No update waits for the card. `launch` takes the result of `next_batches`.
    """

    def __init__(self, model: TinyLM, batches: TrainBatches, settings: TrainSettings) -> None:
        super().__init__(model, batches, settings)
        self.graphs = GraphedUpdates(
            self.parameters,
            self._gradients,
            self._step,
            rows=batches.batch_size,
            context=model.settings.context,
            scalars=1 + len(self.optimizers),
        )
        self._prefetcher = Prefetcher(lambda update: self.graphs.prepare(self.batches_of(update)))

    def next_batches(self) -> list[Batch]:
        return self._prefetcher.get(self.updates)

    def update(self, batches: list[Batch]) -> tuple[float, float, float]:
        return self.launch(self.graphs.prepare(batches)).result()

    def launch(self, batches: list[Batch]) -> Update:
        """Start one update without waiting for it."""
        tokens = sum(batch.tokens for batch in batches)
        factor = self.learning_rate_factor(tokens)
        rates = [factor * peak for _, peak in self.optimizers]
        for optimizer, _ in self.optimizers:
            optimizer.updates += 1
        read = self.graphs.launch(batches, [float(self.updates + 1), *rates])
        return self.count_update(tokens, factor, read)

    def _gradients(self, batches: list[tuple[Tensor, Tensor]], share: Tensor) -> Tensor:
        """As `accumulate_gradients`, without waiting for the card; share: 1 / tokens."""
        is_bf16 = self.settings.precision == "bf16"
        nats = torch.zeros((), dtype=torch.float64, device=share.device)
        for inputs, targets in batches:
            with torch.autocast(inputs.device.type, torch.bfloat16, enabled=is_bf16):
                loss = self.model.loss(inputs, targets)
            (loss * share).backward()
            nats += loss.detach()
        return nats

    def _step(self, scalars: Tensor) -> Tensor:
        """Clip and step without waiting for the card. scalars: update number, then rates."""
        norm = clip_gradients_on_device(self.parameters, self.settings.clip_norm)
        number, *rates = scalars
        for (optimizer, _), rate in zip(self.optimizers, rates, strict=True):
            optimizer.step_on_device(rate, number)
        return norm


def new_trainer(
    model: TinyLM, batches: TrainBatches, settings: TrainSettings, group: Group | None = None
) -> Trainer:
    """The Trainer for the model's device, with CUDA graphs if the settings allow them."""
    is_alone = group is None or group.size == 1
    if is_alone and resolved(settings, model.embedding.device).cuda_graphs == "true":
        return GraphedTrainer(model, batches, settings)
    return Trainer(model, batches, settings, group)
