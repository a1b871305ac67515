"""What the claims of the ledger are made of.

A claim is a generator in ledger_a.py, ledger_b.py and so on, one file per published system. It yields the sentence that
the system claims, then sentences of evidence, and last the status. Its parameters name what it reads: `theirs` (the
system's published figures), `ours` (our recorded run of the system's preset), `course_a` and `assignment` (the
published figures of those) or a recorded study, such as `epoch_1`. Evidence that needs a figure which is not recorded
is left out; a status that needs one is "not run yet". No figure is typed in a sentence.
"""

from collections.abc import Iterator

from tinylm.reporting.library import CONTRADICTED, DEPENDS, NOT_RUN, REPRODUCED, UNTESTABLE

__all__ = [
    "CONTRADICTED",
    "DEPENDS",
    "NOT_RUN",
    "REPRODUCED",
    "UNTESTABLE",
    "Claim",
    "contradicted_if",
    "reproduced_if",
]

Claim = Iterator[str]


def reproduced_if(holds: bool) -> str:
    """Reproduced, or else contradicted."""
    return REPRODUCED if holds else CONTRADICTED


def contradicted_if(fails: bool) -> str:
    """Contradicted, or else reproduced."""
    return CONTRADICTED if fails else REPRODUCED
