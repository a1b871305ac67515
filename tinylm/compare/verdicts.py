"""What may be said of a difference, in one word and in one sentence."""

import dataclasses
import math

from tinylm.compare.seed_noise import Spread
from tinylm.compare.statistics import Difference

FEWEST = 5  # stories or prompts; the bootstrap interval of fewer is too narrow, of one it has no width
BETTER, WORSE = "better", "worse"
EQUAL, SEEDS_ONLY, NOTHING_DIFFERS, UNCLEAR, WITHIN_SEEDS = (
    "equal",
    "seeds only",
    "nothing differs",
    "unclear",
    "within seeds",
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """kind: one of the names above; says: the sentence for people."""

    kind: str
    says: str


def judge(difference: Difference, lower_is_better: bool, noise: Spread | None, differs: str) -> Verdict:
    """Whether the second run is better than the first.

    noise: how far two runs differ by their seeds alone, None where that is not known.
    differs: "" (nothing that decides a result), "seeds" (nothing else) or "settings". A claim is made only where
    settings differ, the interval leaves 0 out, and the difference is larger than what seeds give, where that is known.
    """
    if difference.first == difference.second and difference.low == difference.high == 0:
        return Verdict(EQUAL, "the same")
    if differs == "seeds":
        return Verdict(SEEDS_ONLY, "no difference is claimed: only seeds differ, and this is what they give")
    if differs == "":
        return Verdict(NOTHING_DIFFERS, "no difference is claimed: nothing that decides a result differs")
    if not math.isfinite(difference.value):
        return Verdict(UNCLEAR, "no difference is shown: a figure is not finite")
    if difference.count < FEWEST:
        return Verdict(UNCLEAR, f"no difference is shown: an interval wants {FEWEST} texts or more")
    if difference.holds_zero:
        return Verdict(UNCLEAR, "no difference is shown: the interval holds 0")
    if noise is not None and abs(difference.value) <= noise.difference:
        return Verdict(WITHIN_SEEDS, f"the difference is smaller than what seeds give ({_told(noise)})")
    kind = BETTER if (difference.value < 0) == lower_is_better else WORSE
    if noise is None:
        return Verdict(kind, f"{kind} over these texts; whether seeds alone give as much is not known")
    return Verdict(kind, f"{kind}; more than what seeds give ({_told(noise)})")


def _told(noise: Spread) -> str:
    return f"up to {noise.difference:.3g}, as far as {noise.seeds} of them tell"
