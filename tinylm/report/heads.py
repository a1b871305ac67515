"""What the attention heads do: their strongest roles, their tendencies by layer, and the sentences that follow."""

import dataclasses

import numpy as np

from tinylm.report.sources import Run, as_number
from tinylm.report.wording import Finding, count, figure, loss, many, not_said, said, share

STANDS_OUT = 0.10  # weight above even attention, as in the table of heads
_NO_TENDENCY = {
    "spread evenly",
    "tokens of no measured kind",
}  # interpretations of scoring/head_tendencies.py


@dataclasses.dataclass(frozen=True)
class Role:
    """How well one head fits one description, beside its baseline's score; claimed: it stands out.

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
    found = []
    for row in run.rows("roles"):
        layer, head, score, baseline = (
            as_number(row.get(key)) for key in ("layer", "head", "score", "baseline")
        )
        if layer and head and score is not None and baseline is not None:
            positions = as_number(row.get("positions"))
            claimed = str(row.get("claimed")) == "True"
            found.append(
                Role(
                    str(row.get("role")), int(layer), int(head), score, baseline, positions, claimed
                )
            )
    return found


def best_by_role(run: Run) -> dict[str, Role]:
    """For each description the head that stands out most."""
    best: dict[str, Role] = {}
    for role in roles(run):
        best[role.name] = max(best.get(role.name, role), role, key=_rank)
    return best


def heads(run: Run) -> list[Head]:
    """Every head that either file names, in order."""
    known: dict[tuple[int, int], list[Role]] = {}
    for role in sorted(roles(run), key=_rank, reverse=True):
        known.setdefault((role.layer, role.head), []).append(role)
    losses = {}
    for row in run.rows("ablation"):
        layer, head = as_number(row.get("layer")), as_number(row.get("head"))
        if layer and head:
            losses[int(layer), int(head)] = tuple(
                as_number(row.get(key)) for key in ("loss_increase", "low", "high")
            )
    return [
        Head(*place, tuple(known.get(place, ())), *losses.get(place, (None, None, None)))
        for place in sorted(known.keys() | losses)
    ]


NAMES = {  # column: (words, whether it is a weight between 0 and 1)
    "previous": ("previous token", True),
    "first": ("first token, <sos> and <eos>", True),
    "self": ("token itself", True),
    "same_word": ("same token earlier", True),
    "punctuation": ("earlier punctuation", True),
    "within_word": ("earlier pieces of the word", True),
    "entropy_nats": ("entropy (nats)", False),
    "distance_tokens": ("distance (tokens)", False),
}


@dataclasses.dataclass(frozen=True)
class Tendency:
    """One figure of every head: values (layers, heads), NaN where absent, and its mean under even attention."""

    words: str
    is_weight: bool
    values: np.ndarray
    even: float | None

    def highest(self) -> tuple[int, int, float]:
        """Layer, head (from 1) and value of the head with the highest value."""
        layer, head = np.unravel_index(np.nanargmax(self.values), self.values.shape)
        return int(layer) + 1, int(head) + 1, float(self.values[layer, head])


def tendencies(run: Run) -> dict[str, Tendency]:
    """Each figure of the table that has a value, by column."""
    rows = [
        (int(layer), int(head), row)
        for row in run.rows("heads")
        if (layer := as_number(row.get("layer"))) and (head := as_number(row.get("head")))
    ]
    found = {}
    for column, (words, is_weight) in NAMES.items():
        if not any(as_number(row.get(column)) is not None for _, _, row in rows):
            continue
        values = np.full(
            (max(layer for layer, _, _ in rows), max(head for _, head, _ in rows)), np.nan
        )
        for layer, head, row in rows:
            number = as_number(row.get(column))
            values[layer - 1, head - 1] = np.nan if number is None else number
        found[column] = Tendency(
            words, is_weight, values, as_number(rows[0][2].get(f"{column}_even"))
        )
    return found


def judge_heads(run: Run) -> list[Finding]:
    """Which tendencies stand out, and how many heads show none."""
    found = []
    for tendency in tendencies(run).values():
        if not tendency.is_weight or tendency.even is None:
            continue
        layer, head, value = tendency.highest()
        if value - tendency.even >= STANDS_OUT:
            found.append(
                f"{tendency.words} (layer {layer}, head {head}: {share(value)} of the weight, "
                f"{share(tendency.even)} if spread evenly)"
            )
    rows = run.rows("heads")
    if not rows:
        return []
    named = [str(row.get("interpretation")).partition(":")[0] for row in rows]
    kinds = set(named) - _NO_TENDENCY
    without = sum(name in _NO_TENDENCY for name in named)
    strongest = f"The strongest by their weight: {'; '.join(found)}." if found else ""
    if not kinds:
        first = "No head has a measured tendency that stands out from even attention."
    elif len(kinds) == 1:
        first = f"Heads do not specialise: all that stand out from even attention do the same. {strongest}"
    else:
        first = (
            f"Heads specialise: {count(len(kinds))} kinds of head stand out from even attention "
        )
        first += f"({'; '.join(sorted(kinds))}). {strongest}"
    return [
        said(
            f"{first.rstrip()} {count(without)} of {count(len(rows))} heads show no measured tendency."
        ),
        not_said(
            "What a head is for: a weight shows where a head looks, not what the model does with what it finds."
        ),
    ]


def judge_roles(run: Run) -> list[Finding]:
    """Which of the described roles some head fits better than its baseline, position alone or even attention."""
    best = best_by_role(run)
    if not best:
        return []
    found = [role for role in best.values() if role.claimed]
    absent = [role.name for role in best.values() if not role.claimed]
    findings = []
    if found:
        named = "; ".join(
            f"{role.name} (layer {role.layer}, head {role.head}: {figure(role.score, 2)} against "
            f"a baseline of {figure(role.baseline, 2)})"
            for role in found
        )
        findings.append(
            said(
                "Roles that a head fits better than position alone explains (previous token: than even attention): "
                f"{named}."
            )
        )
    if absent:
        findings.append(
            said(f"No head fits these roles better than that baseline: {', '.join(absent)}.")
        )
    return findings


def judge_ablation(run: Run) -> list[Finding]:
    """Which head the model needs most, and how many it does not need."""
    known = [head for head in heads(run) if head.increase is not None]
    if not known:
        return []
    most = max(known, key=lambda head: head.increase or 0)
    idle = sum(head.idle for head in known)
    text = (
        f"{count(idle)} of {many(len(known), 'head')} can be ablated without a measurable change."
    )
    if not most.idle and most.increase is not None and most.increase > 0:
        text = (
            f"The model needs layer {most.layer}, head {most.head} most: without it the loss rises by "
            f"{loss(most.increase)} nats per token ({loss(most.low)} to {loss(most.high)}). {text}"
        )
    return [
        said(text),
        not_said(
            "What heads are worth together: they were ablated one at a time, and where two do the same work "
            "each looks idle."
        ),
    ]


HEAD_RULES = (judge_heads, judge_roles, judge_ablation)
