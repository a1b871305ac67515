"""docs/reference/faults.md names existing tests for each of the 48 faults and of ten more."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/faults.md").read_text("utf-8")
ROWS = {
    int(number): re.findall(r"`(test_\w+)`", tests)
    for number, tests in re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", PAGE, re.MULTILINE)
}
FURTHER = re.findall(
    r"^\| (.*)\|(.*)\|(.*)\| (`test_[^|]+) \|$", PAGE.partition("| bad input |")[2], re.MULTILINE
)
NAMES = [
    name
    for path in (ROOT / "tests").rglob("*.py")
    for name in re.findall(r"^def (test_\w+)\(", path.read_text("utf-8"), re.M)
]


def test_every_fault_has_tests_and_names_those_that_name_it():
    assert list(ROWS) == list(range(1, 49))
    assert [row for row, tests in ROWS.items() if not tests] == []
    told = {
        (int(row), name)
        for name in NAMES
        if (numbers := re.match(r"test_fault((?:_\d\d)+)_", name))
        for row in numbers[1].split("_")[1:]
    }
    assert len(told) > 48
    assert sorted((row, name) for row, name in told if name not in ROWS[row]) == []


def test_every_test_that_is_named_exists():
    named = [name for tests in ROWS.values() for name in tests] + [
        name for *_, tests in FURTHER for name in re.findall(r"`(test_\w+)`", tests)
    ]
    assert sorted(set(named) - set(NAMES)) == []


def test_there_are_ten_bad_inputs_of_our_own():
    assert len({given for given, *_ in FURTHER}) >= 10
