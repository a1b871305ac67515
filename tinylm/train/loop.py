"""The training loop: updates over a token budget, with validation, samples, early stopping and snapshots."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.host.command import CommandFailed, Interrupted, is_out_of_memory, signals_noted
from tinylm.host.loggers import Logger
from tinylm.host.progress import Progress
from tinylm.model.transformer import TinyLM
from tinylm.train.curves import Curves, TrainResult
from tinylm.train.distributed import Group, RankLost
from tinylm.train.schedules import EarlyStopping, EpochCheckpoints
from tinylm.train.settings import TrainSettings
from tinylm.train.snapshot import Snapshots, State
from tinylm.train.split_loss import capped_perplexity, split_loss
from tinylm.train.trainer import Trainer, TrainingFailed
from tinylm.vocab.batches import Batch, TrainBatches


@dataclasses.dataclass
class _Run:
    """A run in progress: its state, which a snapshot holds, and what happens between updates."""

    trainer: Trainer
    held_out: Callable[[], Iterable[Batch]]
    on_sample: Callable[[int, int], list[str]] | None
    snapshots: Snapshots | None
    logger: Logger | None
    checkpoints: EpochCheckpoints
    progress: Progress
    stopping: EarlyStopping
    curves: Curves = dataclasses.field(default_factory=Curves)
    best: dict[str, Tensor] = dataclasses.field(
        default_factory=dict
    )  # weights of the best held-out loss
    train_s: float = 0.0
    earlier_s: float = 0.0
    started: float = dataclasses.field(default_factory=time.perf_counter)

    def state(self) -> State:
        """Everything that decides how the run continues. Raises TrainingFailed if a value is not finite."""
        tensors = self.trainer.tensors() | {
            f"best.{name}": tensor for name, tensor in self.best.items()
        }
        self.trainer.refuse_not_finite(tensors)
        numbers = {
            "updates": self.trainer.updates,
            "tokens": self.trainer.tokens,
            "curves": dataclasses.asdict(self.curves),
            "stopping": dataclasses.asdict(self.stopping),
            "train_s": self.train_s,
            "run_s": self.earlier_s + time.perf_counter() - self.started,
        }
        return tensors, numbers

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """The reverse of `state`."""
        self.trainer.restore(tensors, numbers["updates"], numbers["tokens"])
        self.curves = Curves(**numbers["curves"])
        self.stopping = EarlyStopping(**numbers["stopping"])
        self.best = {
            name.removeprefix("best."): t for name, t in tensors.items() if name.startswith("best.")
        }
        self.train_s, self.earlier_s = numbers["train_s"], numbers["run_s"]

    def update(self, batches: list[Batch]) -> float:
        """Make one update and add it to the curves; returns its loss. Errors name the last good snapshot."""
        start = time.perf_counter()
        try:
            with self.between_updates():
                loss, rate, norm = self.trainer.update(batches)
        except TrainingFailed as error:
            raise TrainingFailed(f"{error}; {self.last_good()}") from None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            model, settings = self.trainer.model.settings, self.trainer.settings
            rows, width = max((batch.inputs.shape for batch in batches), key=math.prod)
            raise CommandFailed(
                f"update {self.trainer.updates + 1}: out of memory in a mini-batch of {rows} x {width} tokens; lower "
                f"train.batch_size = {settings.batch_size} or model.context = {model.context}, or set train.recompute"
            ) from None
        self.train_s += time.perf_counter() - start
        self.curves.add(self.trainer.updates, self.trainer.tokens, loss, rate, norm)
        return loss

    def after_update(self, before: int) -> None:
        """Everything that is due after an update; `before`: tokens seen before it."""
        trainer, settings = self.trainer, self.trainer.settings
        due = trainer.updates % settings.validate_every == 0
        if due or self.checkpoints.ends_an_epoch(before, trainer.tokens):
            self.validate(counts=due)
        self.keep(self.checkpoints.between(before, trainer.tokens))
        if self.logger is not None and self.logger.due():
            self.logger.send(trainer.updates, self.curves.newest())
        if trainer.updates % settings.sample_every == 0:
            self.sample()
        if self.snapshots is not None and self.snapshots.due():
            self.save()

    def validate(self, counts: bool = True) -> None:
        """Measure the held-out loss; a validation that does not count does not use up patience."""
        trainer, model, settings = self.trainer, self.trainer.model, self.trainer.settings
        if trainer.group.align(trainer.tensors()):
            self.progress.write(
                f"update {trainer.updates}: the ranks' weights differed by rounding; all took those of rank 0"
            )
        nats, tokens = trainer.group.summed_loss(
            lambda batches: split_loss(model, batches, settings.precision), self.held_out()
        )
        loss = nats / tokens
        if not math.isfinite(nats):
            raise TrainingFailed(
                f"update {trainer.updates}: held-out loss {loss:.4g}: not finite; lower train.lr or set "
                f"train.clip_norm; {self.last_good()}"
            )
        self.curves.held_out.append((trainer.updates, trainer.tokens, loss))
        if self.stopping.observe(loss, trainer.updates, counts) and settings.patience is not None:
            self.best = {
                name: tensor.detach().clone() for name, tensor in model.state_dict().items()
            }
        self.progress.write(
            f"update {trainer.updates}, {trainer.tokens:,} tokens: held-out loss {loss:.4f} "
            f"(perplexity {capped_perplexity(loss):.2f})"
        )
        if self.logger is not None:
            self.logger.send(trainer.updates, {"held_out_loss": loss, "tokens": trainer.tokens})

    def sample(self) -> None:
        """Let the model write a sample, without dropout."""
        trainer, samples = self.trainer, self.curves.samples
        if self.on_sample is not None and not (samples and samples[-1][0] == trainer.updates):
            trainer.model.eval()
            now = trainer.updates, trainer.tokens
            samples.append((*now, self.on_sample(*now)))
            trainer.model.train()

    def keep(self, epochs: list[float]) -> None:
        """Keep the weights as those of the given epochs."""
        if self.snapshots is not None:
            for epoch in epochs:
                self.snapshots.keep(f"{epoch:g}", self.trainer.model.state_dict())

    def save(self) -> None:
        """Write a snapshot. Raises TrainingFailed, and writes none, if a weight is not finite."""
        if self.snapshots is not None:
            try:
                self.snapshots.save(self.trainer.updates, *self.state())
            except TrainingFailed as error:
                raise TrainingFailed(f"{error}; {self.last_good()}") from None

    def last_good(self) -> str:
        """Which snapshot is the newest, in words."""
        newest = self.snapshots.newest if self.snapshots is not None else None
        return f"last good snapshot: {newest}" if newest else "no snapshot was written yet"

    def saved(self) -> str:
        """How far a run that ends with a snapshot got, in words."""
        return (
            f"after update {self.trainer.updates}, {self.trainer.tokens:,} tokens; snapshot written: "
            "run the same command again to go on from there"
        )

    def signal(self, received: list[int]) -> int:
        """Number of a signal that any rank has received, 0 if none has."""
        with self.between_updates():
            return self.trainer.group.largest(received[0] if received else 0)

    @contextlib.contextmanager
    def between_updates(self) -> Iterator[None]:
        """Inside, the state is that of the last whole update: if a rank is lost there, a snapshot is written."""
        try:
            yield
        except RankLost as error:
            if self.snapshots is not None:
                with contextlib.suppress(OSError, TrainingFailed):
                    self.save()
                    raise RankLost(str(error), self.saved()) from None
            raise

    def stop(self, number: int) -> None:
        """End the run on a signal: write a snapshot and raise Interrupted."""
        self.save()
        self.trainer.group.wait()  # a rank that exits first could make the launcher end rank 0 while it writes
        raise Interrupted(number, f"interrupted {self.saved()}")

    def end(self) -> None:
        """Keep the weights of epochs almost reached; validate and sample, unless the last update has."""
        trainer = self.trainer
        reached = self.checkpoints.almost_reached(trainer.tokens, trainer.end)
        self.keep(reached)
        for epoch in self.checkpoints.between(trainer.tokens, trainer.end):
            if epoch not in reached:
                done = trainer.tokens / self.checkpoints.tokens_per_epoch
                self.progress.write(
                    f"epoch {epoch:g} was not reached: the run ended at {done:.3g}; no weights kept"
                )
        if self.curves.held_out[-1][0] != trainer.updates:
            self.validate()
        self.sample()
        self.save()  # what follows training may be interrupted too

    def result(self) -> TrainResult:
        """Restore the best weights, if early stopping kept any, and sum up the run."""
        if self.best:
            self.trainer.model.load_state_dict(self.best)
        return TrainResult(
            curves=self.curves,
            last_held_out=self.curves.held_out[-1][2],
            best_held_out=self.stopping.best,
            best_update=self.stopping.best_update,
            stopped_early=self.stopping.should_stop,
            kept_best=bool(self.best),
            train_s=self.train_s,
            earlier_s=self.earlier_s,
        )


def train(
    model: TinyLM,
    batches: TrainBatches,
    held_out: Callable[[], Iterable[Batch]],
    settings: TrainSettings,
    *,
    log_every_s: float = 5.0,
    on_sample: Callable[[int, int], list[str]] | None = None,
    snapshots: Snapshots | None = None,
    logger: Logger | None = None,
    group: Group | None = None,
) -> TrainResult:
    """Train until the next update would exceed the budget, or early stopping ends the run.

    Held-out loss is measured before the first update, every `validate_every` updates, at the end of each epoch (without
    using up patience) and at the end. `on_sample` gets (updates, tokens) every `sample_every` updates and at both ends
    and returns the sample's text. With early stopping the model is left with the weights of the best held-out loss,
    otherwise with the last. With `snapshots`, an interrupted run continues from its newest one and ends with the same
    bytes, and the weights after `keep_epochs` are kept there. `logger` gets the curves as they grow. In a `group` every
    rank calls this alike, and rank 0 alone samples, logs and writes.
    """
    group = group or Group()
    if not group.is_rank0:
        on_sample = snapshots = logger = None
    trainer = Trainer(model, batches, settings, group)
    checkpoints = EpochCheckpoints(settings.keep_epochs, batches.tokens_per_epoch, trainer.end)
    stopping = EarlyStopping(settings.patience)
    with (
        Progress("train", trainer.end, "tokens", log_every_s) as progress,
        signals_noted(snapshots is not None or group.size > 1) as received,
    ):
        run = _Run(trainer, held_out, on_sample, snapshots, logger, checkpoints, progress, stopping)
        state = group.from_rank0(snapshots.latest() if snapshots is not None else None)
        if state is not None:
            run.restore(*state)
            progress.write(f"resumed after update {trainer.updates}, {trainer.tokens:,} tokens")
            progress.resume(trainer.tokens)
        else:
            run.validate()
            run.sample()
        while not (signal := run.signal(received)) and not run.stopping.should_stop:
            upcoming, before = trainer.next_batches(), trainer.tokens
            tokens = sum(batch.tokens for batch in upcoming)
            if before + tokens > trainer.end:
                if not trainer.updates:
                    raise InputError(budget_too_small(settings, trainer.end, tokens))
                break
            loss = run.update(upcoming)
            progress.advance(tokens, f"loss {loss:.3f}")
            run.after_update(before)
        if not signal:
            run.end()
            signal = run.signal(received)
        if signal:
            run.stop(signal)
    return run.result()


def budget_too_small(settings: TrainSettings, end: int, least: int) -> str:
    """The message if the budget does not allow a single update."""
    name = (
        "stop_after"
        if settings.stop_after is not None
        else "tokens"
        if settings.tokens is not None
        else "epochs"
    )
    value = getattr(settings, name) if name != "epochs" else f"{settings.epochs}: {end} tokens"
    return f"{PARAMS_FILE}: train.{name} = {value}; allowed: at least {least}, one update"
