"""One update: mini-batches, gradients, optimizer step; and the state that a resumed run needs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tinylm.host.command import CommandFailed
from tinylm.model.transformer import TinyLM, block_matrices
from tinylm.train.distributed import Group
from tinylm.train.graphs import GraphedUpdates
from tinylm.train.muon import Muon
from tinylm.train.optimizers import Adam, clip_gradients, clip_gradients_on_card
from tinylm.train.precision import resolved
from tinylm.train.schedules import learning_rate
from tinylm.train.settings import TrainSettings
from tinylm.vocab.batches import Batch, Prefetcher, TrainBatches


class TrainingFailed(CommandFailed):
    """A loss, a gradient or a weight is not finite, so the run cannot continue."""


def make_optimizers(model: TinyLM, settings: TrainSettings) -> list[tuple[Adam | Muon, float]]:
    """Optimizers with their peak learning rates.

    Adam or AdamW for all parameters; or Muon for the blocks' matrices and AdamW for the rest.
    With `decay: matrices`, weight decay applies to the blocks' matrices only, not to embedding,
    positions, output layer, gains and biases. With `decay: all` it applies to every parameter.
    """
    matrices = block_matrices(model)
    others: list[Tensor] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and name not in matrices:
            others.append(parameter)
    betas = (settings.beta1, settings.beta2)
    decay_of_others = settings.weight_decay if settings.decay == "all" else 0.0
    if settings.optimizer == "muon":
        dtype = torch.bfloat16 if settings.precision == "bf16" else torch.float32
        muon = Muon(list(matrices.values()), settings.muon_beta, settings.weight_decay, dtype)
        adamw = Adam([(others, decay_of_others)], betas, settings.eps, decoupled=True)
        return [(muon, settings.muon_lr), (adamw, settings.lr)]
    decayed: list[Tensor] = [matrix for matrix, _ in matrices.values()]
    groups = [(decayed, settings.weight_decay), (others, decay_of_others)]
    adam = Adam(groups, betas, settings.eps, decoupled=settings.optimizer == "adamw")
    return [(adam, settings.lr)]


def accumulate_gradients(
    model: TinyLM, batches: Sequence[Batch], precision: str, total: int | None = None
) -> tuple[float, int]:
    """Add the gradient of the mean loss over all tokens of all mini-batches.

    Each mini-batch is weighted by its tokens, so the gradient is that of one large batch.
    total: the number of tokens to divide by, if these mini-batches are one rank's share.
    Returns (sum of nats, number of tokens divided by).
    """
    device = model.embedding.device
    if total is None:
        total = sum(batch.tokens for batch in batches)
    nats = 0.0
    for batch in batches:
        loss = _loss(model, *batch.on(device), precision)
        (loss / total).backward()
        nats += loss.item()
    return nats, total


def _loss(model: TinyLM, inputs: Tensor, targets: Tensor, precision: str) -> Tensor:
    """Sum of the loss in nats, with matrix products in the given precision."""
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=precision == "bf16"):
        return model.loss(inputs, targets)


@dataclass(frozen=True)
class Update:
    """An update that is finished, or that a CUDA card is still computing.

    number: counted from 1. tokens: scored tokens of this update. all_tokens: of all updates so far.
    lr: learning rate of Adam. read: waits for the device; returns (nats, gradient norm).
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
                f"update {self.number}: loss {nats / self.tokens:.4g}, gradient norm {norm:.4g} at "
                f"learning rate {self.lr:.3g}: not finite; lower train.lr or set train.clip_norm"
            )
        return nats / self.tokens, self.lr, norm


