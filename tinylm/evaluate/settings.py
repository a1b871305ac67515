"""Section `evaluate`. Without torch, so that params.yaml is checked quickly."""

import dataclasses
from typing import Any

from tinylm.base.config import setting

Rows = list[dict[Any, Any]]  # of a table, as in data/evaluate/*.csv
Tables = dict[str, Any]  # by the name of the CSV file, each a data frame or a list of rows


SEED = 1  # of everything random in stage evaluate except the samples
RESAMPLES = 1000  # bootstrap samples of each interval
TABLE_DECIMALS = 5  # of the numbers in data/evaluate/*.csv


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """Section `evaluate`."""

    stories: int = setting(low=1, high=100_000)
    prompts: str = setting(choices=("starts", "stream"))
    prompt_tokens: int = setting(low=1, high=100_000)
    new_tokens: int = setting(low=1, high=100_000)
    reference: str = setting(choices=("cut", "whole"))

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        if self.prompts == "stream" and self.reference == "whole":
            return [
                "reference: expected cut where prompts is stream, because those texts have no end, got whole"
            ]
        return []
