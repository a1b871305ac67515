"""The training loop: updates over a token budget, with validation, samples, early stopping and snapshots."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from tinylm.config import PARAMS_FILE, InputError
from tinylm.model.lm import TinyLM
from tinylm.runtime import Progress
from tinylm.text.batches import Batch, TrainBatches
from tinylm.training.loggers import Logger
from tinylm.training.moments import Moments
from tinylm.training.snapshot import Snapshots
from tinylm.training.stopping import EarlyStopping
from tinylm.training.trainer import Trainer, TrainSettings
from tinylm.training.validation import split_loss


@dataclasses.dataclass
class Curves:
    """What was measured along the way; one entry an update (train, rate) or a validation (held-out)."""

    updates: list[int] = dataclasses.field(default_factory=list)
    tokens: list[int] = dataclasses.field(default_factory=list)
    train: list[float] = dataclasses.field(default_factory=list)  # nats a token of that update's batch
    rate: list[float] = dataclasses.field(default_factory=list)
    grad_norm: list[float] = dataclasses.field(default_factory=list)
    held_out: list[tuple[int, int, float]] = dataclasses.field(default_factory=list)  # update, tokens, nats a token
    samples: list[tuple[int, int, str]] = dataclasses.field(default_factory=list)  # update, tokens, text

    def newest(self) -> dict[str, float]:
        """The figures of the last update."""
        series = {"train_loss": self.train, "learning_rate": self.rate, "grad_norm": self.grad_norm}
        return {name: values[-1] for name, values in series.items()} | {"tokens": self.tokens[-1]}


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


@dataclasses.dataclass
class _Run:
    """A run under way: what a snapshot holds and a resumed run takes up again."""

    trainer: Trainer
    curves: Curves
    stopping: EarlyStopping
    best: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    train_s: float = 0.0

    def snapshot(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """(tensors, numbers) of everything that decides how the run goes on."""
        tensors = self.trainer.tensors() | {f"best.{name}": tensor for name, tensor in self.best.items()}
        numbers = {
            "updates": self.trainer.updates,
            "tokens": self.trainer.tokens,
            "curves": dataclasses.asdict(self.curves),
            "stopping": dataclasses.asdict(self.stopping),
            "train_s": self.train_s,
        }
        return tensors, numbers

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """The reverse of `snapshot`."""
        self.trainer.restore(tensors, numbers["updates"], numbers["tokens"])
        self.curves = Curves(**numbers["curves"])
        self.stopping = EarlyStopping(**numbers["stopping"])
        self.best = {name.removeprefix("best."): t for name, t in tensors.items() if name.startswith("best.")}
        self.train_s = numbers["train_s"]

    def update(self, upcoming: list[Batch]) -> float:
        """One update, entered into the curves; returns its loss."""
        start = time.perf_counter()
        loss, rate, norm = self.trainer.update(upcoming)
        self.train_s += time.perf_counter() - start
        curves = self.curves
        curves.updates.append(self.trainer.updates)
        curves.tokens.append(self.trainer.tokens)
        curves.train.append(loss)
        curves.rate.append(rate)
        curves.grad_norm.append(norm)
        return loss

    def result(self) -> TrainResult:
        """Put the best weights back where early stopping kept them, and sum up."""
        if self.best:
            self.trainer.model.load_state_dict(self.best)
        last, stopping = self.curves.held_out[-1][2], self.stopping
        return TrainResult(
            self.curves, last, stopping.best, stopping.best_update, stopping.should_stop, bool(self.best), self.train_s
        )


@dataclasses.dataclass
class _Watch:
    """What happens beside the updates: validations, samples, weights kept, figures sent, snapshots."""

    run: _Run
    held_out: Callable[[], Iterable[Batch]]
    on_sample: Callable[[int, int], str] | None
    snapshots: Snapshots | None
    logger: Logger | None
    moments: Moments
    progress: Progress

    def validate(self, counts: bool = True) -> None:
        """Measure the held-out loss; one that does not count takes no patience."""
        run, trainer = self.run, self.run.trainer
        model, settings = trainer.model, trainer.settings
        nats, tokens = split_loss(model, self.held_out(), settings.precision)
        run.curves.held_out.append((trainer.updates, trainer.tokens, nats / tokens))
        if run.stopping.observe(nats / tokens, trainer.updates, counts) and settings.patience is not None:
            run.best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        self.progress.write(
            f"update {trainer.updates}, {trainer.tokens:,} tokens: held-out loss {nats / tokens:.4f} "
            f"(perplexity {math.exp(min(nats / tokens, 700)):.2f})"
        )
        if self.logger is not None:
            self.logger.send(trainer.updates, {"held_out_loss": nats / tokens, "tokens": trainer.tokens})

    def sample(self) -> None:
        """Let the model write, without dropout."""
        trainer = self.run.trainer
        if self.on_sample is not None:
            trainer.model.eval()
            at = trainer.updates, trainer.tokens
            self.run.curves.samples.append((*at, self.on_sample(*at)))
            trainer.model.train()

    def keep(self, epochs: list[float]) -> None:
        """Keep the weights as those of the given epochs."""
        for epoch in epochs:
            if self.snapshots is not None:
                self.snapshots.keep(f"{epoch:g}", self.run.trainer.model.state_dict())

    def update(self, before: int) -> None:
        """Everything that is due behind an update; `before`: tokens seen before it."""
        trainer, settings = self.run.trainer, self.run.trainer.settings
        due = trainer.updates % settings.validate_every == 0
        if due or self.moments.ends_an_epoch(before, trainer.tokens):
            self.validate(counts=due)
        self.keep(self.moments.between(before, trainer.tokens))
        if self.logger is not None and self.logger.due():
            self.logger.send(trainer.updates, self.run.curves.newest())
        if trainer.updates % settings.sample_every == 0:
            self.sample()
        if self.snapshots is not None and self.snapshots.due():
            self.snapshots.save(trainer.updates, *self.run.snapshot())

    def end(self) -> None:
        """The last validation and sample, where the last update did not make them, and the chosen epochs left."""
        trainer = self.run.trainer
        reached = self.moments.nearly(trainer.tokens, trainer.end)
        self.keep(reached)
        for epoch in self.moments.between(trainer.tokens, trainer.end):
            if epoch not in reached:
                done = trainer.tokens / self.moments.tokens_per_epoch
                self.progress.write(f"epoch {epoch:g} was not reached: the run ended at {done:.3g}; no weights kept")
        if self.run.curves.held_out[-1][0] != trainer.updates:
            self.validate()
        if trainer.updates % trainer.settings.sample_every:
            self.sample()


def train(
    model: TinyLM,
    batches: TrainBatches,
    held_out: Callable[[], Iterable[Batch]],
    settings: TrainSettings,
    log_every_s: float = 5.0,
    on_sample: Callable[[int, int], str] | None = None,
    snapshots: Snapshots | None = None,
    logger: Logger | None = None,
) -> TrainResult:
    """Train until the next update would pass the end of the budget, or early stopping says so.

    Held-out loss is measured before the first update, every `validate_every` updates, at the end of each epoch (which
    takes no patience) and at the end. `on_sample` gets (updates, tokens) every `sample_every` updates and at both
    ends and returns the sample's text. With early stopping the model is left with the weights of the best held-out
    loss, else with the last. With `snapshots`, a run that was cut off goes on from its newest one and ends with the
    same bytes, and the weights after `keep_epochs` are kept there. `logger` gets the curves as they grow.
    """
    trainer = Trainer(model, batches, settings)
    run = _Run(trainer, Curves(), EarlyStopping(settings.patience))
    moments = Moments(settings.keep_epochs, batches.tokens_per_epoch, trainer.end)
    with Progress("train", trainer.end, "tokens", log_every_s) as progress:
        watch = _Watch(run, held_out, on_sample, snapshots, logger, moments, progress)
        found = snapshots.latest() if snapshots is not None else None
        if found is not None:
            run.restore(*found)
            progress.write(f"resumed after update {trainer.updates}, {trainer.tokens:,} tokens")
            progress.resume(trainer.tokens)
        else:
            watch.validate()
            watch.sample()
        while not run.stopping.should_stop:
            upcoming, before = trainer.next_batches(), trainer.tokens
            tokens = sum(batch.tokens for batch in upcoming)
            if before + tokens > trainer.end:
                _refuse_none(trainer, tokens)
                break
            loss = run.update(upcoming)
            progress.advance(tokens, f"loss {loss:.3f}")
            watch.update(before)
        watch.end()
    return run.result()


def _refuse_none(trainer: Trainer, tokens: int) -> None:
    """InputError where the budget does not hold its first update."""
    if not trainer.updates:
        s = trainer.settings
        name = "stop_after" if s.stop_after is not None else "tokens" if s.tokens is not None else "epochs"
        shown = getattr(s, name) if name != "epochs" else f"{s.epochs}: {trainer.end} tokens"
        raise InputError(f"{PARAMS_FILE}: train.{name} = {shown}; allowed: at least {tokens}, one update")
