"""One update: mini-batches -> gradients -> optimizer step, and the state that decides the next one."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tinylm.host.command import CommandFailed
from tinylm.host.memory import keep_freed_memory
from tinylm.kernels.train.ops import why_not_native
from tinylm.model.transformer import TinyLM, block_matrices
from tinylm.train.distributed import Group
from tinylm.train.halves import sharing
from tinylm.train.muon import Muon
from tinylm.train.optimizers import Adam, clip_gradients
from tinylm.train.precision import choose_products, resolved
from tinylm.train.schedules import learning_rate
from tinylm.train.settings import TrainSettings
from tinylm.vocab.batches import Batch, TrainBatches


class TrainingFailed(CommandFailed):
    """The run cannot continue (a loss or gradient that is not a number); the message names the update and the rate."""


def make_optimizers(
    model: TinyLM, settings: TrainSettings, native: bool = False
) -> list[tuple[Adam | Muon, float]]:
    """Optimizers with their peak learning rates: Adam or AdamW over all, or Muon over the blocks' matrices.

    With `decay: matrices`, weight decay falls on the blocks' matrices only: embedding, positions, output layer, gains
    and biases keep their size; with `decay: all` it falls on every parameter.
    """
    matrices = block_matrices(model)
    others: list[Tensor] = [
        p for name, p in model.named_parameters() if p.requires_grad and name not in matrices
    ]
    betas, rest = (
        (settings.beta1, settings.beta2),
        settings.weight_decay if settings.decay == "all" else 0.0,
    )
    if settings.optimizer == "muon":
        low = torch.bfloat16 if settings.precision == "bf16" else torch.float32
        muon = Muon(list(matrices.values()), settings.muon_beta, settings.weight_decay, low)
        adam = Adam([(others, rest)], betas, settings.eps, decoupled=True, native=native)
        return [(muon, settings.muon_lr), (adam, settings.lr)]
    decayed: list[Tensor] = [p for p, _ in matrices.values()]
    groups = [(decayed, settings.weight_decay), (others, rest)]
    return [(Adam(groups, betas, settings.eps, settings.optimizer == "adamw", native), settings.lr)]


def accumulate_gradients(
    model: TinyLM, batches: Sequence[Batch], precision: str, total: int | None = None
) -> tuple[float, int]:
    """Add the gradient of the mean loss over all tokens of all mini-batches; returns (sum of nats, tokens).

    Each mini-batch counts by its tokens, so the gradient is that of one batch with all of them. total: the number of
    tokens for the mean, if these mini-batches have only a share of them.
    """
    device = model.embedding.device
    total = sum(batch.tokens for batch in batches) if total is None else total
    nats = 0.0
    for batch in batches:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = model.loss(*batch.on(device))
        (loss / total).backward()
        nats += loss.item()
    return nats, total


class Trainer:
    """One run over a token budget; `train` drives it, the benches time its `update`.

    In a group of several ranks each rank computes its share of an update, and all make the same step.
    """

    def __init__(
        self,
        model: TinyLM,
        batches: TrainBatches,
        settings: TrainSettings,
        group: Group | None = None,
    ) -> None:
        settings = resolved(settings, model.embedding.device)
        self.model, self.batches, self.settings = model, batches, settings
        self.group = group or Group()
        self.budget, self.end = settings.budget(batches.tokens_per_epoch)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        device, dtype = model.embedding.device, model.embedding.dtype
        self.native = dtype == torch.float32 and not why_not_native(settings.precision, device)
        self.optimizers = make_optimizers(model, settings, self.native)
        self.updates = self.tokens = 0
        keep_freed_memory()
        # With deterministic kernels (seeding), torch fills each new tensor, but nothing here reads those values.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        choose_products(settings.precision, device)
        model.train()
        self.workers = sharing(model, settings, accumulate_gradients)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors that decide the next update: weights, optimizer state, the random state of dropout."""
        found = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for number, (optimizer, _) in enumerate(self.optimizers):
            found |= {
                f"optimizer.{number}.{name}": tensor for name, tensor in optimizer.tensors().items()
            }
        found["random.cpu"] = torch.get_rng_state()
        if self.model.embedding.is_cuda:
            found["random.cuda"] = torch.cuda.get_rng_state(self.model.embedding.device)
        return found

    def refuse_not_finite(self, tensors: Mapping[str, Tensor]) -> None:
        """TrainingFailed if one of the tensors has a value that is not finite: such a state is never kept."""
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise TrainingFailed(
                    f"update {self.updates}: {name} holds a value that is not finite; lower train.lr"
                )

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], updates: int, tokens: int) -> None:
        """Continue from what `tensors` gave after this many updates and tokens. Raises KeyError if one is missing."""
        torch.set_rng_state(tensors["random.cpu"])
        if self.model.embedding.is_cuda and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.model.embedding.device)
        for name, mine in self.tensors().items():
            if not name.startswith("random."):
                mine.copy_(tensors[name])
        for optimizer, _ in self.optimizers:
            optimizer.updates = updates
        self.updates, self.tokens = updates, tokens

    def next_batches(self) -> list[Batch]:
        """The mini-batches of the next update."""
        first = self.updates * self.settings.accumulation
        return [self.batches.batch(first + i) for i in range(self.settings.accumulation)]

    def update(self, batches: list[Batch]) -> tuple[float, float, float]:
        """One update; returns (nats per token, learning rate, gradient norm). Raises TrainingFailed."""
        s = self.settings
        for parameter in self.parameters:
            parameter.grad = None
        tokens = sum(batch.tokens for batch in batches)
        self.group.seed_dropout(s.seed, self.updates)
        nats = self.workers.gradients(self.group.share(batches), s.precision, tokens)
        self.group.sum_gradients(self.parameters)
        (nats,) = self.group.total(nats)
        norm = clip_gradients(self.parameters, s.clip_norm, self.native)
        progress = (self.tokens + tokens / 2) / self.budget  # the middle of the update
        share = learning_rate(progress, 1.0, s.warmup, s.schedule, s.final_lr)
        if not (math.isfinite(nats) and math.isfinite(norm)):
            raise TrainingFailed(
                f"update {self.updates + 1}: loss {nats / tokens:.4g}, gradient norm {norm:.4g} at learning rate "
                f"{share * s.lr:.3g}: not finite; lower train.lr or set train.clip_norm"
            )
        self.workers.do(
            [part for optimizer, peak in self.optimizers for part in optimizer.parts(share * peak)]
        )
        self.updates += 1
        self.tokens += tokens
        return nats / tokens, share * s.lr, norm
