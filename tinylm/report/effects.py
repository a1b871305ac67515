"""The differences that the report tests. `claims` decides which of them are printed in bold.

With the level of 0.04 here and that of the heads' roles (0.01, in stage evaluate), at most 5 of 100
reports of runs without any effect claim anything.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from tinylm.evaluate.statistics import ALPHA, claims, p_of_interval
from tinylm.report.render import escape
from tinylm.report.sources import ReportData
from tinylm.report.wording import interval

LEVEL = ALPHA - 0.01  # the rest is the level of `head_roles`


@dataclasses.dataclass
class Effect:
    """A difference from "no effect" with its 95 % interval, over so many texts."""

    value: float
    low: float
    high: float
    texts: int
    is_claimed: bool = False


def effects(run: ReportData) -> dict[str, Effect]:
    """Every difference that the run has measured, by name.

    ngrams, floor: the model's loss minus that of n-grams, or of the generator.
    head L.H: the loss that ablating head H of layer L adds.
    """
    ngrams = run.value("evaluate.baselines.kneser_ney.difference") or {}
    found = {
        "ngrams": _effect(ngrams, ngrams.get("stories")),
        "floor": _above_floor(run, ngrams.get("stories")),
    }
    stories = run.value("evaluate.heads.ablation.stories")
    for head in run.rows("ablation"):
        added = {"value": head["loss_increase"], "low": head["low"], "high": head["high"]}
        found[f"head {head['layer']}.{head['head']}"] = _effect(added, stories)
    measured = {name: effect for name, effect in found.items() if effect is not None}
    p_values = []
    for effect in measured.values():
        p_values.append(p_of_interval(effect.value, effect.low, effect.high, effect.texts))
    for effect, is_claimed in zip(measured.values(), claims(p_values, LEVEL)):
        effect.is_claimed = bool(is_claimed)
    return measured


def says(effect: Effect | None, higher: str, lower: str, unclear: str) -> Markup:
    """The sentence that the effect supports: in bold if it is claimed; nothing if not measured."""
    if not effect:
        return Markup("")
    if not effect.is_claimed:
        return escape(unclear)
    return Markup(f"**{escape(higher if effect.value > 0 else lower)}**")


def widest_beam(run: ReportData) -> str:
    """The name of the beam search with the greatest width, "" without one wider than 1."""
    names = [name for name in run.value("beam_bench.methods") or {} if name.startswith("beam ")]
    widths = {name: int(name.removeprefix("beam ")) for name in names}
    widest = max(widths, key=widths.__getitem__, default="")
    return widest if widths.get(widest, 1) > 1 else ""


def _effect(difference: Mapping[str, float] | None, texts: int | None) -> Effect | None:
    """A measured difference with its interval; None if it is missing."""
    ends = interval(difference)
    if not difference or ends is None:
        return None
    return Effect(difference["value"], *ends, texts or 0)


def _above_floor(run: ReportData, texts: int | None) -> Effect | None:
    """The model's loss, from its perplexity, minus the loss of the generator."""
    once = run.scored_once()
    low, high = interval(once.get("perplexity_interval")) or (None, None)
    model = _logarithms({"value": once.get("perplexity"), "low": low, "high": high})
    floor = run.value("evaluate.baselines.floor.nats_per_token")
    if model is None or floor is None:
        return None
    ends = {name: value - floor for name, value in model.items()}
    return Effect(ends["value"], ends["low"], ends["high"], texts or 0)


def _logarithms(value: Any) -> dict[str, float] | None:
    """A positive value and its interval as logarithms; None if it is missing."""
    ends = interval(value)
    if ends is None or not ends[0] > 0:
        return None
    return {name: math.log(value[name]) for name in ("value", "low", "high")}
