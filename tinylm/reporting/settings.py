"""Settings of the report."""

import dataclasses

from tinylm.base.config import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Section `report`."""

    title: str = setting()
    compare: str = setting(choices=("none", "assignment", "A", "B", "D", "E"))
    samples: int = setting(low=0, high=1000)
