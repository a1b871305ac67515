"""The training loop: updates over a token budget, with validation, samples, early stopping and snapshots."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.host.command import CommandFailed, Interrupted, is_out_of_memory, signals_noted
from tinylm.host.loggers import Logger
from tinylm.host.runtime import Progress
from tinylm.model.transformer import TinyLM
from tinylm.scoring.split_loss import split_loss
from tinylm.text.batches import Batch, TrainBatches
from tinylm.training.distributed import Group, RankLost
from tinylm.training.moments import Moments
from tinylm.training.run_state import Curves, Run, TrainResult
from tinylm.training.snapshot import Snapshots
from tinylm.training.stopping import EarlyStopping
from tinylm.training.trainer import Trainer, TrainingFailed, TrainSettings


@dataclasses.dataclass
class _Watch:
    """What happens beside the updates: validations, samples, weights kept, figures sent, snapshots."""

    run: Run
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
        if trainer.group.align(trainer.tensors()):
            self.progress.write(
                f"update {trainer.updates}: ranks had come apart by rounding; all took rank 0's weights"
            )
        nats, tokens = trainer.group.summed_loss(
            lambda batches: split_loss(model, batches, settings.precision), self.held_out()
        )
        if not math.isfinite(nats):
            raise TrainingFailed(
                f"update {trainer.updates}: held-out loss {nats / tokens:.4g}: not finite; lower train.lr or set "
                f"train.clip_norm; {self.last_good()}"
            )
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
        curve = self.run.curves.samples
        if self.on_sample is not None and not (curve and curve[-1][0] == trainer.updates):
            trainer.model.eval()
            at = trainer.updates, trainer.tokens
            curve.append((*at, self.on_sample(*at)))
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
            self.save()

    def save(self) -> None:
        """Write a snapshot; one with a weight that is no number is refused with TrainingFailed."""
        if self.snapshots is not None:
            try:
                self.snapshots.save(self.run.trainer.updates, *self.run.snapshot())
            except TrainingFailed as error:
                raise TrainingFailed(f"{error}; {self.last_good()}") from None

    def last_good(self) -> str:
        """Where the newest snapshot lies, in words."""
        newest = self.snapshots.newest if self.snapshots is not None else None
        return f"last good snapshot: {newest}" if newest else "no snapshot was written yet"

    def stop(self, number: int) -> None:
        """A signal came: write a snapshot and raise Interrupted."""
        self.save()
        self.run.trainer.group.wait()  # a rank that ends sooner could have the lead ended in the middle of it
        raise Interrupted(number, f"interrupted {self.saved()}")

    def signal(self, came: list[int]) -> int:
        """Number of a signal that came to any rank, 0 where none did."""
        with self.between_updates():
            return self.run.trainer.group.largest(came[0] if came else 0)

    def saved(self) -> str:
        """Where a run stands that ends with a snapshot, in words."""
        trainer = self.run.trainer
        return (
            f"after update {trainer.updates}, {trainer.tokens:,} tokens; snapshot written: "
            "run the same command again to go on from there"
        )

    @contextlib.contextmanager
    def between_updates(self) -> Iterator[None]:
        """Inside, the state is still that of the last whole update: where a rank is lost, it is saved."""
        try:
            yield
        except RankLost as error:
            if self.snapshots is not None:
                with contextlib.suppress(OSError, TrainingFailed):
                    self.save()
                    raise RankLost(str(error), self.saved()) from None
            raise

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
        self.sample()
        self.save()  # what follows the run may be cut off too


def train(
    model: TinyLM,
    batches: TrainBatches,
    held_out: Callable[[], Iterable[Batch]],
    settings: TrainSettings,
    log_every_s: float = 5.0,
    on_sample: Callable[[int, int], str] | None = None,
    snapshots: Snapshots | None = None,
    logger: Logger | None = None,
    group: Group | None = None,
) -> TrainResult:
    """Train until the next update would pass the end of the budget, or early stopping says so.

    Held-out loss is measured before the first update, every `validate_every` updates, at the end of each epoch (which
    takes no patience) and at the end. `on_sample` gets (updates, tokens) every `sample_every` updates and at both
    ends and returns the sample's text. With early stopping the model is left with the weights of the best held-out
    loss, else with the last. With `snapshots`, a run that was cut off goes on from its newest one and ends with the
    same bytes, and the weights after `keep_epochs` are kept there. `logger` gets the curves as they grow. In a `group`
    every rank calls this alike, and the lead alone samples, logs and writes.
    """
    group = group or Group()
    if not group.leads:
        on_sample = snapshots = logger = None
    trainer = Trainer(model, batches, settings, group)
    run = Run(trainer, Curves(), EarlyStopping(settings.patience))
    moments = Moments(settings.keep_epochs, batches.tokens_per_epoch, trainer.end)
    with (
        Progress("train", trainer.end, "tokens", log_every_s) as progress,
        signals_noted(snapshots is not None or group.size > 1) as came,
    ):
        watch = _Watch(run, held_out, on_sample, snapshots, logger, moments, progress)
        found = group.from_lead(snapshots.latest() if snapshots is not None else None)
        if found is not None:
            run.restore(*found)
            progress.write(f"resumed after update {trainer.updates}, {trainer.tokens:,} tokens")
            progress.resume(trainer.tokens)
        else:
            watch.validate()
            watch.sample()
        while not (signal := watch.signal(came)) and not run.stopping.should_stop:
            upcoming, before = trainer.next_batches(), trainer.tokens
            tokens = sum(batch.tokens for batch in upcoming)
            if before + tokens > trainer.end:
                _refuse_none(trainer, tokens)
                break
            loss = _update(watch, upcoming)
            progress.advance(tokens, f"loss {loss:.3f}")
            watch.update(before)
        if not signal:
            watch.end()
            signal = watch.signal(came)
        if signal:
            watch.stop(signal)
    return run.result()


def _update(watch: _Watch, upcoming: list[Batch]) -> float:
    """One update; an error says where the last good snapshot lies, and a lack of memory what to lower."""
    try:
        with watch.between_updates():
            return watch.run.update(upcoming)
    except TrainingFailed as error:
        raise TrainingFailed(f"{error}; {watch.last_good()}") from None
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        model, settings = watch.run.trainer.model.settings, watch.run.trainer.settings
        rows, width = max((batch.inputs.shape for batch in upcoming), key=math.prod)
        raise CommandFailed(
            f"update {watch.run.trainer.updates + 1}: out of memory in a mini-batch of {rows} x {width} tokens; lower "
            f"train.batch_size = {settings.batch_size} or model.context = {model.context}, or set train.recompute"
        ) from None


def _refuse_none(trainer: Trainer, tokens: int) -> None:
    """InputError where the budget does not hold its first update."""
    if not trainer.updates:
        s = trainer.settings
        name = "stop_after" if s.stop_after is not None else "tokens" if s.tokens is not None else "epochs"
        shown = getattr(s, name) if name != "epochs" else f"{s.epochs}: {trainer.end} tokens"
        raise InputError(f"{PARAMS_FILE}: train.{name} = {shown}; allowed: at least {tokens}, one update")
