"""No package grows over the budget that ARCHITECTURE.md gives it."""

import pytest

from tests.support import size

FILES = size.code_files()
PACKAGES = size.packages((size.ROOT / "ARCHITECTURE.md").read_text("utf-8"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_is_within_its_budget(package):
    assert 0 < size.lines_of(package.folder, FILES) <= package.budget
