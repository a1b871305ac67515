"""How cost grows: one measure after another, each over a range of one size, with the counted limit and the exponent.

Training against width, depth, context, vocabulary and cores; decoding against length, batch and beams; data against
its size. `python -m tinylm.benchmarks.growth [AXIS...]` writes docs/growth.json, a picture of each and the table of
docs/reference/benchmarks.md.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from tinylm.base.files import write_bytes, write_json
from tinylm.benchmarks.interleaved import spread
from tinylm.benchmarks.options import Entry, Options, add_options, known, options_of
from tinylm.benchmarks.record import GROWTH, load, load_average, number, put
from tinylm.benchmarks.shape import Shape, of_size
from tinylm.host.command import Parser, guard
from tinylm.host.runtime import conditions, in_words
from tinylm.report.drawing import SERIES, SOFT, STYLE, label_ends, new_axes, settle, to_png

RESULTS = Path("docs/growth.json")
HEAD = (
    "| What | Against | Seconds, median | Limit over measured | Exponent |",
    "|---|---|---|---|---|",
)


Setup = Callable[[Shape, int], dict[str, Any]]


def _shape(**factors: int) -> Setup:
    """The setup with numbers of the shape replaced by multiples of the value; tokens per step are kept."""

    def setup(shape: Shape, value: int) -> dict[str, Any]:
        changed = {name: factor * value for name, factor in factors.items()}
        if "context" in changed:
            changed["batch"] = max(1, shape.step_tokens // value)
        return {"shape": dataclasses.asdict(dataclasses.replace(shape, **changed))}

    return setup


def _same(key: str) -> Setup:
    return lambda shape, value: {"shape": dataclasses.asdict(shape), key: value}


class Axis(NamedTuple):
    """What is measured over which values.

    limit: what the counted limit is made of. flop: operations over the rate of products; bytes: the larger of that and
    the time to read the weights; cores: one thread's limit divided by the threads; none.
    """

    title: str
    x: str
    full: tuple[int, ...]
    tiny: tuple[int, ...]
    setup: Setup
    target: str = "train"
    limit: str = "flop"

    def values(self, size: str) -> tuple[int, ...]:
        return self.tiny if size == "tiny" else self.full


AXES = {
    "width": Axis("Training against width", "width D", (96, 192, 300, 384, 576, 768), (12, 24),
                  _shape(width=1, feed_forward=4)),
    "depth": Axis("Training against depth", "layers", (1, 2, 4, 8, 12), (1, 2), _shape(layers=1)),
    "context": Axis("Training against context, 2,048 tokens a step", "context T", (32, 64, 128, 256, 512, 1024),
                    (8, 16), _shape(context=1)),
    "vocabulary": Axis("Training against vocabulary", "words V", (1000, 4000, 14_886, 30_000, 60_000), (50, 90),
                       _shape(vocab=1)),
    "cores": Axis("Training against cores", "threads", (1, 2), (1, 2), _same("threads"), limit="cores"),
    "length": Axis("Greedy decoding against length, one prompt", "new tokens", (16, 32, 59, 118, 236), (3, 6),
                   _same("new_tokens"), "decode", "bytes"),
    "batch": Axis("Greedy decoding against batch", "prompts", (1, 2, 5, 10, 20, 50, 100), (1, 2), _same("batch"),
                  "decode", "bytes"),
    "beams": Axis("Beam search against width, one prompt", "beams K", (1, 2, 5, 10, 20, 50), (1, 2), _same("beams"),
                  "decode", "bytes"),
    "data": Axis("Words counted and encoded against size", "MB of text", (1, 2, 5, 10, 20, 50), (1, 2),
                 _same("megabytes"), "data", "none"),
}  # fmt: skip


def measure(name: str, options: Options) -> dict[str, Any]:
    """{x, seconds, limit_s} of every value of an axis, and the fitted exponent."""
    axis, shape = AXES[name], of_size(options.size)
    values, points = axis.values(options.size), list[dict[str, Any]]()
    for turn, value in enumerate(values, start=1):
        print(f"{name} {value}: measuring, {turn} of {len(values)}", flush=True)
        entry = Entry(f"growth:{axis.target}", {"tiny": options.tiny} | axis.setup(shape, value))
        with options.contender(name, entry) as contender:
            contender.measure()  # so that it is compiled and in the cache
            seconds = spread(contender.measure()["seconds"] for _ in range(options.trials))
            limit = _limit(axis.limit, contender.measure(limit=True), points)
        points.append({"x": value, "seconds": seconds, "limit_s": limit})
        print(f"{name} {value}: {seconds['median']:.4g} s, limit {limit or 0:.4g} s", flush=True)
    exponent = fit(values, [point["seconds"]["median"] for point in points])
    return {
        "title": axis.title,
        "x": axis.x,
        "points": points,
        "exponent": exponent,
        "limit": axis.limit,
    }


def _limit(kind: str, counted: Mapping[str, float], before: list[dict[str, Any]]) -> float | None:
    """Seconds that the counted work takes at the measured rate of the machine."""
    if kind == "flop":
        return counted["flop"] / counted["flop_per_s"]
    if kind == "bytes":
        return max(
            counted["bytes"] / counted["bytes_per_s"], counted["flop"] / counted["flop_per_s"]
        )
    if kind == "cores":  # one core's rate times the cores
        first = before[0] if before else None
        return (
            counted["flop"] / counted["flop_per_s"]
            if first is None
            else first["limit_s"] * first["x"] / counted["threads"]
        )
    return None


def fit(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Exponent p of y = c x^p by least squares over logarithms."""
    return round(float(np.polyfit(np.log(xs), np.log(ys), 1)[0]), 3)


