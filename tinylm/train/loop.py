"""The training loop: updates over a token budget, with validation, early stopping and snapshots."""

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.host.command import Interrupted, signals_noted
from tinylm.host.progress import Progress
from tinylm.model.transformer import TinyLM
from tinylm.train.curves import Curves, TrainResult
from tinylm.train.distributed import Group
from tinylm.train.graphs import new_trainer
from tinylm.train.schedules import best_validation, checkpoint_tokens, out_of_patience
from tinylm.train.settings import TrainSettings
from tinylm.train.snapshot import Snapshots
from tinylm.train.split_loss import capped_perplexity, split_loss
from tinylm.train.trainer import Trainer, TrainingFailed, Update
from tinylm.vocab.batches import Batch, TrainBatches


def train(
    model: TinyLM,
    batches: TrainBatches,
    held_out: Callable[[], Iterable[Batch]],
    settings: TrainSettings,
    *,
    sample_every: int = 1,
    on_sample: Callable[[int], None] | None = None,
    snapshots: Snapshots | None = None,
    group: Group | None = None,
    label: str = "",
) -> TrainResult:
    """Train until the next update would exceed the budget, or early stopping ends the run.

    Held-out loss is measured at the start and the end, every `validate_every` updates, and after
    each epoch. The last uses up no patience. `on_sample` is called with the number of tokens so
    far: at the start, every `sample_every` updates and at the end. With early stopping, the model
    ends with the weights of the best held-out loss, otherwise with the last. With `snapshots`, an
    interrupted run continues from its newest one, and ends with the same weights to the bit. The
    weights after `keep_epochs` are saved there, too. In a `group` every rank calls this function;
    only rank 0 samples and writes.
    `label` is printed in front of every line.
    """
    group = group or Group()
    if not group.is_rank0:
        on_sample = snapshots = None
    trainer = new_trainer(model, batches, settings, group)
    needed = sum(batch.tokens for batch in trainer.next_batches())
    if needed > trainer.budget:
        raise InputError(
            f"{PARAMS_FILE}: train.tokens: expected at least {needed}, the tokens of one update, "
            f"got {trainer.budget}"
        )
    checkpoints = checkpoint_tokens(settings.keep_epochs, batches.tokens_per_epoch, trainer.budget)
    with (
        Progress("train", trainer.budget, "tokens", label) as progress,
        signals_noted(snapshots is not None or group.size > 1) as received,
    ):
        run = _Run(trainer, held_out, sample_every, on_sample, snapshots, checkpoints, progress)
        run.begin()
        run.stop_if_signalled(received)
        while not run.is_out_of_patience():
            upcoming = trainer.next_batches()
            if trainer.tokens + sum(batch.tokens for batch in upcoming) > trainer.budget:
                break
            run.update(upcoming)
            run.stop_if_signalled(received)
        run.end()
        run.stop_if_signalled(received)
    return run.result()


