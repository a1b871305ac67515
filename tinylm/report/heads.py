"""What the attention heads do: their roles, what the model loses without them, and the findings that follow."""

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from tinylm.report.findings import Finding, compare, not_shown, shown
from tinylm.report.sources import Run
from tinylm.report.wording import ABSENT, count, interval, loss, many, number, with_interval

_EFFECT = ["layer", "head", "loss_increase", "low", "high"]


class Role(NamedTuple):
    """How well one head fits one description, compared with its baseline; claimed: it stands out.

    The baseline is what position alone would score; for "previous token", what even attention would.
    """

    name: str
    layer: int
    head: int
    score: float
    baseline: float
    positions: float
    claimed: bool

    @property
    def gain(self) -> float:
        """The score above the baseline."""
        return self.score - self.baseline


class Head(NamedTuple):
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

    def claimed(self) -> list[str]:
        """The roles that stand out."""
        return [role.name for role in self.roles if role.claimed]

    def described(self) -> str:
        """The roles that stand out, or in brackets the one that comes closest."""
        closest = f"({self.roles[0].name})" if self.roles else ABSENT
        return ", ".join(self.claimed()) or closest


def roles(run: Run) -> list[Role]:
    """Every head's fit to every description, best fit first."""
    rows = run.frame("roles").rename(columns={"role": "name"}).reindex(columns=Role._fields)
    fits = [Role(*row) for row in rows.itertuples(index=False)]
    return sorted(fits, key=lambda role: (role.claimed, role.gain), reverse=True)


def best_by_role(run: Run) -> dict[str, Role]:
    """For each description the head that stands out most."""
    best: dict[str, Role] = {}
    for role in roles(run):
        best.setdefault(role.name, role)
    return best


def heads(run: Run) -> list[Head]:
    """Every head that either file names, in order."""
    rows = run.frame("ablation").reindex(columns=_EFFECT)
    effects = {(layer, head): effect for layer, head, *effect in rows.itertuples(index=False)}
    by_head: dict[tuple[int, int], list[Role]] = {position: [] for position in effects}
    for role in roles(run):
        by_head.setdefault((role.layer, role.head), []).append(role)
    return [
        Head(*position, tuple(fits), *effects.get(position, ()))
        for position, fits in sorted(by_head.items())
    ]


def roles_by_epoch(run: Run) -> pd.DataFrame:
    """For each role (series) the largest score above its baseline of any head (value), against epochs (x)."""
    frame = run.frame("heads_training")
    names = [role for role in best_by_role(run) if role in frame]
    if not names or frame["epochs"].nunique(dropna=False) < 2:
        return pd.DataFrame()
    frame["x"] = frame["epochs"].fillna(run.tree("train").epochs)
    best = frame.groupby("x")[names].max().reset_index()
    return best.melt("x", var_name="series").dropna()


def judge_roles(run: Run) -> Iterator[Finding]:
    """Which of the described roles some head fits clearly better than its baseline."""
    best = best_by_role(run).values()
    absent = [role.name for role in best if not role.claimed]
    claimed = [
        f"{role.name} (layer {role.layer}, head {role.head}: {number(role.score, 2)} against "
        f"{number(role.baseline, 2)})"
        for role in best
        if role.claimed
    ]
    if claimed:
        claim = "Some heads have a role that their baseline does not explain."
        yield shown(claim, f"{'; '.join(claimed)}.")
    if absent:
        margin = number(run.tree("evaluate").heads.margin, 2)
        why = f"No head scores {margin} above its baseline: {', '.join(absent)}."
        yield not_shown("Whether any head has one of the other roles.", why)


def judge_ablation(run: Run) -> Iterator[Finding]:
    """Which head the model needs most, and how many it does not need."""
    measured = [head for head in heads(run) if head.increase is not None]
    if not measured:
        return
    most = max(measured, key=lambda head: head.increase or 0)
    if not most.idle and (most.increase or 0) > 0:
        claim = f"The model needs layer {most.layer}, head {most.head} most."
        span = f"{loss(most.low)} to {loss(most.high)}"
        evidence = f"Without it the loss rises by {loss(most.increase)} nats per token ({span})."
        yield shown(claim, evidence)
    idle = sum(head.idle for head in measured)
    many_heads = many(len(measured), "head")
    claim = f"{count(idle)} of {many_heads} can be ablated without a measurable change."
    yield shown(claim, "The 95 % intervals are not corrected for the number of heads.")


def judge_copying(run: Run) -> Iterator[Finding]:
    """Does the model predict repeated random words better the second time?"""
    induction = run.tree("evaluate").heads.induction
    if interval(induction.saved):
        yield compare(
            induction.saved,
            0,
            "The model predicts random words {} when they are repeated.",
            ("better", "worse"),
            f"The repetition saves {with_interval(induction.saved)} nats per word.",
        )


HEAD_RULES = (judge_roles, judge_ablation, judge_copying)
