"""The stories that two runs both continued and whose loss changed most from one to the other."""

import dataclasses

import numpy as np

from tinylm.compare.pairs import Pairs
from tinylm.compare.runs import Run, Stories

SHOWN = 5


@dataclasses.dataclass(frozen=True)
class ChangedStory:
    """A story, its loss under both runs, and what each made of the same prompt."""

    story: int  # its place in the first run's evaluation split, from 0
    unit: str
    first: float
    second: float
    prompt: str
    reference: str
    first_continuation: str
    second_continuation: str

    @property
    def change(self) -> float:
        """second - first: below 0 the second run finds the story likelier."""
        return self.second - self.first

    @property
    def differs(self) -> bool:
        """Whether loss or continuation is another."""
        return self.change != 0 or self.first_continuation != self.second_continuation


def most_changed(first: Run, second: Run, pairs: Pairs, shown: int = SHOWN) -> list[ChangedStory]:
    """The `shown` stories that changed most among those that both continued, the largest change first.

    By nats a token where the tokens are the same, else by bits a byte, which any two tokenizers share. One prompt a
    story.
    """
    if first.stories is None or second.stories is None:
        return []
    unit, losses = _losses(first.stories, second.stories, pairs)
    found: dict[int, ChangedStory] = {}
    for left, right in pairs.samples.tolist():
        one, other = first.samples[left], second.samples[right]
        story, same = int(one["story"]), int(other["story"])
        texts = one["prompt"], one["reference"], one["continuation"], other["continuation"]
        found.setdefault(story, ChangedStory(story, unit, float(losses[0][story]), float(losses[1][same]), *texts))
    known = [changed for changed in found.values() if np.isfinite(changed.change) and changed.differs]
    return sorted(known, key=lambda changed: -abs(changed.change))[:shown]


def _losses(first: Stories, second: Stories, pairs: Pairs) -> tuple[str, tuple[np.ndarray, np.ndarray]]:
    with np.errstate(divide="ignore", invalid="ignore"):  # an empty story has no loss, and no prompt
        if pairs.same_tokens:
            return "nats a token", (first.nats / first.tokens, second.nats / second.tokens)
        return "bits a byte", (first.bits / first.n_bytes, second.bits / second.n_bytes)
