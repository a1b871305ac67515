"""A number with its 95 % interval."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Interval:
    """A value and the ends of its 95 % interval; None where the number is not finite.

    stories: from how many different stories it was computed, where that is written.
    """

    value: float | None
    low: float | None
    high: float | None
    stories: int | None = None