def main() -> None:
    parser = Parser(prog="python -m tinylm.benchmarks.growth", description=__doc__)
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"default: all: {' '.join(AXES)}")
    add_options(parser, RESULTS)
    given = parser.parse_args()
    grow(known(given.axes, AXES, "axis"), options_of(given))


def grow(axes: list[str], options: Options) -> None:
    """Measure the axes, keep them with those measured earlier, draw each."""
    results = load(options.results)
    for name in axes:
        measured_on = conditions(None, options.threads) | {"load": load_average()}
        print(f"{name}: {in_words(measured_on)}", flush=True)
        results[name] = measure(name, options) | {"conditions": measured_on}
        write_json(options.results, results)
        with rc_context(STYLE):
            picture = to_png(settle(_picture(results[name])))
        write_bytes(options.results.parent / f"pictures/growth_{name}.png", picture)
        print(f"{name}: grows as {AXES[name].x} ^ {results[name]['exponent']}", flush=True)
        if options.page.exists() and not options.tiny:
            put(options.page, GROWTH, table(results))


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The axes measured so far as Markdown: the table, the conditions of each, the pictures."""
    names = [name for name in AXES if name in results]
    rows = [_cells(results[name]) for name in names]
    notes = [f"- `{name}`: {in_words(results[name]['conditions'])}" for name in names]
    pictures = [f"![{results[name]['title']}](../pictures/growth_{name}.png)" for name in names]
    return "\n".join([*HEAD, *rows, "", "Conditions:", "", *notes, "", *pictures])


def _cells(axis: Mapping[str, Any]) -> str:
    points = axis["points"]
    values = " / ".join(f"{point['x']:,}" for point in points)
    seconds = " / ".join(number(point["seconds"]["median"]) for point in points)
    shares = [
        point["limit_s"] and f"{point['limit_s'] / point['seconds']['median']:.0%}"
        for point in points
    ]
    limit = "–" if None in shares else " / ".join(shares)
    return f"| {axis['title']} | {axis['x']}: {values} | {seconds} | {limit} | {axis['exponent']:.2f} |"


def _picture(axis: Mapping[str, Any]) -> Figure:
    """Measured seconds over the axis's values, the counted limit, the fitted power; on two logarithmic scales."""
    xs, limits = ([point[key] for point in axis["points"]] for key in ("x", "limit_s"))
    lows, medians, highs = (
        [point["seconds"][key] for point in axis["points"]] for key in ("low", "median", "high")
    )
    title = f"{axis['title']}\nseconds ~ x^{axis['exponent']:.2f}"
    drawing, axes = new_axes(title, axis["x"], "seconds")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.fill_between(xs, lows, highs, color=SERIES[0], alpha=0.22, linewidth=0)
    axes.plot(xs, medians, color=SERIES[0], marker="o", markersize=4)
    ends = [(xs[-1], medians[-1], "measured", SERIES[0])]
    if None not in limits:
        axes.plot(xs, limits, color=SOFT, linestyle=(0, (4, 3)))
        ends.append((xs[-1], limits[-1], "counted limit", SOFT))
    axes.set_xticks(xs, [f"{x:,}" for x in xs])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for one in (axes.xaxis, axes.yaxis):
        one.set_minor_locator(NullLocator())
    label_ends(axes, ends)
    return drawing


if __name__ == "__main__":
    sys.exit(guard(main))
