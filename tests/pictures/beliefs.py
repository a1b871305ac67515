"""truth.md's picture of what probes find and what flips change, and its table, from the numbers of studies.beliefs.

The study's models are three default runs of its own, so the picture notes no run: it is of the two tables.
Vertical lines are 95 % intervals over the seeds. The baseline of a probe is the most frequent gender, and that of a flip a
random direction.
"""

import re

import pandas as pd

from tests.pictures.svg import picture_of, text_at
from tests.support.size import ROOT
from tinylm.base.files import write_bytes

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
LEFT, PANEL, GAP = 60, 290, 70  # pixels: to the first panel's axis, its width, to the next axis
TOP, HEIGHT = 100, 220

STYLE = """
text { font: 14px ui-sans-serif, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif; fill: #1f2328; }
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
  .axis { stroke: #3d444d; }
  .scale { fill: #9198a1; }
  .at { stroke: #58a6ff; }
  .pronoun { stroke: #f0883e; }
  .other { stroke: #3fb950; }
  .chance { stroke: #9198a1; }
}
"""


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


def draw(probes: pd.DataFrame, patches: pd.DataFrame) -> bytes:
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
    return picture_of(parts, width, height, STYLE)


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


def recorded() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The study's tables: of the probes and of the flips."""
    folder = ROOT / "studies"
    return pd.read_csv(folder / "beliefs.csv"), pd.read_csv(folder / "beliefs_patch.csv")


def picture() -> bytes:
    return draw(*recorded())


def write_table() -> None:
    """Write the table into the page."""
    text = PAGE.read_text("utf-8")
    marked = f"<!-- beliefs -->\n\n{table_of(recorded()[0])}\n\n<!-- /beliefs -->"
    text = re.sub(r"<!-- beliefs -->.*<!-- /beliefs -->", lambda _: marked, text, flags=re.DOTALL)
    write_bytes(PAGE, text.encode())
