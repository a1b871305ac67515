"""A figure with alt text, and the type of function that draws it."""

import dataclasses
from collections.abc import Callable

from matplotlib.figure import Figure

from tinylm.reporting.curves import Curves
from tinylm.reporting.drawing import settle
from tinylm.reporting.sources import Run
from tinylm.reporting.wording import figure


@dataclasses.dataclass(frozen=True)
class Picture:
    """A drawn figure and its alt text, for readers who cannot see it."""

    figure: Figure
    alt: str

    def __post_init__(self) -> None:
        settle(self.figure)


Draw = Callable[[Run], Picture | None]


def ends(lines: Curves) -> str:
    """Where each curve begins and ends, in words."""
    return "; ".join(f"{name} from {figure(ys[0])} to {figure(ys[-1])}" for name, (_, ys) in lines.items())
