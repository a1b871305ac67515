"""The copies that the tests of a folder share."""

import contextlib
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.clone import ROOT, Clone, Repro, new_clone, read_repro


@pytest.fixture(scope="session")
def fresh(tmp_path_factory) -> Clone:
    """A copy in which nothing ever ran, of this process alone."""
    return new_clone(tmp_path_factory.mktemp("fresh") / "clone")


@contextlib.contextmanager
def shared_lock(path: Path) -> Iterator[None]:
    with open(path, "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Clone:
    """A copy after its first whole `dvc repro`, committed; made once for all test processes, and never changed."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with shared_lock(folder / "pipeline.lock"):
        done = folder / "pipeline.json"
        if not done.exists():
            clone = new_clone(folder / "pipeline" / "clone")
            clone.run(sys.executable, "-m", "tinylm.reporting.offline_page", ".dvc/plots_page.html")
            clone.dvc("config", "--quiet", "--local", "plots.html_template", "plots_page.html")
            first = clone.repro()
            clone.commit("first run")
            done.write_text(json.dumps({"text": first.text, "commands": first.commands}), encoding="utf-8")
    return Clone(folder / "pipeline" / "clone")


@pytest.fixture(scope="session")
def first_run(base) -> Repro:
    """The first `dvc repro` of `base`."""
    return read_repro(**json.loads((base.path.parents[1] / "pipeline.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def clone(base, tmp_path_factory) -> Clone:
    """A copy of `base` for the tests of one file, which may change it."""
    copy = Clone(tmp_path_factory.mktemp("pipeline") / "clone")
    shutil.copytree(base.path, copy.path, symlinks=True)
    copy.install_python()
    return copy


@pytest.fixture(scope="session")
def pipeline() -> dict[str, Any]:
    """dvc.yaml."""
    return YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
