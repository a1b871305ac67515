"""The figures of each run side by side."""

import dataclasses
from typing import Any

from tinylm.compare.runs import Run
from tinylm.reporting.sources import as_number
from tinylm.reporting.wording import ABSENT, count, figure, interval, loss


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure by its place in metrics/STAGE.json, and how it is written; `ends`: where its interval stands apart."""

    label: str
    stage: str
    keys: tuple[str, ...]
    written: Any
    ends: tuple[str, ...] = ()

    def of(self, run: Run) -> tuple[float | None, tuple[float, float] | None]:
        """(value, its own 95 % interval), None where the run lacks it."""
        found = run.value(self.stage, *self.keys)
        ends = interval(run.value(self.stage, *self.ends) if self.ends else found)
        return as_number(found.get("value") if isinstance(found, dict) else found), ends

    def cell(self, run: Run) -> str:
        """The value with its interval as text."""
        value, ends = self.of(run)
        text = self.written(value)
        return text if ends is None or text == ABSENT else f"{text} ({' to '.join(map(self.written, ends))})"


def four(value: Any) -> str:
    """Four significant digits."""
    return figure(value, 4)


FIGURES = (
    Figure("perplexity", "evaluate", ("perplexity",), four, ("perplexity_interval",)),
    Figure("bits per byte", "evaluate", ("bits_per_byte",), four),
    Figure("BLEU of four words", "evaluate", ("samples", "bleu4"), figure),
    Figure("Kneser-Ney's perplexity", "evaluate", ("baselines", "kneser_ney", "perplexity"), four),
    Figure("held-out loss", "train", ("held_out_loss_best",), loss),
    Figure("train loss", "train", ("train_loss",), loss),
    Figure("parameters", "train", ("parameters",), count),
    Figure("tokens seen", "train", ("tokens",), count),
)
