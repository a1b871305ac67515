"""A training run under way and its outcome: what a snapshot holds and a resumed run takes up again."""

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from tinylm.text.batches import Batch
from tinylm.training.stopping import EarlyStopping
from tinylm.training.trainer import Trainer


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
    earlier_s: float  # of the whole, in the processes that this run was taken up from

    @property
    def tokens(self) -> int:
        """Scored tokens that all updates have seen."""
        return self.curves.tokens[-1] if self.curves.tokens else 0

    def timing(self) -> dict[str, float]:
        """Seconds of all updates and their tokens a second, rounded."""
        return {
            "train_s": round(self.train_s, 3),
            "tokens_per_s": round(self.tokens / max(self.train_s, 1e-9), 1),
        }


@dataclasses.dataclass
class Run:
    """A run under way: what a snapshot holds and a resumed run takes up again."""

    trainer: Trainer
    curves: Curves
    stopping: EarlyStopping
    best: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    train_s: float = 0.0
    earlier_s: float = 0.0
    started: float = dataclasses.field(default_factory=time.perf_counter)

    def snapshot(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """(tensors, numbers) of everything that decides how the run goes on. Raises TrainingFailed: not finite."""
        tensors = self.trainer.tensors() | {f"best.{name}": tensor for name, tensor in self.best.items()}
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
        """The reverse of `snapshot`."""
        self.trainer.restore(tensors, numbers["updates"], numbers["tokens"])
        self.curves = Curves(**numbers["curves"])
        self.stopping = EarlyStopping(**numbers["stopping"])
        self.best = {name.removeprefix("best."): t for name, t in tensors.items() if name.startswith("best.")}
        self.train_s, self.earlier_s = numbers["train_s"], numbers["run_s"]

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
            self.curves,
            last,
            stopping.best,
            stopping.best_update,
            stopping.should_stop,
            bool(self.best),
            self.train_s,
            self.earlier_s,
        )
