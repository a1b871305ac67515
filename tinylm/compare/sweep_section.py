"""A sweep as a picture: loss against what was varied, a line for each of the other settings, a band over its seeds."""

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from tinylm.compare.groups import SEED_KEY, Group, grouped
from tinylm.compare.runs import Run
from tinylm.report.blocks import Blocks, gallery, picture
from tinylm.report.charts import draw_curves
from tinylm.report.drawing import STYLE, settle, to_svg
from tinylm.report.wording import figure, many

NAME = "sweep"
FEWEST_PLACES, MOST_LINES = 2, 6
_WIDE = 20  # times the smallest value: from there on, the axis is logarithmic
_LOSSES = (("nats_per_token", "nats per token"), ("bits_per_byte", "bits per byte"))


@dataclasses.dataclass(frozen=True)
class Line:
    """Settings that differ in one number: its values, increasing, mean, lowest and highest loss over their seeds."""

    places: list[float]
    means: list[float]
    lows: list[float]
    highs: list[float]
    seeds: list[int]

    @property
    def band(self) -> bool:
        """Whether every setting has several seeds."""
        return min(self.seeds) > 1


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A line for each choice of the other parameters that were varied ("" if there are none)."""

    key: str
    unit: str
    lines: dict[str, Line]


def sweep_of(runs: Sequence[Run], same_tokens: bool) -> Sweep | None:
    """The sweep over the number with the most values; None if fewer than `FEWEST_PLACES` were tried, or too much
    else differs to be drawn. same_tokens: whether nats per token may be compared, else bits per byte are."""
    groups = grouped(runs)
    name, unit = _LOSSES[not same_tokens]
    keys = groups[0].first.deciding if groups else {}
    values = {key: [group.first.deciding.get(key) for group in groups] for key in keys}
    varied = {
        key: row for key, row in values.items() if key != SEED_KEY and len(set(map(repr, row))) > 1
    }
    numbers = {key: len(set(row)) for key, row in varied.items() if all(map(_is_number, row))}
    if not numbers:
        return None
    key = max(numbers, key=numbers.__getitem__)
    points: dict[str, dict[float, Group]] = {}
    for group in groups:
        others = ", ".join(
            f"{other} {group.first.deciding.get(other)}" for other in varied if other != key
        )
        points.setdefault(others, {}).setdefault(float(group.first.deciding[key]), group)
    lines = {others: _line(by_place, name) for others, by_place in points.items()}
    lines = {others: line for others, line in lines.items() if len(line.places) >= FEWEST_PLACES}
    return Sweep(key, unit, lines) if 0 < len(lines) <= MOST_LINES else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _line(by_place: dict[float, Group], name: str) -> Line:
    losses = {
        place: list(group.figures(name).values()) for place, group in sorted(by_place.items())
    }
    known = {place: found for place, found in losses.items() if found}
    means, lows, highs = (
        [of(found) for found in known.values()] for of in (statistics.fmean, min, max)
    )
    return Line(list(known), means, lows, highs, [len(found) for found in known.values()])


def sweep_gallery(found: Sweep) -> Blocks:
    """The picture of `sweep_svg` as a block, with the number of seeds."""
    seeds = sorted({count for line in found.lines.values() for count in line.seeds})
    told = many(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    banded = any(line.band for line in found.lines.values())
    says = (
        "Lines: means. Bands: lowest to highest."
        if banded
        else "Without several seeds, there are no bands."
    )
    return gallery(picture(NAME, f"{told} for each setting. {says}"))


def sweep_svg(found: Sweep) -> str:
    """Inline SVG."""
    lines = {others or found.unit: line for others, line in found.lines.items()}
    with rc_context(STYLE):
        drawing = settle(draw_sweep(found, lines))
    told = "; ".join(
        f"{name} from {figure(line.means[0])} to {figure(line.means[-1])}"
        for name, line in lines.items()
    )
    return to_svg(drawing, NAME, f"Loss against {found.key}: {told}.")


def draw_sweep(found: Sweep, lines: dict[str, Line]) -> Figure:
    """Means over seeds against the varied number, lowest to highest as bands."""
    drawing = draw_curves(
        {name: (line.places, line.means) for name, line in lines.items()},
        f"Loss against {found.key}",
        found.key,
        found.unit,
        bands={
            name: (line.places, line.lows, line.highs) for name, line in lines.items() if line.band
        },
        counted_x=False,
    )
    places = [place for line in lines.values() for place in line.places]
    if min(places) > 0 and max(places) > _WIDE * min(places):
        drawing.axes[0].set_xscale("log")
    return drawing
