"""What stage evaluate measured of the attention heads: their roles, and the loss without them."""

import pandas as pd

from tinylm.report.sources import ReportData

_HEAD = ["layer", "head"]
_ROLE = [*_HEAD, "role", "score", "baseline", "claimed"]
_EFFECT = [*_HEAD, "loss_increase", "low", "high"]


def roles(run: ReportData) -> pd.DataFrame:
    """How well each head fits each role, best fit first.

    baseline: what position alone would score, or uniform attention for roles that are a position.
    claimed: the score is clearly above it.
    """
    fits = run.frame("roles").reindex(columns=_ROLE)
    fits["gain"] = fits["score"] - fits["baseline"]
    return fits.sort_values(["claimed", "gain"], ascending=False)


def heads(run: ReportData) -> pd.DataFrame:
    """Each head with its best role, and the loss (nats per token) that ablating it adds."""
    best = roles(run).drop_duplicates(_HEAD).astype({"layer": int, "head": int})
    effects = run.frame("ablation").reindex(columns=_EFFECT).astype({"layer": int, "head": int})
    return best.merge(effects, "outer", _HEAD).sort_values(_HEAD)
