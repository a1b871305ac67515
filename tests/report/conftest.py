"""A run of every stage, as the report reads it."""

import copy

import pytest

from tinylm.base.config import load_params, read_section
from tinylm.report.settings import ReportSettings
from tinylm.report.sources import ReportData, read_run


@pytest.fixture(scope="session")
def finished(finished_run) -> ReportData:
    """The run of `finished_run`; not to be changed."""
    return read_run(finished_run, load_params(finished_run / "params.yaml"))


@pytest.fixture
def run(finished) -> ReportData:
    """A copy whose results a test may change."""
    return copy.deepcopy(finished)


@pytest.fixture
def settings(run) -> ReportSettings:
    return read_section(run.params, "report", ReportSettings)
