"""A comparison as one HTML file that opens offline, in the look of the report, with its pictures."""

import re

from matplotlib import rc_context
from matplotlib.figure import Figure

from tinylm.compare.comparison import BLEU, EQUAL, Comparison, Finding
from tinylm.compare.scaling import NATS, Scaling
from tinylm.compare.scaling_section import scaling_gallery, scaling_svgs
from tinylm.compare.sections import LABELS, SCALING, SIDE_BY_SIDE, sections, signed
from tinylm.compare.sweep_section import NAME as SWEEP
from tinylm.compare.sweep_section import sweep_gallery, sweep_of, sweep_svg
from tinylm.report.blocks import Blocks, gallery, picture
from tinylm.report.drawing import HEAT, INK, SERIES, SOFT, STYLE, new_axes, settle, to_svg
from tinylm.report.page import build_page
from tinylm.report.sections import Part
from tinylm.report.wording import short

_CAPTION = "Line: 95 % interval, not corrected. Shade, where seeds were run: what seeds alone give."
_MADE_OF = "Read from the revisions' own files, in git and in DVC's cache; made by tinylm compare."


def to_html(comparison: Comparison, scaling: Scaling | None = None) -> str:
    """The page; `scaling`: of a sweep."""
    first, svgs = comparison.runs[0].name, difference_svgs(comparison)
    more = {
        f"Against {first}": gallery(
            *(picture(metric, f"{LABELS[metric]}. {_CAPTION}") for metric in svgs)
        )
    }
    if scaling is not None:
        alike = [run for run in comparison.runs if run.name not in scaling.left_out]
        if (sweep := sweep_of(alike, scaling.law.unit == NATS)) is not None:
            more["Figures"] = sweep_gallery(sweep)
            svgs[SWEEP] = sweep_svg(sweep)
        more[SCALING] = scaling_gallery(scaling.law)
        svgs |= scaling_svgs(scaling.law)
    parts = [
        _part(title, blocks + more.get(title, []))
        for title, blocks in sections(comparison, scaling)
    ]
    names = [run.name for run in comparison.runs]
    others = ", ".join(names[1:]) if len(names) <= SIDE_BY_SIDE else f"{len(names) - 1} runs"
    return build_page(parts, f"{others} against {first}", svgs, _MADE_OF)


def _part(title: str, blocks: Blocks) -> Part:
    anchor = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return Part(anchor, title, title, blocks)


def difference_svgs(comparison: Comparison) -> dict[str, str]:
    """{metric: inline SVG}, for each metric that changed in some run."""
    found: dict[str, list[tuple[str, Finding]]] = {}
    for against in comparison.against:
        for finding in against.findings:
            found.setdefault(finding.metric, []).append((against.name, finding))
    first = comparison.runs[0].name
    return {
        metric: _svg(metric, rows, first)
        for metric, rows in found.items()
        if any(finding.verdict.kind != EQUAL for _, finding in rows)
    }


def _svg(metric: str, rows: list[tuple[str, Finding]], first: str) -> str:
    with rc_context(STYLE):
        drawing = settle(_forest(metric, rows, first))
    told = "; ".join(
        f"{name} {signed(f.difference.value)}, from {signed(f.difference.low)} to {signed(f.difference.high)}"
        for name, f in rows
    )
    return to_svg(
        drawing, f"difference-{metric}", f"{LABELS[metric]}, difference from {first}: {told}."
    )


def _forest(metric: str, rows: list[tuple[str, Finding]], first: str) -> Figure:
    better = "right is better" if metric == BLEU else "left is better"
    drawing, axes = new_axes(
        LABELS[metric],
        f"difference from {short(first)}, {better}",
        "",
        (5.0, 1.3 + 0.3 * len(rows)),
    )
    for place, (_, finding) in enumerate(rows):
        found = finding.difference
        if finding.noise is not None:
            reach = finding.noise.difference
            axes.barh(place, 2 * reach, left=-reach, height=0.6, color=HEAT, alpha=0.2, linewidth=0)
        axes.plot([found.low, found.high], [place, place], color=SERIES[0], linewidth=1.8)
        axes.plot([found.value], [place], marker="o", color=INK, markersize=4)
    axes.axvline(0, color=SOFT, linewidth=0.9, linestyle="--")
    axes.set_yticks(range(len(rows)), [short(name) for name, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    return drawing
