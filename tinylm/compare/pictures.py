"""Pictures of a comparison: differences with their intervals."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from tinylm.compare.comparison import EQUAL, LOSSES, Comparison, Finding
from tinylm.report.drawing import HEAT, INK, SERIES, SOFT, in_style, new_axes, settle, to_svg
from tinylm.report.wording import number, short


def difference_pictures(comparison: Comparison, labels: Mapping[str, str]) -> dict[str, str]:
    """{name: SVG} of each metric that changed in some run."""
    first = comparison.runs[0].name
    svgs = {}
    for metric, label in labels.items():
        rows = []
        for against in comparison.against:
            for finding in against.findings:
                if finding.metric == metric:
                    rows.append((against.name, finding))
        if any(finding.kind != EQUAL for _, finding in rows):
            values = [f"{name} {number(finding.difference.value)}" for name, finding in rows]
            alt = f"{label}, difference from {first}: {'; '.join(values)}."
            name = f"difference-{metric}"
            svgs[name] = to_svg(draw_differences(rows, first, label), name, alt)
    return svgs


def draw_differences(rows: Sequence[tuple[str, Finding]], first: str, label: str) -> Figure:
    """A point and its interval for each setting; a shade for the difference that seeds alone cause."""
    better = "left is better" if rows[0][1].metric in LOSSES else "right is better"
    with in_style():
        axis_label = f"difference from {short(first)}, {better}"
        drawing, axes = new_axes(label, axis_label, "", (5.0, 1.3 + 0.3 * len(rows)))
        for y, (_, finding) in enumerate(rows):
            difference = finding.difference
            if difference.seeds is not None:
                bound = difference.seeds.bound
                axes.barh(y, 2 * bound, 0.6, -bound, color=HEAT, alpha=0.2, linewidth=0)
            axes.hlines(y, difference.low, difference.high, color=SERIES[0])
            axes.plot(difference.value, y, marker="o", color=INK, markersize=4)
        axes.axvline(0, color=SOFT, linewidth=0.9, linestyle="--")
        axes.set_yticks(range(len(rows)), [short(name) for name, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        return settle(drawing)
