"""The copies that the tests of a folder share."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.clone import Clone, new_clone, stages_run
from tests.support.folders import made_once


def first_repro(folder: Path) -> None:
    """A copy in `folder`, its first whole `dvc repro`, which is noted, and a commit."""
    clone = new_clone(folder / "clone")
    clone.run(sys.executable, "-m", "tinylm.report.offline_page", ".dvc/plots_page.html")
    clone.dvc("config", "--quiet", "--local", "plots.html_template", "plots_page.html")
    (folder / "first.txt").write_text(clone.dvc("repro"), encoding="utf-8")
    clone.commit("first run")


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Clone:
    """A copy after its first whole `dvc repro`, committed; never changed."""
    return Clone(made_once(tmp_path_factory, "pipeline", first_repro) / "clone")


@pytest.fixture(scope="session")
def first_run(base) -> set[str]:
    """The stages that the first `dvc repro` of `base` ran."""
    return stages_run((base.path.parent / "first.txt").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def clone(base, tmp_path_factory) -> Clone:
    """A copy of `base` for the tests of one file, which may change it."""
    copy = Clone(tmp_path_factory.mktemp("pipeline") / "clone")
    shutil.copytree(base.path, copy.path, symlinks=True)
    return copy
