"""The core works in a copy without the other packages: from raw text to a generated continuation."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.support.stages import ROOT, plant, small_params

PACKAGES = (
    *("base", "host", "download", "storybook", "vocab", "embedding"),
    *("model", "train", "decoding"),
)
# Without the finder of an editable installation, which would supply the missing packages.
PROGRAM = """
import runpy, sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")]
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def core(tmp_path):
    for name in PACKAGES:
        shutil.copytree(ROOT / "tinylm" / name, tmp_path / "tinylm" / name)
    shutil.copy(ROOT / "tinylm/__init__.py", tmp_path / "tinylm")
    params = small_params()
    params["train"]["tokens"] = 600
    plant(tmp_path, params)
    return tmp_path


def test_the_core_needs_no_other_package(core):
    for command in (
        ["stages.download"],
        ["stages.vocab"],
        ["stages.train"],
        ["tinylm.decoding", "one day a boy saw"],
    ):
        words = [sys.executable, "-c", PROGRAM, *command]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, cwd=core, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert done.stdout.lower().startswith("one day a boy saw")
