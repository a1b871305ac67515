"""pytest plugins: one notes which test runs which lines, the other runs only the tests asked for, quickest first."""

import time
from collections.abc import Iterator
from typing import Any

import coverage
import pytest


class Recorder:
    """For each passed test its seconds, and for each line of `module` the tests that ran it."""

    def __init__(self, module: str) -> None:
        self.coverage = coverage.Coverage(data_file=None, include=[module], config_file=False)
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
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
        return {"seconds": {t: s for t, s in self.seconds.items() if t not in self.failed}, "lines": lines}


class Chosen:
    """Runs the given tests in the given order and no others."""

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda item: self.place[item.nodeid])
