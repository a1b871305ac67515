"""Minimal pairs: the section, its pictures, and the sentences that the intervals allow."""

from typing import Any

from tinylm.report import charts
from tinylm.report.blocks import Blocks, gallery, paragraph, picture, table
from tinylm.report.drawing import Picture
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import (
    ABSENT,
    Finding,
    count,
    interval,
    not_said,
    said,
    share,
    share_with_interval,
    visible,
)

CHANCE = 0.5
_GROUPS = ("grammar", "meaning")
_BESIDE = ("untrained", "kneser_ney", "unigram")


def phenomena(run: Run) -> dict[str, dict[str, Any]]:
    """The figures of each phenomenon that was measured, by its name."""
    rows = run.mapping("evaluate", "pairs", "phenomena").items()
    return {
        name: row
        for name, row in rows
        if isinstance(row, dict) and isinstance(row.get("model"), dict)
    }


def pairs(run: Run) -> Blocks:
    """How often the right one of two sentences is the likelier, by phenomenon, beside n-grams, and over training."""
    known = phenomena(run)
    if not known:
        return []
    examples: dict[str, dict[str, str]] = {}
    for row in run.rows("pairs"):
        examples.setdefault(row.get("phenomenon", ""), row)
    lines = [
        [name, row.get("about", ABSENT), count(row.get("pairs"))]
        + [share_with_interval(row.get("model"))]
        + [share((row.get(source) or {}).get("value")) for source in _BESIDE]
        for name, row in known.items()
    ]
    few = [name for name in run.mapping("evaluate", "pairs", "phenomena") if name not in known]
    means = run.mapping("evaluate", "pairs", "all")
    note = (
        f"{visible(run.get('evaluate', 'pairs', 'protocol') or '')} Where two pairs are made, what is right in one is "
        "wrong in the other, so that knowing only how frequent words are gives half of them."
    )
    missing = (
        f"Not measured, for want of words in this vocabulary: {', '.join(few)}." if few else ""
    )
    return (
        paragraph(note, missing)
        + gallery(
            picture(
                "pairs", "Share of pairs; a bar is the 95 % interval, the dashed line is chance."
            ),
            picture(
                "pairs_training",
                "Means over phenomena, by what they are about; the last point is the end.",
            ),
        )
        + table(
            "Pairs whose right sentence is likelier (95 % interval of the model's share)",
            ["phenomenon", "about", "pairs", "model", "untrained", "n-grams", "word frequency"],
            [*lines, ["mean", "", "", *(share(means.get(key)) for key in ("model", *_BESIDE))]],
            prose=["phenomenon", "about"],
        )
        + table(
            "A pair of each",
            ["phenomenon", "right", "wrong"],
            [
                [name, *(visible(_but_opening(examples[name], key)) for key in ("right", "wrong"))]
                for name in known
                if name in examples
            ],
            prose=["phenomenon", "right", "wrong"],
        )
    )


def _but_opening(pair: dict[str, str], key: str) -> str:
    """The pair's text without the opening sentence that both texts share."""
    right, wrong = pair.get("right", ""), pair.get("wrong", "")
    start = right.find(". ") + 2
    return (
        pair.get(key, "")[start:]
        if start > 1 and right[:start] == wrong[:start]
        else pair.get(key, "")
    )


def draw_phenomena(run: Run) -> Picture | None:
    """The share of right pairs of each phenomenon with its interval, and that of the n-gram model."""
    rows = []
    for name, row in phenomena(run).items():
        value, span = as_number(row["model"].get("value")), interval(row["model"])
        if value is not None and span:
            rows.append((name, value, *span, as_number((row.get("kneser_ney") or {}).get("value"))))
    if not rows:
        return None
    title = "Pairs whose right sentence is likelier"
    words = "; ".join(
        f"{name} {share(value, 0)} (n-grams {share(other, 0)})" for name, value, _, _, other in rows
    )
    drawn = charts.draw_intervals(
        rows, title, "share of pairs", ("model", "n-grams"), chance=CHANCE
    )
    return Picture(drawn, f"{title}: {words}.")


def draw_training(run: Run) -> Picture | None:
    """The mean share of right pairs of either group, against epochs."""
    groups = {name: row.get("about") for name, row in phenomena(run).items()}
    lines: dict[str, tuple[list[float], list[float]]] = {group: ([], []) for group in _GROUPS}
    for row in run.get("evaluate", "pairs", "training") or []:
        epochs = run.epochs_of(row.get("epochs"))
        for group, (xs, ys) in lines.items():
            values = [
                value
                for name, found in row.get("phenomena", {}).items()
                if groups.get(name) == group
                and (value := as_number((found or {}).get("value"))) is not None
            ]
            if epochs is not None and values:
                xs.append(epochs)
                ys.append(sum(values) / len(values))
    lines = {group: points for group, points in lines.items() if len(points[0]) > 1}
    if not lines:
        return None
    title = "Pairs whose right sentence is likelier, during training"
    words = "; ".join(
        f"{group} from {share(ys[0], 0)} to {share(ys[-1], 0)}" for group, (_, ys) in lines.items()
    )
    drawn = charts.draw_curves(lines, title, "epochs", "share of pairs", counted_x=False)
    return Picture(drawn, f"{title}: {words}.")


def judge_pairs(run: Run) -> list[Finding]:
    """What the model knows better than chance, what not, and where it knows more than n-grams.

    Better than chance: its interval is above one half and above that of an untrained model, whose preferences are
    accidents. Pairs share words, so that an interval is a little too narrow; this guards against it.
    """
    known = phenomena(run)
    if not known:
        return []
    above: list[str] = []
    below: list[str] = []
    unclear: list[str] = []
    better: list[str] = []
    worse: list[str] = []
    for name, row in known.items():
        low, high = interval(row["model"]) or (0.0, 1.0)
        without, ngrams = (
            interval(row.get(source)) or (CHANCE, CHANCE) for source in ("untrained", "kneser_ney")
        )
        (
            above
            if low > max(CHANCE, without[1])
            else below
            if high < min(CHANCE, without[0])
            else unclear
        ).append(name)
        if low > ngrams[1]:
            better.append(name)
        elif high < ngrams[0]:
            worse.append(name)
    means = run.mapping("evaluate", "pairs", "all")
    found = [
        said(
            f"Of two sentences the model finds the right one likelier in {share(means.get('model'))} of the pairs, "
            f"mean over {count(len(known))} phenomena (n-grams {share(means.get('kneser_ney'))}, an untrained model "
            f"{share(means.get('untrained'))}). Its interval lies above both 50 % and that of an untrained model in "
            f"{count(len(above))} of them."
        )
    ]
    if below:
        found.append(
            said(
                f"It prefers the wrong one, below 50 % and an untrained model, in: {_with_shares(known, below)}."
            )
        )
    if unclear:
        found.append(
            not_said(f"Whether it has learnt anything of: {_with_shares(known, unclear)}.")
        )
    if better:
        found.append(
            said(
                f"It is right more often than n-grams, beyond both intervals, in: {', '.join(better)}."
            )
        )
    if worse:
        found.append(
            said(
                f"N-grams are right more often than it, beyond both intervals, in: {', '.join(worse)}."
            )
        )
    return found


def _with_shares(known: dict[str, dict[str, Any]], names: list[str]) -> str:
    return ", ".join(f"{name} ({share(known[name]['model'].get('value'))})" for name in names)


PAIR_RULES = (judge_pairs,)
