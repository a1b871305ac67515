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

CONTINUE = """
from tinylm.decoding.settings import DecodeSettings
from tinylm.decoding.texts import generate_text
from tinylm.model.checkpoint import load_model
from tinylm.vocab.kinds import open_tokenizer

model, _ = load_model("models", "cpu")
tokenizer = open_tokenizer("data/vocab/tokenizer.json")
texts = generate_text(model, tokenizer, ["one day a boy saw"], DecodeSettings(), max_new_tokens=9)
print(*texts)
"""


@pytest.fixture
def core(tmp_path):
    for name in PACKAGES:
        shutil.copytree(ROOT / "tinylm" / name, tmp_path / "tinylm" / name)
    shutil.copy(ROOT / "tinylm/__init__.py", tmp_path / "tinylm")
    params = small_params()
    params["train"]["tokens"] = 600
    plant(tmp_path, params)
    (tmp_path / "continue_text.py").write_text(CONTINUE)
    return tmp_path


def test_the_core_needs_no_other_package(core):
    for module in ("stages.download", "stages.vocab", "stages.train", "continue_text"):
        words = [sys.executable, "-c", PROGRAM, module]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, cwd=core, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (module, done.stdout, done.stderr)
    assert done.stdout.lower().startswith("one day a boy saw")
