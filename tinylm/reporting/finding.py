"""One sentence about a run: something that its numbers say, or something that they do not say."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """A sentence; `claim` is false if it says what remains open."""

    claim: bool
    text: str


def said(text: str) -> Finding:
    """The numbers say so."""
    return Finding(True, text)


def not_said(text: str) -> Finding:
    """The numbers do not say that."""
    return Finding(False, text)
