"""Section `report` of the default preset, with some of it changed."""

import dataclasses
from typing import Any

from tinylm.base.config import load_params, read_section
from tinylm.presets.write import FOLDER
from tinylm.report.settings import ReportSettings


def report_settings(**changes: Any) -> ReportSettings:
    return dataclasses.replace(
        read_section(load_params(FOLDER / "storybook.yaml"), "report", ReportSettings), **changes
    )
