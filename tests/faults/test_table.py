"""docs/faults.md names tests that exist for each of the 48 faults and for ten more."""

from tests.faults import table


def test_every_fault_has_a_test():
    assert list(table.ROWS) == list(range(1, 49))
    assert [row for row, tests in table.tests_of_rows().items() if not tests] == []  # KeyError: no such test
    assert all(table.places(tests) for *_, tests in table.FURTHER)


def test_the_page_holds_the_table():
    page = table.PAGE.read_text("utf-8")
    for begin, end, made in (("BEGIN", "END", "markdown"), ("BEGIN_FURTHER", "END_FURTHER", "further")):
        shown = page.partition(getattr(table, begin))[2].partition(getattr(table, end))[0]
        assert shown == getattr(table, made)(), "python tests/faults/table.py writes it anew"


def test_there_are_ten_bad_inputs_of_our_own():
    assert len({given for given, *_ in table.FURTHER}) >= 10
