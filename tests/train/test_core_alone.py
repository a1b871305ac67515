"""The core works in a copy without the other packages: from raw text to a generated continuation."""

import os
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.support.stages import ROOT, STORIES, small_params

PACKAGES = [
    "base",
    "host",
    "download",
    "storybook",
    "vocab",
    "embedding",
    "model",
    "train",
    "decoding",
]
# Without the finder of an editable installation, which would supply the missing packages.
PROGRAM = """
import os, runpy, sys
folder = os.getcwd()
sys.path.insert(0, folder)
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")]
sys.path[:] = [path for path in sys.path if not os.path.isdir(os.path.join(path, "tinylm"))]
sys.path.insert(0, folder)
module = sys.argv.pop(1)
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
finally:
    for name, loaded in list(sys.modules.items()):
        path = getattr(loaded, "__file__", None)
        assert name.partition(".")[0] != "tinylm" or path is None or path.startswith(folder), path
"""


@pytest.fixture
def core(tmp_path):
    for name in PACKAGES:
        shutil.copytree(ROOT / "tinylm" / name, tmp_path / "tinylm" / name)
    shutil.copy(ROOT / "tinylm/__init__.py", tmp_path / "tinylm")
    shutil.copytree(ROOT / "stages", tmp_path / "stages")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    params = small_params()
    params["train"]["tokens"] = 600
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    return tmp_path


def test_the_core_needs_no_other_package(core):
    lines = [f'{{"text": "{story}"}}\n' for story in STORIES]
    (core / "stories.jsonl").write_text("".join(lines), encoding="utf-8")
    commands = [
        ["stages.download"],
        ["stages.vocab"],
        ["stages.train"],
        ["tinylm.decoding", "one day a boy saw"],
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *command],
            cwd=core,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert done.stdout.lower().startswith("one day a boy saw")
