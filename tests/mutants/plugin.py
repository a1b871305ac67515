"""pytest plugins: one notes which test runs which lines, the other runs only the tests asked for, quickest first."""

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import coverage
import pytest


class Recorder:
    """For each passed test its seconds, for each line of `module` the tests that ran it, and the tests that start
    other processes, whose lines are not seen."""

    def __init__(self, module: str) -> None:
        self.coverage = coverage.Coverage(data_file=None, include=[module], config_file=False)
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.apart: set[str] = set()
        self.now = ""
        sys.addaudithook(lambda event, _: self.apart.add(self.now) if event == "subprocess.Popen" else None)

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.now = item.nodeid
        self.coverage.switch_context(self.now)
        start = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - start
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def result(self) -> dict[str, Any]:
        """JSON of what was seen; tests that failed or were skipped are not in it."""
        self.coverage.stop()
        data = self.coverage.get_data()
        lines: dict[int, list[str]] = {}
        for file in data.measured_files():
            lines |= {line: sorted(tests) for line, tests in data.contexts_by_lineno(file).items()}
        seconds = {test: seconds for test, seconds in self.seconds.items() if test not in self.failed}
        return {"seconds": seconds, "lines": lines, "apart": sorted(self.apart)}


class Chosen:
    """Runs the given tests in the given order and no others, and ends the process at the first that fails."""

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda item: self.place[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os._exit(1)
