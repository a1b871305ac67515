"""Draws truth.md's picture of what probes find and what flips change, and writes its table.

    python docs/pictures/beliefs.py     after python -m studies.beliefs, which writes the numbers

Vertical lines are 95 % intervals over the seeds. The baseline of a probe is the most frequent gender, and that of a flip a
random direction.
"""

import re
import sys
from pathlib import Path

import pandas as pd

from tinylm.base.command import run_command
from tinylm.base.files import write_bytes

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/pictures/beliefs.svg"
PAGE = ROOT / "docs/explanation/truth.md"
ROWS = {  # of the page's table: (fact, position, split)
    "gender, at a new name": ("gender", "at", "name"),
    "gender, at other words": ("gender", "other", "story"),
    "gender, before a pronoun": ("gender", "pronoun", "story"),
    "hero, before the name": ("hero", "before", "story"),
    "place, at other words": ("place", "other", "story"),
    "place, before its name": ("place", "before", "story"),
    "number, at a new food": ("number", "at", "name"),
    "next kind, after an article": ("next", "article", "story"),
}
POSITIONS = {"at": "at the name", "pronoun": "before a pronoun", "other": "at other words"}
LEFT, PANEL, GAP = (
    60,
    290,
    70,
)  # pixels: of the first panel's axis, its width, to the next panel's axis
TOP, HEIGHT = 100, 220

STYLE = """
text { font: 14px ui-sans-serif, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif; fill: #1f2328; }
.frame { fill: #f6f8fa; stroke: #d1d9e0; }
.title { font-weight: bold; }
.axis { stroke: #d1d9e0; }
.scale { fill: #59636e; }
.at { stroke: #1f6feb; }
.pronoun { stroke: #bc4c00; }
.other { stroke: #1a7f37; }
.chance { stroke: #59636e; stroke-dasharray: 3 4; }
path { fill: none; stroke-width: 2.5; }
.dot { stroke-width: 6; stroke-linecap: round; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .frame { fill: #151b23; stroke: #3d444d; }
  .axis { stroke: #3d444d; }
  .scale { fill: #9198a1; }
  .at { stroke: #58a6ff; }
  .pronoun { stroke: #f0883e; }
  .other { stroke: #3fb950; }
  .chance { stroke: #9198a1; }
}
"""


def text_at(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{text}</text>'


def path(points: list[tuple[float, float]], kind: str) -> str:
    joined = " L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path class="{kind}" d="M{joined}"/>'


def height_of(share: float) -> float:
    return round(TOP + HEIGHT * (1 - share), 1)


def axes(left: float, title: str, layers: int) -> list[str]:
    """The grid with percentages, and the layers below it."""
    parts = [text_at(left, TOP - 24, title, "title")]
    for percent in (0, 25, 50, 75, 100):
        y = height_of(percent / 100)
        parts.append(f'<line class="axis" x1="{left}" x2="{left + PANEL}" y1="{y}" y2="{y}"/>')
        parts.append(text_at(left - 8, y + 5, f"{percent} %", "scale", "end"))
    for layer in range(layers + 1):
        name = str(layer) if layer else "input"
        x = left + PANEL * layer / layers
        parts.append(text_at(x, TOP + HEIGHT + 22, name, "scale", "middle"))
    middle = left + PANEL / 2
    return [*parts, text_at(middle, TOP + HEIGHT + 44, "after layer", "scale", "middle")]


def curves(left: float, table: pd.DataFrame, measure: str, chance: str) -> list[str]:
    """One line for each kind of position, with its intervals; a dotted line for chance."""
    step = PANEL / table["layer"].max()
    parts = []
    for kind in POSITIONS:
        rows = table[table["position"] == kind]
        across = [left + step * layer for layer in rows["layer"]]
        parts.append(path(list(zip(across, map(height_of, rows[measure]))), kind))
        for x, middle, low, high in zip(across, rows[measure], rows["low"], rows["high"]):
            parts.append(path([(x, height_of(low)), (x, height_of(high))], kind))
            dot = height_of(middle)
            parts.append(path([(x, dot), (x, dot)], f"{kind} dot"))
    level = height_of(table[chance].mean())
    return [path([(left, level), (left + PANEL, level)], "chance"), *parts]


def draw(probes: pd.DataFrame, patches: pd.DataFrame) -> str:
    """The picture as SVG."""
    of_gender = probes[(probes["fact"] == "gender") & (probes["split"] == "story")]
    layers = int(of_gender["layer"].max())
    right = LEFT + PANEL + GAP
    width, height = right + PANEL + 30, TOP + HEIGHT + 62
    parts = axes(LEFT, "A probe finds the hero's gender", layers)
    parts += curves(LEFT, of_gender, "accuracy", "majority")
    parts += axes(right, "After a flip, pronouns of the other gender", layers)
    parts += curves(right, patches, "flipped", "random")
    x = LEFT
    for kind, name in [*POSITIONS.items(), ("chance", "baseline")]:
        parts += [path([(x, 30), (x + 26, 30)], kind), text_at(x + 34, 35, name)]
        x += 60 + 7.4 * len(name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
        f'<style>{STYLE}</style><rect class="frame" x="0.5" y="0.5" width="{width - 1}" '
        f'height="{height - 1}" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def table_of(probes: pd.DataFrame) -> str:
    """The page's table: accuracies in percent after each layer, the last one with its interval and its control."""
    layers = range(int(probes["layer"].max()) + 1)
    names = ["input", *map(str, layers[1:]), f"95 % interval of {layers[-1]}"]
    names += [f"control of {layers[-1]}", "majority"]
    lines = [f"| fact and position | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    by_row = (100 * probes.set_index(["fact", "position", "split"])).round().sort_index()
    for title, key in ROWS.items():
        rows = by_row.loc[[key]].astype({"accuracy": int, "control": int, "majority": int})
        last = rows.iloc[-1]
        interval = f"{last['low']:.0f} to {last['high']:.0f}"
        cells = [*map(str, rows["accuracy"]), interval, f"{last['control']:.0f}"]
        lines.append(f"| {title} | {' | '.join(cells)} | {last['majority']:.0f} |")
    return "\n".join(lines)


def main() -> None:
    probes, patches = (
        pd.read_csv(ROOT / "studies" / name) for name in ("beliefs.csv", "beliefs_patch.csv")
    )
    write_bytes(PICTURE, draw(probes, patches).encode())
    text = PAGE.read_text("utf-8")
    marked = f"<!-- beliefs -->\n\n{table_of(probes)}\n\n<!-- /beliefs -->"
    text = re.sub(r"<!-- beliefs -->.*<!-- /beliefs -->", lambda _: marked, text, flags=re.DOTALL)
    write_bytes(PAGE, text.encode())


if __name__ == "__main__":
    sys.exit(run_command(main))
