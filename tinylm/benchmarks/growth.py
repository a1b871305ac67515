"""How cost grows: one measure after another, each over a range of one size, with the counted limit and the exponent.

Training against width, depth, context, vocabulary and cores; decoding against length, batch and beams; data against
its size. `python -m tinylm.benchmarks.growth [AXIS...]` writes docs/growth.json, a picture of each and the table of
docs/reference/benchmarks.md.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tinylm.base.files import read_json, write_json
from tinylm.benchmarks import growth_pictures
from tinylm.benchmarks.interleaved import spread
from tinylm.benchmarks.options import Options, add_options, options_of
from tinylm.benchmarks.record import GROWTH, in_words, load_average, number, put
from tinylm.benchmarks.shape import Shape, of_size
from tinylm.host.command import guard
from tinylm.host.runtime import conditions

RESULTS = Path("docs/growth.json")
HEAD = ("| What | Against | Seconds, median | Limit over measured | Exponent |", "|---|---|---|---|---|")


@dataclasses.dataclass(frozen=True)
class Axis:
    """What is measured over which values; `cost` names the figure, `counted` what the limit is made of."""

    title: str
    x: str
    values: Mapping[str, tuple[int, ...]]  # by size
    target: str
    setup: Callable[[Shape, int, Options], dict[str, Any]]
    limit: str = "flop"  # flop: operations over the rate of products; bytes: or of reading, if later; cores; none


def _shape(**fixed: Any) -> Callable[[Shape, int, Options], dict[str, Any]]:
    """The set-up with one number of the shape replaced, tokens a step kept where the context grows."""

    def setup(shape: Shape, value: int, _: Options) -> dict[str, Any]:
        changed = {name: value if number is None else number * value for name, number in fixed.items()}
        if "context" in changed:
            changed["batch"] = max(1, shape.step_tokens // value)
        return {"shape": dataclasses.asdict(dataclasses.replace(shape, **changed))}

    return setup


def _same(key: str) -> Callable[[Shape, int, Options], dict[str, Any]]:
    return lambda shape, value, _: {"shape": dataclasses.asdict(shape), key: value}


TRAIN, DECODE, DATA = "growth:train", "growth:decode", "growth:data"
AXES = {
    "width": Axis("Training against width", "width D", {"full": (96, 192, 300, 384, 576, 768), "tiny": (12, 24)}, TRAIN,
                  _shape(width=None, feed_forward=4)),
    "depth": Axis("Training against depth", "layers", {"full": (1, 2, 4, 8, 12), "tiny": (1, 2)}, TRAIN,
                  _shape(layers=None)),
    "context": Axis("Training against context, 2,048 tokens a step", "context T",
                    {"full": (32, 64, 128, 256, 512, 1024), "tiny": (8, 16)}, TRAIN, _shape(context=None)),
    "vocabulary": Axis("Training against vocabulary", "words V",
                       {"full": (1000, 4000, 14_886, 30_000, 60_000), "tiny": (50, 90)}, TRAIN, _shape(vocab=None)),
    "cores": Axis("Training against cores", "threads", {"full": (1, 2), "tiny": (1, 2)}, TRAIN,
                  _same("threads"), "cores"),
    "length": Axis("Greedy decoding against length, one prompt", "new tokens",
                   {"full": (16, 32, 59, 118, 236), "tiny": (3, 6)}, DECODE, _same("new_tokens"), "bytes"),
    "batch": Axis("Greedy decoding against batch", "prompts", {"full": (1, 2, 5, 10, 20, 50, 100), "tiny": (1, 2)},
                  DECODE, _same("batch"), "bytes"),
    "beams": Axis("Beam search against width, one prompt", "beams K",
                  {"full": (1, 2, 5, 10, 20, 50), "tiny": (1, 2)}, DECODE, _same("beams"), "bytes"),
    "data": Axis("Words counted and encoded against size", "MB of text",
                 {"full": (1, 2, 5, 10, 20, 50), "tiny": (1, 2)}, DATA, _same("megabytes"), "none"),
}  # fmt: skip


def measure(name: str, options: Options) -> dict[str, Any]:
    """{x, seconds, limit_s} of every value of an axis, the values in turn, and the fitted exponent."""
    axis, shape = AXES[name], of_size(options.size)
    points: list[dict[str, Any]] = []
    for value in axis.values[options.size]:
        setup = {"tiny": options.tiny} | axis.setup(shape, value, options)
        with options.side(name, axis.target, setup) as side:
            side.turn()  # compiled, in the cache
            turns = [side.turn() for _ in range(options.turns)]
            limit = _limit(axis.limit, side.turn(limit=True), points)
        points.append({"x": value, "seconds": spread(turn["seconds"] for turn in turns), "limit_s": limit})
        print(f"{name} {value}: {points[-1]['seconds']['median']:.4g} s, limit {limit or 0:.4g} s", flush=True)
    exponent = fit(axis.values[options.size], [point["seconds"]["median"] for point in points])
    return {"title": axis.title, "x": axis.x, "points": points, "exponent": exponent, "limit": axis.limit}


def _limit(kind: str, told: Mapping[str, float], before: list[dict[str, Any]]) -> float | None:
    """Seconds that the counted work takes at the measured rate of the machine."""
    if kind == "flop":
        return told["flop"] / told["flop_per_s"]
    if kind == "bytes":
        return max(told["bytes"] / told["bytes_per_s"], told["flop"] / told["flop_per_s"])
    if kind == "cores":  # as fast as one core, times the cores
        first = before[0] if before else None
        return told["flop"] / told["flop_per_s"] if first is None else first["limit_s"] * first["x"] / told["threads"]
    return None


def fit(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Exponent p of y = c x^p by least squares over logarithms."""
    import numpy as np

    return round(float(np.polyfit(np.log(xs), np.log(ys), 1)[0]), 3)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tinylm.benchmarks.growth", description=__doc__)
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"default: all: {' '.join(AXES)}")
    add_options(parser, RESULTS)
    given = parser.parse_args()
    unknown = sorted(set(given.axes) - set(AXES))
    if unknown:
        parser.error(f"{' '.join(unknown)}: no such axis; allowed: {' '.join(AXES)}")
    grow(given.axes or list(AXES), options_of(given))


