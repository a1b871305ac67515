"""When the report is drawn again: whenever something that it shows is not what it shows."""

import pytest

from tinylm.base import paths
from tinylm.base.files import write_bytes
from tinylm.report.current import MADE, is_current, mark_current


@pytest.fixture
def drawn(run_folder, params):
    """A folder whose report has just been drawn, with one picture."""
    for path in (paths.REPORT_PAGE, paths.REPORT_PDF, f"{paths.PICTURES}/loss.png"):
        write_bytes(run_folder / path, b"drawn")
    mark_current(run_folder, params, ["loss"])
    assert is_current(run_folder, params)
    return run_folder


@pytest.mark.parametrize(
    "path",
    [
        paths.REPORT_PAGE,
        paths.REPORT_PDF,
        f"{paths.PICTURES}/loss.png",
        MADE,
        paths.figures("train"),
        "plots/loss.csv",
    ],
)
def test_a_file_that_is_gone_or_another(drawn, params, path):
    before = (drawn / path).read_bytes()
    (drawn / path).unlink()
    assert not is_current(drawn, params)
    if not path.endswith(".png"):
        (drawn / path).write_bytes(before + b" ")
        assert not is_current(drawn, params)
    (drawn / path).write_bytes(before)
    assert is_current(drawn, params)


def test_times_a_recorded_run_and_parameters_are_shown_too(drawn, params):
    assert not is_current(drawn, params | {"report": params["report"] | {"title": "another"}})
    assert is_current(drawn, params | {"runtime": params["runtime"] | {"threads": 1}})
    for path in (paths.times("kv_bench"),):
        assert is_current(drawn, params)
        write_bytes(drawn / path, b"{}")
        assert not is_current(drawn, params)
        mark_current(drawn, params, ["loss"])
