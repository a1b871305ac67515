"""The ledger: claims of the published systems, each with a status and evidence computed from files."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError, load_params
from tinylm.reporting.expressions import evaluate, fill, paths, places
from tinylm.reporting.seeds import BadExpression, Missing

LEDGER = "docs/ledger.yaml"
REPRODUCED, CONTRADICTED, DEPENDS, UNTESTABLE, NOT_RUN = (
    "reproduced",
    "contradicted",
    "depends on",
    "not testable here",
    "not run yet",
)
STATUSES = (REPRODUCED, CONTRADICTED, DEPENDS, UNTESTABLE, NOT_RUN)
COMPUTED = "tinylm record --ledger"
KEYS = ("system", "claim", "decide", "evidence")

Names = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """A line of docs/ledger.yaml as it stands: templates and rules."""

    name: str
    system: str
    claim: str
    decide: str | dict[str, str]
    evidence: tuple[str, ...]

    def expressions(self) -> list[str]:
        """Everything that is evaluated."""
        rules = list(self.decide.values()) if isinstance(self.decide, dict) else []
        return [*rules, *(place for text in (self.claim, *self.evidence) for place in places(text))]


@dataclass(frozen=True)
class Entry:
    """A claim with its texts filled in."""

    name: str
    system: str
    kind: str  # of source: course report (A)
    claim: str
    status: str
    evidence: str
    command: str


def _claim(name: str, row: Any, source: str) -> Claim:
    def problem(text: str) -> InputError:
        return InputError(f"{source}: {name}: {text}")

    if not isinstance(row, dict) or set(row) != set(KEYS):
        raise problem(f"allowed: a mapping with {', '.join(KEYS)}")
    decide, evidence = row["decide"], row["evidence"]
    if isinstance(decide, dict):
        wrong = [key for key in decide if key not in STATUSES[:3]]
    else:
        wrong = [] if decide == UNTESTABLE else [decide]
    if wrong:
        raise problem(f"decide = {wrong[0]!r}; allowed: rules for {', '.join(STATUSES[:3])}, or {UNTESTABLE}")
    texts = [evidence] if isinstance(evidence, str) else evidence
    return Claim(name, row["system"], row["claim"], decide, tuple(texts))


def read_ledger(folder: str | Path = ".") -> list[Claim]:
    """The claims of docs/ledger.yaml. Raises InputError where it is missing or a line is not whole."""
    path = Path(folder) / LEDGER
    return [_claim(name, row, LEDGER) for name, row in load_params(path).items()]


def names_for(system: str, library: Names) -> dict[str, Any]:
    """The library with `theirs` (the system's published figures) and `ours` (the recorded run of its preset)."""
    theirs = library["published"].get(system)
    if theirs is None:
        raise BadExpression(f"system {system!r}; allowed: {', '.join(library['published'])}")
    return {**library, "theirs": theirs, "ours": library["runs"].get(theirs["preset"])}


def _status(claim: Claim, names: Names) -> str:
    if isinstance(claim.decide, str):
        return claim.decide
    try:
        return next((status for status, rule in claim.decide.items() if evaluate(rule, names)), DEPENDS)
    except Missing:
        return NOT_RUN


def _evidence(claim: Claim, names: Names) -> str:
    found = []
    for text in claim.evidence:
        try:
            found.append(fill(text, names))
        except Missing:
            continue
    return " ".join(found)


def _commands(claim: Claim, names: Names) -> str:
    """What makes the files that the claim reads."""
    wanted: dict[str, None] = {}
    for path in [path for text in claim.expressions() for path in paths(text)]:
        if path[0] == "ours":
            path = ("runs", names["theirs"]["preset"])
        if path[0] in ("runs", "studies") and len(path) > 1:
            name = path[1].replace("_", "-")
            preset = f"tinylm preset {name} && dvc repro && tinylm record {name}"
            wanted[preset if path[0] == "runs" else f"tinylm study {name}"] = None
    return "; ".join(wanted or [COMPUTED])


def decide(claim: Claim, library: Names) -> Entry:
    """The claim with status, evidence and command. Raises BadExpression for a rule that cannot be evaluated."""
    try:
        names = names_for(claim.system, library)
        return Entry(
            claim.name,
            claim.system,
            names["theirs"]["kind"],
            fill(claim.claim, names),
            _status(claim, names),
            _evidence(claim, names),
            _commands(claim, names),
        )
    except BadExpression as error:
        raise BadExpression(f"{LEDGER}: {claim.name}: {error}") from None


def entries(folder: str | Path, library: Names) -> list[Entry]:
    """The whole ledger."""
    return [decide(claim, library) for claim in read_ledger(folder)]


def counts(found: list[Entry]) -> dict[str, int]:
    """How many claims have each status, in the order of STATUSES; those that none has are left out."""
    by_status = Counter(entry.status for entry in found)
    return {status: by_status[status] for status in STATUSES if by_status[status]}
