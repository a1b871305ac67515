import pytest

from tinylm.base.files import write_csv
from tinylm.bench import measure
from tinylm.host.command import CommandFailed

GOOD = {"setting": "a", "n": 1, "x": 0.12345678, "y": None}
BAD = {"setting": "b", "error": "oom"}


def test_failures_are_named_and_the_rest_goes_on():
    good, failed = measure.split_failures("bench", [GOOD, BAD])
    assert good == [GOOD]
    assert failed == [{"setting": "b", "figure": "all", "reason": "oom"}]


def test_nothing_measured_is_a_failure():
    with pytest.raises(CommandFailed, match="bench: nothing could be measured; b: oom"):
        measure.split_failures("bench", [BAD])


def test_a_figure_without_value_is_absent_and_named():
    rows, missing = measure.records([GOOD], ("n",), ("x", "y"))
    assert rows == [{"n": 1, "x": 0.123457}]
    assert [(m["setting"], m["figure"]) for m in missing] == [("a", "y")]


def test_csv(tmp_path):
    write_csv(tmp_path / "t.csv", ("n", "value"), [(1, 2.0), ("a,b", 1 / 3)])
    assert (tmp_path / "t.csv").read_text() == 'n,value\n1,2\n"a,b",0.333333\n'
