"""The scaling of a sweep as blocks and pictures, for the terminal and the page of tinylm compare."""

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from tinylm.compare.scaling import RESAMPLES, Fit
from tinylm.report.blocks import Blocks, gallery, joined, paragraph, picture, table
from tinylm.report.drawing import INK, SERIES, SOFT, STYLE, new_axes, settle, to_png, to_svg
from tinylm.report.wording import ABSENT, big, figure

NAMES = {"parameters": "parameters", "tokens": "training tokens", "compute": "training FLOP"}
_SHADE = 0.22  # opacity of the band
_WIDE = 100  # times the smallest size: an axis with a number at each power of ten only
_MARGIN = 0.3  # share of the losses' range, above and below
_WORDS_END = 1e15


def scaling_blocks(found: Fit) -> Blocks:
    """A table of the power laws, and the reason if an axis has none."""
    heads = [
        "loss against",
        "runs",
        "from",
        "to",
        "exponent",
        "95 % interval",
        "floor",
        "95 % interval of the floor",
    ]
    rows = [
        [
            NAMES[axis],
            f"{len(law.sizes)} of {_with_axis(found, axis)}",
            _size(law.sizes[0]),
            _size(law.sizes[-1]),
            figure(law.exponent),
            _span(law.exponent_interval),
            figure(law.floor) if law.with_floor else ABSENT,
            _span(law.floor_interval) if law.with_floor else ABSENT,
        ]
        for axis, law in found.laws.items()
    ]
    note = (
        "loss = floor + scale · size^(−exponent) through the best setting of each size, against compute through those "
        f"that no cheaper one beats. Intervals: {RESAMPLES:,} fits to losses drawn anew around the curve. An exponent "
        "whose interval contains 0 shows no trend."
    )
    missing = joined(
        paragraph(f"No fit against {NAMES[axis]}: {why}.", kind="note")
        for axis, why in found.missing.items()
    )
    return (paragraph(note) + table("Power laws", heads, rows) if rows else []) + missing


def scaling_gallery(found: Fit) -> Blocks:
    """The pictures of `scaling_svgs` as blocks."""
    caption = (
        "Dots: all settings, means over seeds, filled those that the curve goes through. Band: 95 % interval of the "
        "curve. Bars, where a setting has several seeds: lowest to highest."
    )
    return gallery(*(picture(_name(axis), caption) for axis in found.laws))


def scaling_svgs(found: Fit) -> dict[str, str]:
    """{name: inline SVG} of each axis that has a fit."""
    svgs = {}
    for axis, law in found.laws.items():
        alt = (
            f"Loss against {NAMES[axis]}: from {figure(law.losses[0])} at {_size(law.sizes[0])} to "
            f"{figure(law.losses[-1])} at {_size(law.sizes[-1])}; exponent {figure(law.exponent)}, 95 % interval "
            f"{_span(law.exponent_interval)}."
        )
        svgs[_name(axis)] = to_svg(draw_law(found, axis), _name(axis), alt)
    return svgs


def scaling_pngs(found: Fit) -> dict[str, bytes]:
    """{name: PNG} of each axis that has a fit."""
    return {_name(axis): to_png(draw_law(found, axis)) for axis in found.laws}


def draw_law(found: Fit, axis: str) -> Figure:
    """All runs and the fitted curve with its band, both axes logarithmic."""
    law = found.laws[axis]
    others = [
        row
        for row in found.rows
        if row.get(axis) and row.get("loss") and str(row["name"]) not in law.names
    ]
    with rc_context(STYLE):
        drawing, axes = new_axes(
            f"Loss against {NAMES[axis]}", f"{NAMES[axis]}, log scale", found.unit
        )
        axes.fill_between(law.places, law.low, law.high, color=SERIES[0], alpha=_SHADE, linewidth=0)
        axes.plot(law.places, law.line, color=SERIES[0])
        places, losses = [row[axis] for row in others], [row["loss"] for row in others]
        axes.plot(
            places, losses, marker="o", linestyle="", markersize=5, color=SOFT, fillstyle="none"
        )
        axes.plot(law.sizes, law.losses, marker="o", linestyle="", markersize=5, color=INK)
        spread = [
            row
            for row in found.rows
            if row.get("seeds", 1) > 1 and row.get(axis) and row.get("loss")
        ]
        for row in spread:
            axes.plot(
                [row[axis]] * 2,
                [row["lowest"], row["highest"]],
                color=SOFT,
                linewidth=4,
                alpha=0.5,
                zorder=1,
            )
        axes.set_xscale("log")
        wide = law.sizes[-1] > _WIDE * law.sizes[0]
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5), numticks=8))
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
        axes.xaxis.set_minor_formatter(NullFormatter())
        seen = [
            *law.losses,
            *losses,
            *(row[end] for row in spread for end in ("lowest", "highest")),
        ]
        margin = _MARGIN * (max(seen) - min(seen)) or 1.0
        axes.set_ylim(
            min(seen) - margin, max(seen) + margin
        )  # with few runs the band may be taller than the figure
        return settle(drawing)


def _name(axis: str) -> str:
    return f"scaling-{axis}"


def _with_axis(found: Fit, axis: str) -> int:
    return sum(bool(row.get(axis) and row.get("loss")) for row in found.rows)


def _span(ends: tuple[float, float]) -> str:
    return f"{figure(ends[0])} to {figure(ends[1])}"


def _size(value: float) -> str:
    return big(value) if value < _WORDS_END else f"{value:.2e}".replace("e+", "e")
