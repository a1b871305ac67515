"""docs/reference/faults.md names existing tests for each of the 48 faults and of ten more."""

import runpy
from pathlib import Path

TABLE = runpy.run_path(str(Path(__file__).with_name("table.py")))


def test_every_fault_has_a_test():
    assert list(TABLE["ROWS"]) == list(range(1, 49))
    assert [row for row, tests in TABLE["tests_of_rows"]().items() if not tests] == []


def test_every_test_that_is_named_exists():
    files = TABLE["tests_by_file"]()
    named = [test for tests in TABLE["tests_of_rows"]().values() for test in tests]
    assert len(named) > 48
    named += [test for *_, tests in TABLE["FURTHER"] for test in tests.split()]
    assert [test for test in named if test.partition("::")[2] not in files.get(test.partition("::")[0], [])] == []


def test_the_page_holds_the_table():
    page = TABLE["PAGE"].read_text("utf-8")
    for begin, end, made in (("BEGIN", "END", "markdown"), ("BEGIN_FURTHER", "END_FURTHER", "further")):
        table = page.partition(TABLE[begin])[2].partition(TABLE[end])[0]
        assert table == TABLE[made](), "python tests/faults/table.py writes it anew"


def test_there_are_ten_bad_inputs_of_our_own():
    assert len({given for given, *_ in TABLE["FURTHER"]}) >= 10
