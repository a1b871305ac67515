"""The table of reruns against DVC: each edit is made in a clone whose stages only write hashes of what they read."""

import shutil
import sys

import pytest

from tests.support.clone import Clone, new_clone
from tests.support.reruns import EDITED, SAME_BYTES, STAGES, reached_by

# Instead of Python: writes into each output a hash of the stage's parameters and data, as dvc.yaml lists them.
WRITER = """\
#!{python}
import hashlib, os, sys
from pathlib import Path
import yaml
name, item = sys.argv[2].removeprefix("stages."), "".join(sys.argv[3:])
with open({log!r}, "a") as log:
    print("-m", sys.argv[2], item, file=log)
def named(entries):
    for entry in entries:
        path = entry if isinstance(entry, str) else next(iter(entry))
        yield path.replace("${{item.seed}}", item).replace("${{item.accumulation}}", item)
stage = yaml.safe_load(Path("dvc.yaml").read_text())["stages"][name]
params = yaml.safe_load(Path("params.yaml").read_text())
read = [params[key] if "." not in key else params[key.split(".")[0]][key.split(".")[1]] for key in stage["params"]]
text = name + item
for path in named(stage["deps"]):
    if path.startswith(("data/", "models", "plots/")):
        files = [Path(path), *sorted(Path(path).rglob("*"))]
        text += "".join(file.read_text() for file in files if file.is_file())
for path in named([*stage["outs"], *stage.get("metrics", []), *stage.get("plots", [])]):
    file = Path(path) if Path(path).suffix else Path(path, "file.txt")
    file.parent.mkdir(parents=True, exist_ok=True)
    known = text if path in {same!r} else text + repr(read)
    if path.startswith(("data/times", "metrics", "plots")):
        known += os.environ.get("MEASUREMENT", "")
    file.write_text(hashlib.sha256(known.encode()).hexdigest())
"""
NEW = {
    "data.train_stories": 310, "vocab.min_count": 2, "embedding.window": 4, "model.heads": 1, "train.lr": 0.01,
    "train.tokens": 7000, "train.validate_every": 11, "decode.temperature": 0.9, "decode.slide": "one",
    "decode.length_penalty": 1.0, "evaluate.stories": 2, "evaluate.bootstrap": 21, "beam_bench.widths": [1, 3],
    "kv_bench.lengths": [5], "accum_sweep.tokens": 700, "ckpt_bench.depths": [2], "seeds.more": [3],
    "report.title": "another", "runtime.threads": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Clone:
    """A clone after a whole `dvc repro` with the writer as `python`."""
    copy = new_clone(tmp_path_factory.mktemp("reruns") / "clone")
    same = sorted({path for paths in SAME_BYTES.values() for path in paths})
    python = copy.path.parent / f"{copy.path.name}.bin/python"
    python.write_text(WRITER.format(python=sys.executable, log=str(copy.log), same=same))
    assert copy.repro().ran == set(STAGES)
    copy.commit("first run")
    return copy


@pytest.mark.parametrize("key", EDITED)
def test_an_edit_reruns_what_the_table_says_and_the_way_back_nothing(clone, key):
    before = (clone.path / "params.yaml").read_bytes()
    clone.set({key: NEW[key]})
    assert clone.repro().ran == reached_by(key)
    (clone.path / "params.yaml").write_bytes(before)
    for left in clone.path.glob("data/seeds/3*"):  # which stage seeds itself removes
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    assert clone.repro().commands == []
    assert "up to date" in clone.dvc("status")


def test_a_new_measurement_reruns_the_report_alone(clone):
    clone.dvc("repro", "-f", "-s", "kv_bench", MEASUREMENT="2")
    assert clone.repro().ran == {"report"}
    changed = clone.run("git", "status", "--porcelain").stdout.split()[1::2]
    assert set(changed) == {"dvc.lock", "metrics/kv/file.txt", "plots/kv_bench.csv"}