def grow(axes: list[str], options: Options) -> None:
    """Measure the axes, keep them beside those measured earlier, draw each."""
    found = read_json(options.results) if options.results.exists() else {}
    for name in axes:
        told = conditions(None, options.threads) | {"load": load_average()}
        print(f"{name}: {in_words(told)}", flush=True)
        found[name] = measure(name, options) | {"conditions": told}
        write_json(options.results, found)
        growth_pictures.draw(name, found[name], options.results.parent / "pictures")
        print(f"{name}: grows as {AXES[name].x} ^ {found[name]['exponent']}", flush=True)
        if options.page.exists() and not options.tiny:
            put(options.page, GROWTH, table(found))


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The axes measured so far as Markdown: the table, the conditions of each, the pictures."""
    names = [name for name in AXES if name in found]
    rows = [_cells(found[name]) for name in names]
    said = [f"- `{name}`: {in_words(found[name]['conditions'])}" for name in names]
    pictures = [f"![{found[name]['title']}](../pictures/growth_{name}.png)" for name in names]
    return "\n".join([*HEAD, *rows, "", "Conditions:", "", *said, "", *pictures])


def _cells(axis: Mapping[str, Any]) -> str:
    points = axis["points"]
    values = " / ".join(f"{point['x']:,}" for point in points)
    seconds = " / ".join(number(point["seconds"]["median"]) for point in points)
    shares = [point["limit_s"] and f"{point['limit_s'] / point['seconds']['median']:.0%}" for point in points]
    limit = "–" if None in shares else " / ".join(shares)
    return f"| {axis['title']} | {axis['x']}: {values} | {seconds} | {limit} | {axis['exponent']:.2f} |"


if __name__ == "__main__":
    sys.exit(guard(main))
