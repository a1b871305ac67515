"""What the attention heads do: their roles, what the model loses without them, and the findings that follow."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd

from tinylm.report.findings import Finding, not_shown, relation, shown
from tinylm.report.sources import Run, Tree, as_number
from tinylm.report.wording import ABSENT, count, interval, loss, many, number, share, with_interval


@dataclasses.dataclass(frozen=True)
class Role:
    """How well one head fits one description, compared with its baseline; claimed: it stands out.

    The baseline is what position alone would score; for "previous token", what even attention would.
    """

    name: str
    layer: int
    head: int
    score: float
    baseline: float
    positions: float | None
    claimed: bool

    @property
    def gain(self) -> float:
        """The score above the baseline."""
        return self.score - self.baseline


@dataclasses.dataclass(frozen=True)
class Head:
    """One head: its roles, best fit first, and the loss (nats per token) that ablating it adds."""

    layer: int
    head: int
    roles: tuple[Role, ...]
    increase: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def idle(self) -> bool:
        """Whether the interval of the added loss contains zero."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    @property
    def best(self) -> Role | None:
        """The role that fits best."""
        return next(iter(self.roles), None)

    def described(self) -> str:
        """The roles that stand out, or in brackets the one that comes closest."""
        closest = f"({self.best.name})" if self.best else ABSENT
        return ", ".join(self.claimed()) or closest

    def claimed(self) -> list[str]:
        """The roles that stand out."""
        return [role.name for role in self.roles if role.claimed]

    def name(self) -> str:
        """What the head is called: idle, its best role, or nothing."""
        return "idle" if self.idle else next(iter(self.claimed()), "")

    def verdict(self) -> str:
        """What ablating it does."""
        if self.increase is None:
            return "not measured"
        if self.idle:
            return "idle: no measurable change"
        return "needed" if self.increase > 0 else "the model is better without it"


def _rank(role: Role) -> tuple[bool, float]:
    return role.claimed, role.gain


def roles(run: Run) -> list[Role]:
    """Every head's fit to every description."""
    fits = []
    for row in run.rows("roles"):
        layer, head = as_number(row.get("layer")), as_number(row.get("head"))
        score, baseline = as_number(row.get("score")), as_number(row.get("baseline"))
        if layer and head and score is not None and baseline is not None:
            claimed = str(row.get("claimed")) == "True"
            positions = as_number(row.get("positions"))
            name = str(row.get("role"))
            fits.append(Role(name, int(layer), int(head), score, baseline, positions, claimed))
    return fits


def best_by_role(run: Run) -> dict[str, Role]:
    """For each description the head that stands out most."""
    best: dict[str, Role] = {}
    for role in roles(run):
        best[role.name] = max(best.get(role.name, role), role, key=_rank)
    return best


def heads(run: Run) -> list[Head]:
    """Every head that either file names, in order."""
    by_head: dict[tuple[int, int], list[Role]] = {}
    for role in sorted(roles(run), key=_rank, reverse=True):
        by_head.setdefault((role.layer, role.head), []).append(role)
    losses = {}
    for row in run.rows("ablation"):
        layer, head = as_number(row.get("layer")), as_number(row.get("head"))
        if layer and head:
            increase = [as_number(row.get(key)) for key in ("loss_increase", "low", "high")]
            losses[int(layer), int(head)] = increase
    return [
        Head(*position, tuple(by_head.get(position, ())), *losses.get(position, ()))
        for position in sorted(by_head.keys() | losses)
    ]


def _over_training(run: Run) -> pd.DataFrame:
    """The statistics of every head at each checkpoint, with its epochs as x; empty with a single one."""
    frame = pd.DataFrame(run.rows("heads_training"))
    if "epochs" not in frame or frame["epochs"].nunique() < 2:
        return pd.DataFrame()
    frame["x"] = frame["epochs"].map(run.epochs_of)
    statistics = frame.columns.difference(["x", "epochs", "layer", "head"])
    frame[statistics] = frame[statistics].apply(pd.to_numeric, errors="coerce")
    return frame


def roles_by_epoch(run: Run) -> pd.DataFrame:
    """For each role (series) the largest score above its baseline of any head (value), against epochs (x)."""
    frame = _over_training(run)
    roles = [role for role in best_by_role(run) if role in frame]
    if not roles:
        return pd.DataFrame(columns=["series", "x", "value"])
    best = frame.groupby("x")[roles].max().reset_index()
    return best.melt("x", var_name="series").dropna()


