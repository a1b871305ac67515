"""The training loop: batches -> gradients -> updates, with validation, early stopping and a token budget."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from tinylm.command import CommandFailed
from tinylm.config import setting
from tinylm.model.lm import TinyLM
from tinylm.runtime import Progress
from tinylm.text.batches import Batch, TrainBatches
from tinylm.training.optimizers import Adam, Muon, clip_gradients
from tinylm.training.schedules import learning_rate
from tinylm.training.stopping import EarlyStopping
from tinylm.training.validation import split_loss


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """Section `train`."""

    layout: str = setting(choices=("stories", "stream"))
    batch_size: int = setting(low=1, high=1_000_000)
    accumulation: int = setting(low=1, high=100_000)
    tokens: int = setting(low=1, high=10**15)
    optimizer: str = setting(choices=("adam", "adamw", "muon"))
    lr: float = setting(above=0.0, high=10.0)
    muon_lr: float = setting(above=0.0, high=10.0)
    muon_beta: float = setting(low=0.0, high=0.9999)
    beta1: float = setting(low=0.0, high=0.9999)
    beta2: float = setting(low=0.0, high=0.999999)
    eps: float = setting(above=0.0, high=1.0)
    weight_decay: float = setting(low=0.0, high=10.0)
    warmup: float = setting(low=0.0, high=0.99)
    schedule: str = setting(choices=("cosine", "constant"))
    final_lr: float = setting(low=0.0, high=1.0)
    clip_norm: float | None = setting(above=0.0)
    precision: str = setting(choices=("fp32", "bf16"))
    recompute: bool = setting()
    validate_every: int = setting(low=1)
    patience: int | None = setting(low=1)
    sample_every: int = setting(low=1)
    sample_prompt: str = setting()
    seed: int = setting(low=0)


class TrainingFailed(CommandFailed):
    """The run cannot go on (a loss or gradient that is no number); the message names the update and the rate."""


@dataclasses.dataclass
class Curves:
    """What was measured along the way; one entry an update (train, rate) or a validation (held-out)."""

    updates: list[int] = dataclasses.field(default_factory=list)
    tokens: list[int] = dataclasses.field(default_factory=list)
    train: list[float] = dataclasses.field(default_factory=list)  # nats a token of that update's batch
    rate: list[float] = dataclasses.field(default_factory=list)
    grad_norm: list[float] = dataclasses.field(default_factory=list)
    held_out: list[tuple[int, int, float]] = dataclasses.field(default_factory=list)  # update, tokens, nats a token


@dataclasses.dataclass
class TrainResult:
    """The outcome of `train`; the model holds the weights to save."""

    curves: Curves
    last_held_out: float
    best_held_out: float
    best_update: int
    stopped_early: bool
    kept_best: bool  # the weights of the best held-out loss were put back
    train_s: float  # updates only: validation and samples left out

    @property
    def tokens(self) -> int:
        """Scored tokens that all updates have seen."""
        return self.curves.tokens[-1] if self.curves.tokens else 0


def make_optimizers(model: TinyLM, settings: TrainSettings) -> list[tuple[Adam | Muon, float]]:
    """Optimizers with their peak learning rates: Adam or AdamW over all, or Muon over the blocks' matrices.

    Weight decay falls on the blocks' matrices only; embedding, output layer, gains and biases keep their size.
    """
    trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices: list[tuple[Tensor, int]] = [
        (p, 3 if ".qkv." in name else 1) for name, p in trainable if name.startswith("blocks") and p.dim() == 2
    ]
    others: list[Tensor] = [p for name, p in trainable if not (name.startswith("blocks") and p.dim() == 2)]
    betas = settings.beta1, settings.beta2
    if settings.optimizer == "muon":
        low = torch.bfloat16 if settings.precision == "bf16" else torch.float32
        muon = Muon([(p, pieces) for p, pieces in matrices], settings.muon_beta, settings.weight_decay, low)
        return [(muon, settings.muon_lr), (Adam([(others, 0.0)], betas, settings.eps, decoupled=True), settings.lr)]
    groups: list[tuple[list[Tensor], float]] = [([p for p, _ in matrices], settings.weight_decay), (others, 0.0)]
    return [(Adam(groups, betas, settings.eps, decoupled=settings.optimizer == "adamw"), settings.lr)]


def accumulate_gradients(model: TinyLM, batches: list[Batch], precision: str) -> tuple[float, int]:
    """Add the gradient of the mean loss over all tokens of all mini-batches; returns (sum of nats, tokens).

    Each mini-batch counts by its tokens, so that the gradient is that of one batch holding them all.
    """
    device = model.embedding.device
    total = sum(batch.tokens for batch in batches)
    nats = 0.0
    for batch in batches:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = model.loss(batch.inputs.to(device), batch.targets.to(device))
        (loss / total).backward()
        nats += loss.item()
    return nats, total


class Trainer:
    """One run over a token budget; `train` drives it, the benches time its `update`."""

    def __init__(self, model: TinyLM, batches: TrainBatches, settings: TrainSettings) -> None:
        self.model, self.batches, self.settings = model, batches, settings
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizers = make_optimizers(model, settings)
        self.updates = self.tokens = 0
        model.use_recompute = settings.recompute
        model.train()

    def next_batches(self) -> list[Batch]:
        """The mini-batches of the next update."""
        first = self.updates * self.settings.accumulation
        return [self.batches.batch(first + i) for i in range(self.settings.accumulation)]

    def update(self, batches: list[Batch]) -> tuple[float, float, float]:
        """One update; returns (nats a token, learning rate, gradient norm). Raises TrainingFailed."""
        s = self.settings
        for parameter in self.parameters:
            parameter.grad = None
        nats, tokens = accumulate_gradients(self.model, batches, s.precision)
        norm = clip_gradients(self.parameters, s.clip_norm)
        progress = (self.tokens + tokens / 2) / s.tokens  # the middle of the update
        share = learning_rate(progress, 1.0, s.warmup, s.schedule, s.final_lr)
        if not (math.isfinite(nats) and math.isfinite(norm)):
            raise TrainingFailed(
                f"update {self.updates + 1}: loss {nats / tokens:.4g}, gradient norm {norm:.4g} at learning rate "
                f"{share * s.lr:.3g}: not finite; lower train.lr or set train.clip_norm"
            )
        for optimizer, peak in self.optimizers:
            optimizer.step(share * peak)
        self.updates += 1
        self.tokens += tokens
        return nats / tokens, share * s.lr, norm


def train(
    model: TinyLM,
    batches: TrainBatches,
    held_out: Callable[[], Iterable[Batch]],
    settings: TrainSettings,
    log_every_s: float = 5.0,
    on_sample: Callable[[int, int], None] | None = None,
) -> TrainResult:
    """Train until the next update would pass the token budget, or early stopping says so.

    Held-out loss is measured before the first update, every `validate_every` updates and at the end. `on_sample`
    gets (updates, tokens) every `sample_every` updates and at both ends. With early stopping the model is left
    with the weights of the best held-out loss, else with the last.
    """
    trainer, curves, stopping = Trainer(model, batches, settings), Curves(), EarlyStopping(settings.patience)
    best: dict[str, Tensor] = {}
    train_s = 0.0

    def validate(progress: Progress) -> None:
        nats, tokens = split_loss(model, held_out(), settings.precision)
        curves.held_out.append((trainer.updates, trainer.tokens, nats / tokens))
        if stopping.observe(nats / tokens, trainer.updates) and settings.patience is not None:
            best.update({name: tensor.detach().clone() for name, tensor in model.state_dict().items()})
        progress.write(
            f"update {trainer.updates}, {trainer.tokens:,} tokens: held-out loss {nats / tokens:.4f} "
            f"(perplexity {math.exp(min(nats / tokens, 700)):.2f})"
        )

    def sample() -> None:
        if on_sample is not None:
            model.eval()
            on_sample(trainer.updates, trainer.tokens)
            model.train()

    with Progress("train", settings.tokens, "tokens", log_every_s) as progress:
        validate(progress)
        sample()
        while not stopping.should_stop:
            start = time.perf_counter()
            upcoming = trainer.next_batches()
            tokens = sum(batch.tokens for batch in upcoming)
            if trainer.tokens + tokens > settings.tokens:
                break
            loss, rate, norm = trainer.update(upcoming)
            train_s += time.perf_counter() - start
            curves.updates.append(trainer.updates)
            curves.tokens.append(trainer.tokens)
            curves.train.append(loss)
            curves.rate.append(rate)
            curves.grad_norm.append(norm)
            progress.advance(tokens, f"loss {loss:.3f}")
            if trainer.updates % settings.validate_every == 0:
                validate(progress)
            if trainer.updates % settings.sample_every == 0:
                sample()
        if curves.held_out[-1][0] != trainer.updates:
            validate(progress)
        if trainer.updates % settings.sample_every:
            sample()
    last = curves.held_out[-1][2]
    if best:
        model.load_state_dict(best)
    return TrainResult(curves, last, stopping.best, stopping.best_update, stopping.should_stop, bool(best), train_s)
