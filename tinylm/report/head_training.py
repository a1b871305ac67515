"""How attention came about: what the heads did at moments of training, and what its layers hold at the end."""

import math
from typing import Any

from tinylm.report import charts
from tinylm.report.blocks import Blocks, gallery, heading, paragraph, picture, table
from tinylm.report.drawing import Picture
from tinylm.report.heads import best_by_role
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import (
    Finding,
    count,
    figure,
    interval,
    loss,
    not_said,
    said,
    share,
    with_interval,
)

Lines = dict[str, tuple[list[float], list[float]]]


def _moments(run: Run) -> dict[float, list[dict[str, str]]]:
    """The rows of every head at each moment, by epochs."""
    found: dict[float, list[dict[str, str]]] = {}
    for row in run.rows("heads_training"):
        epochs = run.epochs_of(row.get("epochs"))
        if epochs is not None:
            found.setdefault(epochs, []).append(row)
    return found if len(found) > 1 else {}


def _numbers(rows: list[dict[str, str]], key: str) -> list[float]:
    return [
        value
        for row in rows
        if (value := as_number(row.get(key))) is not None and not math.isnan(value)
    ]


def _by_layer(run: Run, key: str, value: Any = float) -> Lines:
    """Mean over the heads of each layer of `value` of a column, against epochs."""
    lines: Lines = {}
    for epochs, rows in _moments(run).items():
        for layer in sorted({row.get("layer", "") for row in rows}):
            found = [
                value(number)
                for number in _numbers([row for row in rows if row.get("layer") == layer], key)
            ]
            if found:
                xs, ys = lines.setdefault(f"layer {layer}", ([], []))
                xs.append(epochs)
                ys.append(sum(found) / len(found))
    return lines


def roles_by_epoch(run: Run) -> Lines:
    """For each role the largest score above its baseline of any head, against epochs."""
    lines: Lines = {}
    for role in best_by_role(run):
        for epochs, rows in _moments(run).items():
            if found := _numbers(rows, role):
                xs, ys = lines.setdefault(role, ([], []))
                xs.append(epochs)
                ys.append(max(found))
    return lines


def _drawn(lines: Lines, title: str, y_label: str) -> Picture | None:
    if not lines:
        return None
    words = "; ".join(
        f"{name} from {figure(ys[0], 2)} to {figure(ys[-1], 2)}" for name, (_, ys) in lines.items()
    )
    return Picture(
        charts.draw_curves(lines, title, "epochs", y_label, counted_x=False),
        f"{title}, against epochs: {words}.",
    )


def draw_widths(run: Run) -> Picture | None:
    """How many tokens a head of each layer looks at, over training."""
    lines = _by_layer(run, "entropy_nats", math.exp)
    return _drawn(lines, "Effective width of attention", "tokens, mean over heads")


def draw_roles(run: Run) -> Picture | None:
    """The best score of each role above its baseline, over training."""
    return _drawn(roles_by_epoch(run), "Best head of each role", "score above its baseline")


def over_training(run: Run) -> Blocks:
    """Entropy, distance and roles at the moments whose weights were kept."""
    if not _moments(run):
        return []
    return (
        heading("How the heads came about")
        + paragraph(
            "The same measures of the weights as they stood at moments of training, over 50 stories. Effective width: "
            "exp of the entropy, as many tokens as would share the weight evenly."
        )
        + gallery(
            picture("heads_width", "Fewer tokens: sharper attention."),
            picture("roles_training", "For each role the head that fits it best at the time."),
        )
    )


def layers(run: Run) -> Blocks:
    """Copying from an earlier occurrence, and what each layer would predict."""
    lens, copying = (
        run.get("evaluate", "heads", "logit_lens"),
        run.mapping("evaluate", "heads", "induction"),
    )
    blocks: Blocks = []
    if isinstance(lens, list) and lens:
        rows = [
            [count(r.get("layer")), loss(r.get("nats_per_token")), share(r.get("same_as_last"))]
            for r in lens
        ]
        blocks += (
            heading("What each layer would predict")
            + paragraph(
                "The last norm and the output layer applied to what each layer gives (the logit lens, nostalgebraist "
                "2020); layer 0 is what enters the first. The second column says how often the likeliest word is "
                "already that of the last layer."
            )
            + table(
                "Prediction by layer",
                ["layer", "nats per token", "same word as the last layer"],
                rows,
            )
        )
    if copying:
        best = _inductive(run)
        blocks += heading("Copying") + paragraph(
            f"{count(copying.get('tokens'))} random words, then the same again, {count(copying.get('sequences'))} "
            f"times: {loss(copying.get('nats_first'))} nats per word the first time, "
            f"{loss(copying.get('nats_second'))} the second, {with_interval(copying.get('saved'))} saved.",
            f"The head that looks most at what followed the word's first occurrence (Olsson et al. 2022): layer "
            f"{count(best['layer'])}, head {count(best['head'])}, {share(best['score'])} of the weight "
            f"({share(copying.get('even'))} if spread evenly)."
            if best
            else "",
        )
    return blocks


def _inductive(run: Run) -> dict[str, Any]:
    heads = run.get("evaluate", "heads", "induction", "heads")
    rows = [
        row
        for row in (heads if isinstance(heads, list) else [])
        if as_number(row.get("score")) is not None
    ]
    return max(rows, key=lambda row: row["score"], default={})


def judge_copying(run: Run) -> list[Finding]:
    """Does it predict repeated random words better the second time?"""
    copying = run.mapping("evaluate", "heads", "induction")
    span = interval(copying.get("saved"))
    if not span:
        return []
    first, second = (loss(copying.get(key)) for key in ("nats_first", "nats_second"))
    figures = f"{first} nats per word the first time, {second} the second"
    if span[0] <= 0:
        return [
            said(
                f"The model does not predict random words better when they are repeated ({figures})."
            )
        ]
    found = [said(f"The model predicts random words better when they are repeated ({figures}).")]
    best, even = _inductive(run), as_number(copying.get("even"))
    if best and even is not None and best["score"] <= even:
        found.append(
            not_said(
                "That the model copies repeated words: no head looks at what followed the word's first occurrence more "
                f"than even attention would ({share(best['score'])} of the weight at most, against {share(even)})."
            )
        )
    return found


def judge_roles_in_training(run: Run) -> list[Finding]:
    """From when each role of the end is there to stay."""
    margin = as_number(run.get("evaluate", "heads", "margin"))
    if margin is None:
        return []
    since: dict[float, list[str]] = {}
    for role, (xs, ys) in roles_by_epoch(run).items():
        first = len(ys)
        while first and ys[first - 1] >= margin:
            first -= 1
        if first < len(ys) and best_by_role(run)[role].claimed:
            since.setdefault(xs[first], []).append(role)
    if not since:
        return []
    named = "; ".join(
        f"{', '.join(roles)} after {figure(epochs, 2)} epochs"
        for epochs, roles in sorted(since.items())
    )
    return [
        said(
            f"From which of the kept moments of training on some head has a role and keeps it: {named}."
        )
    ]


TRAINING_RULES = (judge_roles_in_training, judge_copying)
