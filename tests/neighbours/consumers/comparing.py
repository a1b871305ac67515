"""What the scripts here share: the models that were written, and the lines that are printed.

It needs numpy alone, and nothing of tinylm: the scripts run in the environments of their tools.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NOTICED = 1e-3  # a difference of logits, nats or texts that is not rounding

NONE_DRAWN = "No model was drawn for which this can be compared."


@dataclass(frozen=True)
class Written:
    """One model: its folder, card.json and expected.npz (tests/neighbours/models.py says what they hold)."""

    folder: Path
    card: dict[str, Any]
    expected: dict[str, np.ndarray]

    def rounding(self, kind: str = "float32") -> float:
        """How far logits may be from tinylm's if both round to this type: infinite where it overflows."""
        unit = self.card["rounding"][kind]
        return float("inf") if unit is None else unit + self.card["rounding"]["float32"]


def written_models(form: str | None = None) -> list[Written]:
    """The models below the folder that the script is called with; form: those exported so."""
    models = []
    for path in sorted(Path(sys.argv[1]).glob("*/card.json")):
        card = json.loads(path.read_text("utf-8"))
        if form is None or form in card["formats"]:
            expected = dict(np.load(path.parent / "expected.npz"))
            models.append(Written(path.parent, card, expected))
    return models


class Report:
    """Prints a line for each comparison, and remembers whether one was above its bound."""

    def __init__(self, tool: str, version: str) -> None:
        self.tool = tool
        self.version = version
        self.failed = False

    def compare(
        self, compared: str, unit: str, pairs: Sequence[tuple[float, float]], says: str = ""
    ) -> None:
        """pairs: (difference, its bound) for each model. The line has the pair nearest to its bound, or furthest above.

        says: a sentence that a user needs. A difference that is not a number is infinite.
        """
        finite = [(np.nan_to_num(each, nan=np.inf), bound) for each, bound in pairs]
        finite = [(float(each), float(bound)) for each, bound in finite if bound < np.inf]
        if not finite:
            self.refused(compared, NONE_DRAWN)
            return
        difference, bound = max(
            finite, key=lambda pair: (pair[0] > pair[1], pair[0] / (pair[1] or 1))
        )
        self.failed |= difference > bound
        self._print(compared, len(finite), difference, unit, bound, says)

    def known(self, compared: str, unit: str, differences: Sequence[float], says: str) -> None:
        """A trap: a difference for each model that users meet unless they do what `says` tells them; it has no bound.

        Once the tool has none, the sentence is out of date: that fails, too.
        """
        if not differences:
            self.refused(compared, NONE_DRAWN)
            return
        largest = max(map(float, differences))
        if largest < NOTICED:
            self.failed = True
            says = f"This difference is gone, remove it: {says}"
        self._print(compared, len(differences), largest, unit, None, says)

    def refused(self, compared: str, why: str) -> None:
        """A comparison that the tool cannot make, and why, in a sentence."""
        self._print(compared, 0, None, "", None, why)

    def raises(self, compared: str, call: Callable[[], object], error: type, says: str) -> None:
        """A call that raises `error`, as `says` tells users; once it does not, the sentence is out of date: that fails."""
        try:
            call()
        except error:
            self.refused(compared, says)
        else:
            self.failed = True
            self.refused(compared, f"This works now, remove it: {says}")

    def _print(self, compared, models, difference, unit, bound, says) -> None:
        line = {
            "tool": self.tool, "version": self.version, "compared": compared, "models": models,
            "difference": difference, "unit": unit, "bound": bound, "says": says,
        }  # fmt: skip
        print(json.dumps(line), flush=True)

    def end(self) -> None:
        """Leave with 1 if a difference was above its bound."""
        sys.exit(1 if self.failed else 0)