class Trainer:
    """One training run over a token budget. `train` calls `launch`, the benches time `update`.

    With several ranks, each computes its share of an update, and all make the same step.
    On CUDA with `cuda_graphs`, no update waits for the device, and a thread prepares batches.
    """

    def __init__(
        self,
        model: TinyLM,
        batches: TrainBatches,
        settings: TrainSettings,
        group: Group | None = None,
    ) -> None:
        self.settings = resolved(settings, model.embedding.device)
        self.model = model.train()
        self.batches = batches
        self.group = group or Group()
        self.budget, self.end = settings.budget(batches.tokens_per_epoch)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizers = make_optimizers(model, self.settings)
        self.updates = 0
        self.tokens = 0
        self.graphs: GraphedUpdates | None = None
        if self.settings.cuda_graphs == "true" and self.group.size == 1:
            self.use_graphs()

    def use_graphs(self) -> None:
        """From now on, replay updates as CUDA graphs and prepare their batches in a thread."""
        self.graphs = GraphedUpdates(
            self.parameters,
            self._gradients_on_card,
            self._step_on_card,
            rows=self.batches.batch_size,
            context=self.model.settings.context,
            scalars=1 + len(self.optimizers),
        )
        self.prefetcher = Prefetcher(self._batches_of)

    def _batches_of(self, update: int) -> list[Batch]:
        """The mini-batches of an update, counted from 0."""
        count = self.settings.accumulation
        first = update * count
        batches = [self.batches.batch(first + i) for i in range(count)]
        return batches if self.graphs is None else self.graphs.prepare(batches)

    def next_batches(self) -> list[Batch]:
        """The mini-batches of the next update."""
        if self.graphs is None:
            return self._batches_of(self.updates)
        return self.prefetcher.get(self.updates)

    def update(self, batches: list[Batch]) -> tuple[float, float, float]:
        """One update; returns (nats per token, learning rate, gradient norm).

        Raises TrainingFailed if the loss or the norm is not finite.
        """
        if self.graphs is not None:
            batches = self.graphs.prepare(batches)
        return self.launch(batches).result()

    def launch(self, batches: list[Batch]) -> Update:
        """Start one update with the result of `next_batches`; with graphs, do not wait for it.

        Without graphs, raises TrainingFailed before the step if loss or norm is not finite.
        """
        tokens = sum(batch.tokens for batch in batches)
        factor = self._learning_rate_factor(tokens)
        rates = [factor * peak for _, peak in self.optimizers]
        number = self.updates + 1
        update = Update(
            number=number,
            tokens=tokens,
            all_tokens=self.tokens + tokens,
            lr=factor * self.settings.lr,
            read=self._begin(batches, [float(number), *rates]),
        )
        if self.graphs is None:
            update.result()
            for (optimizer, _), rate in zip(self.optimizers, rates, strict=True):
                optimizer.step(rate)
        self.updates += 1
        self.tokens += tokens
        return update

    def _begin(self, batches: list[Batch], scalars: list[float]) -> Callable[[], Any]:
        """Compute the gradients, or with graphs start the whole update.

        The returned function gives (nats, gradient norm).
        """
        if self.graphs is not None:
            for optimizer, _ in self.optimizers:
                optimizer.updates += 1
            return self.graphs.launch(batches, scalars)
        for parameter in self.parameters:
            parameter.grad = None
        self.group.seed_dropout(self.settings.seed, self.updates)
        share = self.group.share(batches)
        tokens = sum(batch.tokens for batch in batches)
        nats, _ = accumulate_gradients(self.model, share, self.settings.precision, tokens)
        self.group.sum_gradients(self.parameters)
        nats = self.group.gather(nats).sum().item()
        norm = clip_gradients(self.parameters, self.settings.clip_norm)
        return lambda: (nats, norm)

    def _gradients_on_card(self, batches: list[tuple[Tensor, Tensor]], share: Tensor) -> Tensor:
        """As `accumulate_gradients`, without waiting for the device; share: 1 / tokens."""
        nats = torch.zeros((), dtype=torch.float64, device=share.device)
        for inputs, targets in batches:
            loss = _loss(self.model, inputs, targets, self.settings.precision)
            (loss * share).backward()
            nats += loss.detach()
        return nats

    def _step_on_card(self, scalars: Tensor) -> Tensor:
        """Clip and step without waiting for the device. scalars: update number, then rates."""
        norm = clip_gradients_on_card(self.parameters, self.settings.clip_norm)
        number, *rates = scalars
        for (optimizer, _), rate in zip(self.optimizers, rates, strict=True):
            optimizer.step_on_card(rate, number)
        return norm

    def _learning_rate_factor(self, tokens: int) -> float:
        """Fraction of the peak rate for an update of this many tokens, from its midpoint."""
        s = self.settings
        progress = (self.tokens + tokens / 2) / self.budget
        return learning_rate(progress, 1.0, s.warmup, s.schedule, s.final_lr)

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors that the next update depends on: weights, optimizer and random state."""
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
        for optimizer, _ in self.optimizers:
            optimizer.updates = updates
        self.updates = updates
        self.tokens = tokens
