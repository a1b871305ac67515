"""One update (mini-batches, gradients, optimizer step), and the state that a resumed run needs."""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tinylm.base.command import CommandFailed
from tinylm.model.ops import REFERENCE
from tinylm.model.transformer import TinyLM, block_matrices
from tinylm.train.distributed import Group
from tinylm.train.muon import MOMENTUM, Muon
from tinylm.train.optimizers import EPS, Adam, clip_gradients
from tinylm.train.row_threads import RowThreads
from tinylm.train.settings import TrainSettings
from tinylm.vocab.batches import Batch, TrainBatches

# tokens so far, nats per token, learning rate, gradient norm
Result = tuple[int, float, float, float]


class TrainingFailed(CommandFailed):
    """A loss, a gradient or a weight is not finite, so the run cannot continue."""


def learning_rate(
    progress: float, peak: float, warmup: float, schedule: str, final: float
) -> float:
    """Learning rate at `progress`, the fraction of the token budget used so far (0..1).

    Linear warm-up from 0 to `peak` over the fraction `warmup`; then constant, or cosine decay to
    `final` * peak at progress 1 (Loshchilov and Hutter 2017).
    """
    if progress < warmup:
        return peak * progress / warmup
    if schedule == "constant":
        return peak
    after_warmup = min(1.0, (progress - warmup) / (1.0 - warmup))
    return peak * (final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * after_warmup)))


def make_optimizers(model: TinyLM, settings: TrainSettings) -> list[tuple[Adam | Muon, float]]:
    """The optimizers, each with its peak learning rate.

    Adam or AdamW for all parameters; or Muon for the blocks' matrices and AdamW for the rest.
    With `decay: matrices`, weight decay applies to the blocks' matrices only, not to the embedding,
    positions, output layer, gains or biases. With `decay: all` it applies to every parameter.
    With the reference operations, Adam is its formula, step by step; otherwise it is PyTorch's fused
    kernel.
    """
    matrices = block_matrices(model)
    others: list[Tensor] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and name not in matrices:
            others.append(parameter)
    decay_of_others = settings.weight_decay if settings.decay == "all" else 0.0
    fused = model.ops is not REFERENCE

    def adam(parameters: list[Tensor], weight_decay: float) -> Adam:
        betas = (settings.beta1, settings.beta2)
        decoupled = settings.optimizer != "adam"
        return Adam(parameters, betas, EPS, weight_decay, decoupled, fused)

    others_adam = (adam(others, decay_of_others), settings.lr)
    if settings.optimizer == "muon":
        dtype = torch.bfloat16 if settings.precision == "bf16" else torch.float32
        muon = Muon(list(matrices.values()), MOMENTUM, settings.weight_decay, dtype)
        return [(muon, settings.muon_lr), others_adam]
    decayed: list[Tensor] = [matrix for matrix, _ in matrices.values()]
    return [(adam(decayed, settings.weight_decay), settings.lr), others_adam]


