"""What `make mutants` makes of a module, and whom it asks about it."""

import pytest

pytest.importorskip("mutmut", reason="make mutants installs it")

from tests.mutants.mutate import mutants
from tests.mutants.run import row, witnesses
from tests.mutants.targets import TARGETS
from tests.mutants.workers import ROOT, outcome

SOURCE = '''\
"""Words stay."""
import functools

@functools.lru_cache(maxsize=64)
def half(x: int = 2) -> int:
    if x < 0:
        return -1
    return x // 2  # rounded down
'''


def test_each_change_is_made_once_and_alone():
    found = [mutant.change for mutant in mutants(SOURCE)]
    assert found == [
        "def half(x: int = 2) -> int:  ->  def half(x: int = 3) -> int:",
        "if x < 0:  ->  if x <= 0:",
        "if x < 0:  ->  if x < 1:",
        "return -1  ->  return +1",
        "return -1  ->  return -2",
        "return x // 2  # rounded down  ->  return x / 2  # rounded down",
        "return x // 2  # rounded down  ->  return x // 3  # rounded down",
    ]
    for mutant in mutants(SOURCE):
        compile(mutant.source, "mutant", "exec")
        assert sum(a != b for a, b in zip(mutant.source.splitlines(), SOURCE.splitlines(), strict=True)) == 1
        assert SOURCE.splitlines()[mutant.lines[0] - 1] == mutant.change.partition("  ->")[0] or mutant.lines[0] > 5


def test_a_mutant_gets_the_witnesses_its_lines_the_quickest_file_first():
    recorded = {
        "seconds": {"a::slow": 3.0, "a::fast": 0.1, "b::one": 1.0, "c::two": 0.5},
        "lines": {"5": [""], "6": ["a::slow", "a::fast", "b::one"], "8": ["", "c::two"], "9": ["c::failed"]},
        "apart": ["c::two"],
    }
    asked = {mutant.lines[0]: witnesses(mutant, recorded) for mutant in mutants(SOURCE)}
    assert asked == {
        5: ["c::two", "b::one", "a::fast", "a::slow"],  # run by the import: everybody
        6: ["c::two", "b::one", "a::fast", "a::slow"],
        7: ["c::two", "b::one", "a::fast", "a::slow"],  # nobody comes here: ask all
        8: ["c::two"],
    }


@pytest.mark.parametrize(
    ("status", "said"),
    [(0, "survived"), (1 << 8, "killed"), (2 << 8, "killed"), (24, "timeout"), (11, "killed"), (5 << 8, "broken")],
)
def test_outcomes(status, said):
    assert outcome(status) == said


def test_the_share_counts_what_was_run():
    found = [{"outcome": said} for said in ("killed", "killed", "timeout", "survived", "")]
    assert row("m", found) == "| m | 4 | 2 | 1 | 1 | 75.0% |  (1 not run)"


def test_the_modules_are_those_of_the_rooms():
    assert {"tinylm/model/checkpoint.py", "tinylm/beam/search.py", "tinylm/base/files.py"} <= set(TARGETS)
    assert [test for tests in TARGETS.values() for test in tests if not (ROOT / test).exists()] == []
