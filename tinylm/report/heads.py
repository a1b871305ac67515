"""What the attention heads do: their roles, the loss without them, and the findings."""

from collections.abc import Iterator

import pandas as pd

from tinylm.report.findings import Finding, not_shown, shown
from tinylm.report.sources import Run, records
from tinylm.report.wording import count, loss, many, number

_HEAD = ["layer", "head"]
_ROLE = [*_HEAD, "role", "score", "baseline", "positions", "claimed"]
_EFFECT = [*_HEAD, "loss_increase", "low", "high"]


def roles(run: Run) -> pd.DataFrame:
    """How well each head fits each role, best fit first.

    baseline: what position alone would score; for "previous token", what even attention would.
    claimed: the score is clearly above it.
    """
    fits = run.frame("roles").reindex(columns=_ROLE)
    fits["gain"] = fits["score"] - fits["baseline"]
    return fits.sort_values(["claimed", "gain"], ascending=False)


def best_by_role(run: Run) -> pd.DataFrame:
    """For each role the head that fits it best."""
    return roles(run).drop_duplicates("role")


def heads(run: Run) -> pd.DataFrame:
    """Each head with its best role, and the loss (nats per token) that ablating it adds.

    idle: the interval of the added loss contains zero.
    """
    best = roles(run).drop_duplicates(_HEAD).astype({"layer": int, "head": int})
    effects = run.frame("ablation").reindex(columns=_EFFECT).astype({"layer": int, "head": int})
    measured = best.merge(effects, "outer", _HEAD).sort_values(_HEAD)
    return measured.assign(idle=(measured["low"] <= 0) & (measured["high"] >= 0))


def judge_roles(run: Run) -> Iterator[Finding]:
    """Which of the described roles some head fits clearly better than its baseline."""
    claimed = []
    absent = []
    for role in records(best_by_role(run)):
        if role["claimed"]:
            scores = f"{number(role['score'], 2)} against {number(role['baseline'], 2)}"
            head = f"layer {role['layer']}, head {role['head']}"
            claimed.append(f"{role['role']} ({head}: {scores})")
        else:
            absent.append(role["role"])
    if claimed:
        claim = "Some heads have a role that their baseline does not explain."
        yield shown(claim, f"These are: {'; '.join(claimed)}.")
    if absent:
        margin = number(run.tree("evaluate").heads.margin, 2)
        why = f"No head scores {margin} above its baseline: {', '.join(absent)}."
        yield not_shown("Whether any head has one of the other roles.", why)


def judge_ablation(run: Run) -> Iterator[Finding]:
    """Which head the model needs most, and how many it does not need."""
    measured = heads(run).dropna(subset="loss_increase")
    if measured.empty:
        return
    most = max(records(measured), key=lambda head: head["loss_increase"])
    if most["low"] > 0:
        claim = f"The model needs layer {most['layer']}, head {most['head']} most."
        span = f"{loss(most['low'])} to {loss(most['high'])}"
        rise = (
            f"Without it the loss rises by {loss(most['loss_increase'])} nats per token ({span})."
        )
        yield shown(claim, rise)
    many_heads = many(len(measured), "head")
    idle = count(measured["idle"].sum())
    claim = f"{idle} of {many_heads} can be ablated without a measurable change."
    yield shown(claim, "The 95 % intervals are not corrected for the number of heads.")


HEAD_RULES = (judge_roles, judge_ablation)
