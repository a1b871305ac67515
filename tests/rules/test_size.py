"""Lines, density and file sizes stay within the budgets."""

import pytest

from tests.support import size
from tests.support.clone import working_tree

FILES = size.code_files()
PACKAGES = size.packages((size.ROOT / "ARCHITECTURE.md").read_text("utf-8"))
LARGE = 512 << 10  # bytes


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_is_within_its_budget(package):
    assert 0 < size.lines_of(package.folder, FILES) <= package.budget


@pytest.mark.parametrize("folders", size.TOTAL_LINES, ids="+".join)
def test_totals_are_within_their_budgets(folders):
    lines = sum(size.lines_of(folder, FILES) for folder in folders)
    assert lines <= size.TOTAL_LINES[folders]


@pytest.mark.parametrize("limit", size.LIMITS, ids=lambda limit: "+".join(limit.folders))
def test_code_is_not_compressed(limit):
    found = size.density(limit.folders, FILES)
    assert found.average <= limit.average
    assert found.heavy_percent <= limit.heavy_percent
    assert found.hard_comprehensions <= limit.hard_comprehensions


def test_no_large_file_is_committed():
    names = working_tree(size.ROOT)
    large = [name for name in names if (size.ROOT / name).stat().st_size > LARGE]
    assert large == ["docs/lab/index.html"]
