"""What each head does, measured: its role (roles.csv) and the loss that ablating it adds (ablation.csv)."""

import dataclasses

from tinylm.reporting.sources import Run, as_number

STANDS_OUT = 0.10  # weight above even attention, as in the table of heads


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
        layer, head, score, baseline = (as_number(row.get(key)) for key in ("layer", "head", "score", "baseline"))
        if layer and head and score is not None and baseline is not None:
            positions = as_number(row.get("positions"))
            claimed = str(row.get("claimed")) == "True"
            found.append(Role(str(row.get("role")), int(layer), int(head), score, baseline, positions, claimed))
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
            losses[int(layer), int(head)] = tuple(as_number(row.get(key)) for key in ("loss_increase", "low", "high"))
    return [
        Head(*place, tuple(known.get(place, ())), *losses.get(place, (None, None, None)))
        for place in sorted(known.keys() | losses)
    ]
