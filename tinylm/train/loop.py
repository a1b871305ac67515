"""The training loop: updates over a token budget, with validation, early stopping and snapshots."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from tinylm.base.command import Interrupted, signals_noted
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.progress import Progress
from tinylm.model.checkpoint import checkpoint_name
from tinylm.train.core_share import CoreShare
from tinylm.train.cores import cores
from tinylm.train.curves import Curves, TrainResult
from tinylm.train.graphs import new_trainer
from tinylm.train.preparation import TrainingRun
from tinylm.train.settings import TrainSettings
from tinylm.train.snapshot import checkpoint_tokens
from tinylm.train.trainer import Result, TrainingFailed
from tinylm.train.validation import (
    best_validation,
    capped_perplexity,
    out_of_patience,
    split_loss,
)
from tinylm.vocab.batches import Batch, TrainBatches


def train(
    run: TrainingRun,
    *,
    sample_every: int = 1,
    on_sample: Callable[[int], None] | None = None,
    label: str = "",
) -> TrainResult:
    """Train until the next update would exceed the budget, or early stopping ends the run.

    The held-out loss is measured at the start and the end, every `validate_every` updates, and
    after each epoch; the measurements after epochs do not count against patience. `on_sample` is
    called with the number of tokens so far, at the start, every `sample_every` updates and at the
    end. With early stopping, the model ends with the weights of the best held-out loss, otherwise
    with the last weights. With snapshots, an interrupted run resumes from the last one and ends
    with bit-identical weights; the weights after `keep_epochs` are saved there, too. In a group,
    every rank calls this function; only rank 0 samples and writes. `label` prefixes every line.
    """
    check_budget(run.settings, run.batches)
    return _Loop(run, sample_every, on_sample, label).run_to_end()


def check_budget(settings: TrainSettings, batches: TrainBatches) -> None:
    """Raise InputError unless the budget allows an update.

    With a budget in epochs, a single mini-batch is enough (`Trainer.next_batches`).
    """
    key = "tokens" if settings.epochs is None else "epochs"
    mini_batches = settings.accumulation if settings.epochs is None else 1
    needed = batches.tokens_of(mini_batches)
    budget = settings.budget(batches.tokens_per_epoch)
    if budget < needed:
        raise InputError(
            f"{PARAMS_FILE}: train.{key}: expected a budget of at least {needed} tokens, enough "
            f"for one update, got {budget}"
        )


class _Loop:
    """The updates and what happens between them; snapshots save its state.

    checkpoints: see `checkpoint_tokens`. best: the weights with the lowest held-out loss.
    received: numbers of the signals that arrived.
    """

    def __init__(
        self,
        run: TrainingRun,
        sample_every: int,
        on_sample: Callable[[int], None] | None,
        label: str,
    ) -> None:
        is_rank0 = run.group.is_rank0
        self.run = run
        self.trainer = new_trainer(run.model, run.batches, run.settings, run.group)
        self.snapshots = run.snapshots if is_rank0 else None
        self.sample_every = sample_every
        self.on_sample = on_sample if is_rank0 else None
        self.received: list[int] = []
        self.curves = Curves()
        self.best: dict[str, Tensor] = {}
        self.core_share = None if run.model.embedding.is_cuda else CoreShare()
        self.checkpoints = checkpoint_tokens(
            run.settings.keep_epochs, run.batches.tokens_per_epoch, self.trainer.budget
        )
        self.progress = Progress("train", self.trainer.budget, "tokens", label)

    def run_to_end(self) -> TrainResult:
        """Run all updates. A signal ends the run: with snapshots or several processes, after the update."""
        waits_for_update = self.run.snapshots is not None or self.run.group.size > 1
        with self.progress, signals_noted(waits_for_update) as self.received:
            self.begin()
            self.stop_if_signalled()
            while not self.is_out_of_patience():
                batches = self.trainer.next_batches()
                if not batches:
                    break
                self.update(batches)
                self.stop_if_signalled()
            self.end()
            self.stop_if_signalled()
        return self.result()

    def begin(self) -> None:
        """Resume from the snapshot, or validate and sample before the first update."""
        trainer = self.trainer
        snapshots = self.run.snapshots  # every rank reads it
        state = None if snapshots is None else snapshots.latest()
        if state is None:
            self.validate()
            self.sample()
            self.progress.resume(0)  # validating a large split takes minutes
            return
        self.restore(*state)
        self.progress.write(f"resumed after update {trainer.updates}, {trainer.tokens:,} tokens")
        self.progress.resume(trainer.tokens)

    def update(self, batches: list[Batch]) -> None:
        """Run one update, then whatever is due: validation, checkpoints, sample, snapshot."""
        trainer = self.trainer
        before = trainer.tokens
        self.record(trainer.advance(batches))
        note = f"loss {self.curves.train[-1]:.3f}" if self.curves.train else ""
        self.progress.advance(trainer.tokens - before, note)
        if self.core_share and (warning := self.core_share.warning()):
            self.progress.write(warning)
        per_epoch = self.run.batches.tokens_per_epoch
        ends_an_epoch = trainer.tokens // per_epoch > before // per_epoch
        if ends_an_epoch or trainer.updates % self.run.settings.validate_every == 0:
            self.validate()
        self.keep_checkpoints(before, trainer.tokens)
        if trainer.updates % self.sample_every == 0:
            self.sample()
        if self.snapshots is not None and self.snapshots.due():
            self.save()

    def keep_checkpoints(self, after: int, to: int) -> None:
        """Keep the weights for the checkpoints whose tokens are above `after` and at most `to`."""
        for epoch, tokens in self.checkpoints.items():
            if self.snapshots is not None and after < tokens <= to:
                self.record(self.trainer.finish())
                self.snapshots.keep(checkpoint_name(epoch), self.trainer.model.state_dict())

    def record(self, results: list[Result]) -> None:
        """Add the results of updates to the curves."""
        for result in results:
            self.curves.add(*result)

    def validate(self) -> None:
        """Measure the held-out loss."""
        self.record(self.trainer.finish())
        trainer = self.trainer
        model = trainer.model
        settings = trainer.settings
        count = cores(model.embedding.device)
        nats, tokens = self.run.group.summed_loss(
            lambda batches: split_loss(model, batches, settings.precision, count), self.held_out()
        )
        loss = nats / tokens
        if not math.isfinite(nats):
            raise TrainingFailed(
                f"update {trainer.updates}: held-out loss {loss:.4g} is not finite; lower train.lr "
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

    def held_out(self) -> Iterator[Batch]:
        """The held-out batches. With one process, a signal ends the run between two of them.

        No snapshot is written then: it would lack this validation.
        """
        for batch in self.run.held_out():
            if self.received and self.run.group.size == 1:
                has_snapshot = self.snapshots is not None and self.snapshots.exist()
                place = (
                    "continue from the last snapshot"
                    if has_snapshot
                    else "start from the beginning"
                )
                raise Interrupted(
                    self.received[0],
                    f"interrupted during the validation after update {self.trainer.updates}: "
                    f"run the same command again to {place}",
                )
            yield batch

    def is_out_of_patience(self) -> bool:
        """Whether early stopping ends the run."""
        settings = self.trainer.settings
        return out_of_patience(self.curves.held_out, settings.patience, settings.validate_every)

    def sample(self) -> None:
        """Print a sample from the model."""
        if self.on_sample is not None:
            self.record(self.trainer.finish())
            self.on_sample(self.trainer.tokens)

    def save(self) -> None:
        """Write a snapshot: everything that determines how the run continues."""
        if self.snapshots is None:
            return
        self.record(self.trainer.finish())
        tensors = self.trainer.state_dict()
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        numbers = {
            "updates": self.trainer.updates,
            "tokens": self.trainer.tokens,
            "curves": dataclasses.asdict(self.curves),
            "train_s": self.trainer.train_s,
        }
        self.snapshots.save(tensors, numbers)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Resume from what `save` wrote."""
        self.trainer.load_state_dict(tensors, numbers["updates"], numbers["tokens"])
        self.curves = Curves(**numbers["curves"])
        for name, tensor in tensors.items():
            if name.startswith("best."):
                self.best[name.removeprefix("best.")] = tensor
        self.trainer.train_s = numbers["train_s"]

    def stop_if_signalled(self) -> None:
        """End the run if any rank has received a signal: write a snapshot and raise Interrupted."""
        number = int(self.run.group.gather(self.received[0] if self.received else 0).max())
        if not number:
            return
        self.save()
        self.run.group.wait()  # torchrun kills rank 0 as soon as another rank exits
        raise Interrupted(
            number,
            f"interrupted after update {self.trainer.updates}, {self.trainer.tokens:,} tokens; "
            "a snapshot was written: run the same command again to continue from it",
        )

    def end(self) -> None:
        """Keep the last checkpoints, validate and sample once more if needed, and write a snapshot.

        A run ends up to one update before its budget, so checkpoints beyond its last update but
        within the budget get its last weights.
        """
        trainer = self.trainer
        missed = [epoch for epoch, tokens in self.checkpoints.items() if tokens > trainer.tokens]
        if not self.is_out_of_patience():
            self.keep_checkpoints(trainer.tokens, trainer.budget)
        elif missed:
            epochs = ", ".join(checkpoint_name(epoch) for epoch in missed)
            self.progress.write(f"early stopping: no checkpoint after {epochs} epochs")
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
            train_s=self.trainer.train_s,
        )
