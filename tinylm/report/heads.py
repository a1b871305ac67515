"""What the attention heads do: their roles, the loss without them, and the findings."""

from collections.abc import Iterator

import pandas as pd

from tinylm.evaluate.statistics import HIGHER, LOWER, NOT_SHOWN, SAME
from tinylm.report.effects import IDLE, Claims
from tinylm.report.findings import Finding, not_shown, shown
from tinylm.report.sources import Run, records
from tinylm.report.wording import loss, many

_HEAD = ["layer", "head"]
_ROLE = [*_HEAD, "role", "score", "baseline", "positions", "claimed"]
_EFFECT = [*_HEAD, "loss_increase", "low", "high"]


def roles(run: Run) -> pd.DataFrame:
    """How well each head fits each role, best fit first.

    baseline: what position alone would score; for "previous token", what uniform attention would.
    claimed: the score is clearly above it.
    """
    fits = run.frame("roles").reindex(columns=_ROLE)
    fits["gain"] = fits["score"] - fits["baseline"]
    return fits.sort_values(["claimed", "gain"], ascending=False)


def heads(run: Run) -> pd.DataFrame:
    """Each head with its best role, and the loss (nats per token) that ablating it adds."""
    best = roles(run).drop_duplicates(_HEAD).astype({"layer": int, "head": int})
    effects = run.frame("ablation").reindex(columns=_EFFECT).astype({"layer": int, "head": int})
    return best.merge(effects, "outer", _HEAD).sort_values(_HEAD)


def judge_roles(run: Run, _: Claims) -> Iterator[Finding]:
    """Which of the described roles some head fits clearly better than its baseline."""
    best = records(roles(run).drop_duplicates("role"))
    if claimed := [role["role"] for role in best if role["claimed"]]:
        claim = "Some heads have a role that their baseline does not explain."
        yield shown(claim, f"These are: {', '.join(claimed)}.")
    if absent := [role["role"] for role in best if not role["claimed"]]:
        yield not_shown("Whether any head has another role.", f"Others: {', '.join(absent)}.")


def judge_ablation(run: Run, claims: Claims) -> Iterator[Finding]:
    """How many heads the model needs, and how many it does not need."""
    measured_heads = heads(run).dropna(subset="loss_increase")
    if measured_heads.empty:
        return
    verdicts = []
    for head in records(measured_heads):
        verdicts.append(claims["head", head["layer"], head["head"]].verdict)
    # no interval: the largest of many estimates is biased, and its own interval is too narrow
    largest = f"{loss(measured_heads['loss_increase'].max())} nats per token"
    effects = {
        HIGHER: ("raises the loss", f"The largest measured rise is {largest}."),
        LOWER: ("lowers the loss", ""),
        SAME: ("hardly changes the loss", f"It changes by less than {IDLE} nats per token."),
    }
    for verdict, (effect, evidence) in effects.items():
        if count := verdicts.count(verdict):
            heads_of = f"{count} of {many(len(verdicts), 'head')}"
            yield shown(f"For {heads_of}, ablating the head {effect}.", evidence)
    if unclear := verdicts.count(NOT_SHOWN):
        yield not_shown(f"Whether the model needs {unclear} of {many(len(verdicts), 'head')}.")


HEAD_SECTIONS = {"attention": (judge_roles, judge_ablation)}