def accumulate_gradients(
    model: TinyLM, batches: Sequence[Batch], precision: str, total: int | Tensor | None = None
) -> Tensor:
    """Accumulate the gradient of the mean loss per token over all mini-batches.

    Each mini-batch is weighted by its number of tokens, so the gradient is that of one large batch.
    total: tokens of the whole update, if these mini-batches are only one rank's or thread's share.
    Returns the summed loss in nats, as a tensor on the device.
    """
    device = model.embedding.device
    if total is None:
        total = sum(batch.tokens for batch in batches)
    nats = torch.zeros((), dtype=torch.float64, device=device)
    for batch in batches:
        inputs, targets = batch.on(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = model.loss(inputs, targets)
        (loss / total).backward()
        nats += loss.detach()
    return nats


@dataclass(frozen=True)
class Update:
    """One update, which may still be running on a CUDA GPU.

    number: counted from 1. tokens: scored tokens in this update. all_tokens: in all updates so far.
    lr: Adam's learning rate. read: waits for the device; returns (nats, gradient norm).
    """

    number: int
    tokens: int
    all_tokens: int
    lr: float
    read: Callable[[], Any]

    def result(self) -> tuple[float, float, float]:
        """(nats per token, learning rate, gradient norm).

        Raises TrainingFailed if the loss or the norm is not finite.
        """
        nats, norm = self.read()
        if not (math.isfinite(nats) and math.isfinite(norm)):
            raise TrainingFailed(
                f"update {self.number}: loss {nats / self.tokens:.4g} or gradient norm {norm:.4g} is "
                f"not finite at learning rate {self.lr:.3g}; lower train.lr or set train.clip_norm"
            )
        return nats / self.tokens, self.lr, norm


class Trainer:
    """One training run over a token budget. `train` calls `advance`; benchmarks time `update`.

    settings: with every `auto` resolved, see `resolved`. updates, tokens: how many were launched so
    far. train_s: seconds spent in updates, including the wait for their results. With several
    ranks, each computes its share of an update's gradient, and all take the same step.
    `tinylm.train.graphs` has the version for CUDA.
    """

    max_in_flight = 0  # updates that may still be running when the next one is launched

    def __init__(
        self,
        model: TinyLM,
        batches: TrainBatches,
        settings: TrainSettings,
        group: Group | None = None,
    ) -> None:
        self.settings = settings
        self.model = model.train()
        self.batches = batches
        self.group = group or Group()
        self.budget = settings.budget(batches.tokens_per_epoch)
        self._mini_batches_in_budget = 0  # of a budget in epochs
        if settings.epochs is not None:
            self._mini_batches_in_budget = batches.count_within(self.budget)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizers = make_optimizers(model, settings)
        self.row_threads = RowThreads(model, batches.batch_size)
        self.updates = 0
        self.tokens = 0
        self.train_s = 0.0
        self._in_flight: deque[Update] = deque()

    def batches_of(self, update: int) -> list[Batch]:
        """The mini-batches of one update; updates are counted from 0."""
        count = self.settings.accumulation
        first = update * count
        return [self.batches.batch(first + i) for i in range(count)]

    def next_batches(self) -> list[Batch]:
        """The mini-batches of the next update; none if it would exceed the budget.

        With a budget in epochs, the last update has the mini-batches that are left.
        """
        batches = list(self.batches_of(self.updates))
        if self.settings.epochs is not None:
            left = self._mini_batches_in_budget - self.updates * self.settings.accumulation
            return batches[: max(0, left)]
        tokens = self.tokens + sum(batch.tokens for batch in batches)
        return batches if tokens <= self.budget else []

    def advance(self, batches: list[Batch]) -> list[Result]:
        """Launch one update. Returns the results that are ready: this update's or, on a GPU with
        several in flight, those of earlier ones."""
        start = time.perf_counter()
        self._in_flight.append(self.launch(batches))
        self.train_s += time.perf_counter() - start
        return self.finish(self.max_in_flight)

    def finish(self, in_flight: int = 0) -> list[Result]:
        """Wait until at most `in_flight` updates are running; return the results of those that ended.

        Raises TrainingFailed if a result is not finite.
        """
        start = time.perf_counter()
        results = []
        while len(self._in_flight) > in_flight:
            update = self._in_flight.popleft()
            results.append((update.all_tokens, *update.result()))
        self.train_s += time.perf_counter() - start
        return results

    def update(self, batches: list[Batch]) -> tuple[float, float, float]:
        """Run one update; returns (nats per token, learning rate, gradient norm).

        Raises TrainingFailed if the loss or the norm is not finite.
        """
        return self.launch(batches).result()

    def launch(self, batches: list[Batch]) -> Update:
        """Run one update. Raises TrainingFailed before the step if loss or norm is not finite."""
        settings = self.settings
        self.clear_gradients()
        tokens = sum(batch.tokens for batch in batches)
        self.group.seed_dropout(settings.seed, self.updates)
        share = self.group.share(batches)
        own_nats = self.row_threads.run(
            lambda model, part: accumulate_gradients(model, part, settings.precision, tokens), share
        )
        self.group.sum_gradients(self.parameters)
        nats = self.group.gather(float(own_nats)).sum().item()
        norm = clip_gradients(self.parameters, settings.clip_norm)
        factor = self.learning_rate_factor(tokens)
        update = self.record_update(tokens, factor, lambda: (nats, norm))
        update.result()  # raises here, before the step changes the weights
        for optimizer, peak in self.optimizers:
            optimizer.step(factor * peak, update.number)
        return update

    def clear_gradients(self) -> None:
        """Drop all gradients, so that the next backward pass does not add to them."""
        for parameter in self.parameters:
            parameter.grad = None

    def record_update(self, tokens: int, factor: float, read: Callable[[], Any]) -> Update:
        """Count an update of `tokens` tokens; factor: fraction of the peak learning rate."""
        self.updates += 1
        self.tokens += tokens
        return Update(self.updates, tokens, self.tokens, factor * self.settings.lr, read)

    def learning_rate_factor(self, tokens: int) -> float:
        """Fraction of the peak learning rate, at the midpoint of an update of this many tokens."""
        s = self.settings
        progress = (self.tokens + tokens / 2) / self.budget
        return learning_rate(progress, 1.0, s.warmup, s.schedule, s.final_lr)

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors that the next update depends on: weights, optimizer state, random state."""
        state = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for number, (optimizer, _) in enumerate(self.optimizers):
            for name, tensor in optimizer.state_dict().items():
                state[f"optimizer.{number}.{name}"] = tensor
        state["random.cpu"] = torch.get_rng_state()
        if self.model.embedding.is_cuda:
            state["random.cuda"] = torch.cuda.get_rng_state(self.model.embedding.device)
        return state

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor], updates: int, tokens: int) -> None:
        """Restore what `state_dict` returned after this many updates and tokens.

        Raises KeyError if a tensor is missing.
        """
        torch.set_rng_state(state["random.cpu"])
        if self.model.embedding.is_cuda and "random.cuda" in state:
            torch.cuda.set_rng_state(state["random.cuda"], self.model.embedding.device)
        for name, tensor in self.state_dict().items():
            if not name.startswith("random."):
                tensor.copy_(state[name])
        self.updates = updates
        self.tokens = tokens