@dataclasses.dataclass
class _Run:
    """A run in progress: its state, which snapshots save, and the steps between updates.

    checkpoints: see `checkpoint_tokens`. best: the weights of the best held-out loss. pending:
    updates whose results are still to be read. train_s: seconds of all updates.
    """

    trainer: Trainer
    held_out: Callable[[], Iterable[Batch]]
    sample_every: int
    on_sample: Callable[[int], None] | None
    snapshots: Snapshots | None
    checkpoints: dict[float, int]
    progress: Progress
    curves: Curves = dataclasses.field(default_factory=Curves)
    best: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    pending: deque[Update] = dataclasses.field(default_factory=deque)
    train_s: float = 0.0

    def begin(self) -> None:
        """Continue from the newest snapshot, or validate and sample before the first update."""
        trainer = self.trainer
        state = self.snapshots.latest() if self.snapshots is not None else None
        state = trainer.group.broadcast(state)
        if state is None:
            self.validate()
            self.sample()
            return
        self.restore(*state)
        self.progress.write(f"resumed after update {trainer.updates}, {trainer.tokens:,} tokens")
        self.progress.resume(trainer.tokens)

    def update(self, batches: list[Batch]) -> None:
        """One update, then validation, checkpoints, sample and snapshot if due."""
        trainer = self.trainer
        settings = trainer.settings
        before = trainer.tokens
        start = time.perf_counter()
        self.pending.append(trainer.launch(batches))
        self.train_s += time.perf_counter() - start
        self.read(trainer.ahead if self.curves.train else 0)
        self.progress.advance(trainer.tokens - before, f"loss {self.curves.train[-1]:.3f}")
        per_epoch = trainer.batches.tokens_per_epoch
        ends_an_epoch = trainer.tokens // per_epoch > before // per_epoch
        if ends_an_epoch or trainer.updates % settings.validate_every == 0:
            self.validate()
        for epoch, tokens in self.checkpoints.items():
            if self.snapshots is not None and before < tokens <= trainer.tokens:
                self.snapshots.keep(f"{epoch:g}", trainer.model.state_dict())
        if trainer.updates % self.sample_every == 0:
            self.sample()
        if self.snapshots is not None and self.snapshots.due():
            self.save()

    def read(self, ahead: int = 0) -> None:
        """Add the results of all but the last `ahead` updates to the curves.

        Raises TrainingFailed if one is not finite.
        """
        start = time.perf_counter()
        while len(self.pending) > ahead:
            update = self.pending.popleft()
            loss, rate, norm = update.result()
            self.curves.add(update.all_tokens, loss, rate, norm)
        self.train_s += time.perf_counter() - start

    def validate(self) -> None:
        """Measure the held-out loss."""
        self.read()
        trainer = self.trainer
        model = trainer.model
        settings = trainer.settings
        nats, tokens = trainer.group.summed_loss(
            lambda batches: split_loss(model, batches, settings.precision), self.held_out()
        )
        loss = nats / tokens
        if not math.isfinite(nats):
            raise TrainingFailed(
                f"update {trainer.updates}: held-out loss {loss:.4g}: not finite; lower train.lr "
                "or set train.clip_norm"
            )
        self.curves.held_out.append((trainer.updates, trainer.tokens, loss))
        is_best = best_validation(self.curves.held_out)[0] == trainer.updates
        if is_best and settings.patience is not None:
            self.best = {name: t.detach().clone() for name, t in model.state_dict().items()}
        self.progress.write(
            f"update {trainer.updates}, {trainer.tokens:,} tokens: held-out loss {loss:.4f} "
            f"(perplexity {capped_perplexity(loss):.2f})"
        )

    def is_out_of_patience(self) -> bool:
        """Whether early stopping ends the run."""
        settings = self.trainer.settings
        return out_of_patience(self.curves.held_out, settings.patience, settings.validate_every)

    def sample(self) -> None:
        """Print a sample of the model."""
        if self.on_sample is not None:
            self.on_sample(self.trainer.tokens)

    def save(self) -> None:
        """Write a snapshot: everything that determines how the run continues."""
        if self.snapshots is None:
            return
        self.read()
        tensors = self.trainer.state_dict()
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        numbers = {
            "updates": self.trainer.updates,
            "tokens": self.trainer.tokens,
            "curves": dataclasses.asdict(self.curves),
            "train_s": self.train_s,
        }
        self.snapshots.save(self.trainer.updates, tensors, numbers)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Continue from what `save` wrote."""
        self.trainer.load_state_dict(tensors, numbers["updates"], numbers["tokens"])
        self.curves = Curves(**numbers["curves"])
        for name, tensor in tensors.items():
            if name.startswith("best."):
                self.best[name.removeprefix("best.")] = tensor
        self.train_s = numbers["train_s"]

    def stop_if_signalled(self, received: list[int]) -> None:
        """End the run if any rank has received a signal: write a snapshot and raise Interrupted."""
        number = int(self.trainer.group.gather(received[0] if received else 0).max())
        if not number:
            return
        self.save()
        self.trainer.group.gather(0.0)  # wait: the launcher ends rank 0 as soon as another ends
        raise Interrupted(
            number,
            f"interrupted after update {self.trainer.updates}, {self.trainer.tokens:,} tokens; "
            "snapshot written: run the same command again to continue from it",
        )

    def end(self) -> None:
        """Validate and sample once more if needed, and write a snapshot."""
        trainer = self.trainer
        if self.curves.held_out[-1][0] != trainer.updates:
            self.validate()
        if trainer.updates % self.sample_every:
            self.sample()
        self.save()  # writing the results may be interrupted, too

    def result(self) -> TrainResult:
        """Restore the best weights if early stopping saved any, and summarise the run."""
        if self.best:
            self.trainer.model.load_state_dict(self.best)
        return TrainResult(
            curves=self.curves,
            stopped_early=self.is_out_of_patience(),
            kept_best=bool(self.best),
            train_s=self.train_s,
        )