def widths_by_epoch(run: Run) -> pd.DataFrame:
    """The tokens that a head looks at, exp(entropy), as the mean over the heads of each layer, against epochs."""
    frame = _over_training(run)
    if frame.empty:
        return frame
    frame = frame.assign(series="layer " + frame["layer"], value=np.exp(frame["entropy_nats"]))
    means = frame[["series", "x", "value"]].groupby(["series", "x"]).mean()
    return means.reset_index()


def judge_roles(run: Run) -> list[Finding]:
    """Which of the described roles some head fits clearly better than its baseline."""
    best = best_by_role(run)
    claimed = [role for role in best.values() if role.claimed]
    absent = [role.name for role in best.values() if not role.claimed]
    margin = number(run.tree("evaluate").heads.margin, 2)
    findings = []
    if claimed:
        evidence = "; ".join(
            f"{role.name} (layer {role.layer}, head {role.head}: {number(role.score, 2)} against "
            f"{number(role.baseline, 2)})"
            for role in claimed
        )
        findings.append(
            shown(
                "Some heads have a role that position alone does not explain (previous token: that even attention "
                "does not explain).",
                f"{evidence}.",
            )
        )
    if absent:
        why = f"No head scores {margin} above its baseline: {', '.join(absent)}."
        findings.append(not_shown("Whether any head has one of the other roles.", why))
    return findings


def judge_ablation(run: Run) -> list[Finding]:
    """Which head the model needs most, and how many it does not need."""
    measured = [head for head in heads(run) if head.increase is not None]
    if not measured:
        return []
    most = max(measured, key=lambda head: head.increase or 0)
    idle = sum(head.idle for head in measured)
    caution = "Each interval is one at 95 %, not corrected for their number."
    claim = f"{count(idle)} of {many(len(measured), 'head')} can be ablated without a measurable change."
    findings = [shown(claim, caution)]
    if not most.idle and (most.increase or 0) > 0:
        claim = f"The model needs layer {most.layer}, head {most.head} most."
        evidence = f"Without it the loss rises by {loss(most.increase)} nats per token ({loss(most.low)} to {loss(most.high)})."
        findings.insert(0, shown(claim, evidence))
    return findings


def judge_copying(run: Run) -> list[Finding]:
    """Does it predict repeated random words better the second time?"""
    induction = run.tree("evaluate").heads.induction
    if not interval(induction.saved):
        return []
    evidence = (
        f"{loss(induction.nats_first)} nats per word the first time, {loss(induction.nats_second)} the second; "
        f"{with_interval(induction.saved)} saved."
    )
    how = relation(induction.saved, 0)
    if how == "unclear":
        return [not_shown("Whether the model predicts repeated random words better.", evidence)]
    better = "better" if how == "above" else "worse"
    findings = [
        shown(f"The model predicts random words {better} when they are repeated.", evidence)
    ]
    best, even = inductive_head(run), as_number(induction.even)
    if how == "above" and best and even is not None and best.score <= even:
        why = (
            "No head looks at what followed the word's first occurrence more than even attention would "
            f"({share(best.score)} of the weight at most, against {share(even)})."
        )
        findings.append(not_shown("That the model copies repeated words.", why))
    return findings


def inductive_head(run: Run) -> Tree:
    """The head that looks most at what followed the first occurrence of a repeated word; empty without any."""
    rows: list[Any] = run.tree("evaluate").heads.induction.heads or []
    measured = [row for row in rows if as_number(row.get("score")) is not None]
    return max(measured, key=lambda row: row["score"], default=Tree())


def judge_roles_in_training(run: Run) -> list[Finding]:
    """From when each role of the end is there to stay."""
    margin = as_number(run.tree("evaluate").heads.margin)
    if margin is None:
        return []
    best = best_by_role(run)
    since: dict[float, list[str]] = {}
    curves = roles_by_epoch(run)
    for role in best:
        rows = curves[curves["series"] == role]
        xs = list(rows["x"])
        ys = list(rows["value"])
        first = len(ys)
        while first and ys[first - 1] >= margin:
            first -= 1
        if first < len(ys) and best[role].claimed:
            since.setdefault(xs[first], []).append(role)
    if not since:
        return []
    evidence = "; ".join(
        f"{', '.join(names)} after {number(epochs, 2)} epochs"
        for epochs, names in sorted(since.items())
    )
    claim = "From some checkpoint of training on, roles have a head and keep it."
    return [shown(claim, f"{evidence}.")]


HEAD_RULES = (judge_roles, judge_ablation, judge_roles_in_training, judge_copying)
