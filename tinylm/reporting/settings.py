"""Settings of the report."""

import dataclasses

from tinylm.config import setting


@dataclasses.dataclass(frozen=True)
class ReportSettings:
    """Section `report`."""

    title: str = setting()
    samples: int = setting(low=0, high=1000)
