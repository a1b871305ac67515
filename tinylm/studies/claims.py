"""What the claims of the ledger are made of.

A claim is a generator in ledger_a.py, ledger_b.py and so on, one file per published system. It yields the sentence that
the system claims, then sentences of evidence, and last the status. Its parameters name what it reads: `theirs` (the
system's published figures), `ours` (our recorded run of the system's preset), `course_a` and `assignment` (the
published figures of those) or a recorded study, such as `epoch_1`. Evidence that needs a figure which is not recorded
is left out; a status that needs one is "not run yet". No figure is typed in a sentence.
"""

from collections.abc import Callable, Iterator

from tinylm.report.figures import Figures, is_recorded
from tinylm.report.library import CONTRADICTED, DEPENDS, NOT_RUN, REPRODUCED, UNTESTABLE

__all__ = [
    "CONTRADICTED",
    "DEPENDS",
    "NOT_RUN",
    "ONCE",
    "REPRODUCED",
    "UNTESTABLE",
    "Claim",
    "by_trials",
    "contradicted_if",
    "reproduced_if",
]

Claim = Iterator[str]


def repeated(figure: str, *rows: Figures) -> bool:
    """Whether a time was measured in several trials for each of these settings of a recorded run."""
    ends = [row[f"{end}_{figure}"] for row in rows for end in ("low", "high")]
    return all(map(is_recorded, ends)) and any(
        low != high for low, high in zip(ends[::2], ends[1::2])
    )


ONCE = "Each time was measured once, which cannot carry the claim."


def by_trials(status: Callable[[], str], figure: str, *rows: Figures) -> Claim:
    """What `status` gives if the times that it compares were repeated; else that they were not."""
    if repeated(figure, *rows):
        yield status()
    else:
        yield ONCE
        yield UNTESTABLE


def reproduced_if(holds: bool) -> str:
    """Reproduced, or else contradicted."""
    return REPRODUCED if holds else CONTRADICTED


def contradicted_if(fails: bool) -> str:
    """Contradicted, or else reproduced."""
    return CONTRADICTED if fails else REPRODUCED
