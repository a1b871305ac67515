"""What the scripts here share: they read the models, compare, and print the results as lines of JSON.

Needs only numpy, and not tinylm, since the scripts run in the environments of their tools.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NOTICED = 1e-3  # the smallest difference of logits, nats or counts that cannot be rounding
BEAMS = 5  # of tinylm's beam search

NONE_DRAWN = "None of the drawn models allows this comparison."


@dataclass(frozen=True)
class Written:
    """One model: its folder, card.json and expected.npz (tests/neighbours/models.py says what they hold)."""

    folder: Path
    card: dict[str, Any]
    expected: dict[str, np.ndarray]

    def rounding(self, kind: str = "float32") -> float:
        """How far logits of this type may be from tinylm's float32; infinite if the type overflows."""
        unit = self.card["rounding"][kind]
        return float("inf") if unit is None else unit + self.card["rounding"]["float32"]

    def beam_search(self) -> dict[str, Any]:
        """Arguments of transformers' `generate()` for the search that gave `beams` of expected.npz."""
        return {
            "num_beams": BEAMS,
            "length_penalty": self.card["length_penalty"],
            "early_stopping": "never",
        }


def written_models(form: str | None = None) -> list[Written]:
    """The models in the folder that the script is called with; form: only those exported in this format."""
    models = []
    for path in sorted(Path(sys.argv[1]).glob("*/card.json")):
        card = json.loads(path.read_text("utf-8"))
        if form is None or form in card["formats"]:
            expected = dict(np.load(path.parent / "expected.npz"))
            models.append(Written(path.parent, card, expected))
    return models


class Report:
    """Prints a line for each comparison, and remembers whether one failed."""

    def __init__(self, tool: str, version: str) -> None:
        self.tool = tool
        self.version = version
        self.failed = False

    def compare(
        self, compared: str, unit: str, pairs: Sequence[tuple[float, float]], says: str = ""
    ) -> None:
        """Print the difference that is nearest to its bound, or furthest above it.

        pairs: (difference, its bound) for each model. A difference that is not a number counts as infinite; models
        with an infinite bound are left out. says: a sentence that a user needs.
        """
        bounded = [
            (float(np.nan_to_num(each, nan=np.inf)), float(bound))
            for each, bound in pairs
            if bound < np.inf
        ]
        if not bounded:
            self.refused(compared, NONE_DRAWN)
            return
        difference, bound = max(
            bounded, key=lambda pair: (pair[0] > pair[1], pair[0] / (pair[1] or 1))
        )
        self.failed |= difference > bound
        self._print(compared, len(bounded), difference, unit, bound, says)

    def known(self, compared: str, unit: str, differences: Sequence[float], says: str) -> None:
        """Print a difference that users meet unless they do what `says` tells them. It has no bound.

        Fails once the difference is gone, since the sentence is then out of date.
        """
        if not differences:
            self.refused(compared, NONE_DRAWN)
            return
        largest = max(map(float, differences))
        if largest < NOTICED:
            self._fail_as_outdated(compared, "a difference", f"{largest:.2g} {unit}")
        self._print(compared, len(differences), largest, unit, None, says)

    def refused(self, compared: str, why: str) -> None:
        """Print that this cannot be compared, and why, in a sentence."""
        self._print(compared, 0, None, "", None, why)

    def raises(self, compared: str, call: Callable[[], object], error: type, says: str) -> None:
        """Print that a call raises `error`, as `says` tells users. Fails once it does not."""
        try:
            call()
        except error:
            pass
        else:
            self._fail_as_outdated(compared, error.__name__, "no error")
        self.refused(compared, says)

    def _fail_as_outdated(self, compared: str, expected: str, found: str) -> None:
        """The driver shows standard error where no bound tells what failed."""
        self.failed = True
        print(f"{compared}: expected {expected}, got {found}; remove its sentence", file=sys.stderr)

    def _print(self, compared, models, difference, unit, bound, says) -> None:
        line = {
            "tool": self.tool, "version": self.version, "compared": compared, "models": models,
            "difference": difference, "unit": unit, "bound": bound, "says": says,
        }  # fmt: skip
        print(json.dumps(line), flush=True)

    def end(self) -> None:
        """Exit with 1 if a comparison failed, otherwise with 0."""
        sys.exit(1 if self.failed else 0)
