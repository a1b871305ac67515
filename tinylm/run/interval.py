"""A number with its 95 % interval."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Interval:
    """A value and the ends of its 95 % interval; None where the number is not finite.

    stories: the number of different stories behind it; None where it is not recorded.
    """

    value: float | None
    low: float | None
    high: float | None
    stories: int | None = None
