"""A stage killed in the middle: nothing half written, and the next `dvc repro` ends with the same bytes."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def copy(base, tmp_path_factory):
    """What a reader gets by `git clone`: code, dvc.lock and the files in git, but no cache."""
    clone = type(base)(tmp_path_factory.mktemp("interrupted") / "clone")
    clone.install_python()
    base.run("git", "clone", "-q", str(base.path), str(clone.path))
    return clone


def written(folder: Path) -> dict[str, bytes]:
    """Every file under a final name in the folders of the pipeline, but for those that hold or draw times."""
    roots = [folder / name for name in ("data", "models", "metrics", "plots")]
    files = [path for root in roots if root.exists() for path in root.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if not path.name.startswith(".")
        and "_time" not in path.name
        and "pictures" not in path.parts
    }


@pytest.mark.parametrize(
    ("stage", "missing", "there"),
    [
        ("download", "data/stories/train.jsonl", "data/stories/evaluation.jsonl"),
        ("vocab", "metrics/vocab.json", "data/vocab/tokenizer.json"),
        ("train", "models/model.safetensors", "data/vocab/embedding.safetensors"),
        ("train", "metrics/train.json", "models/model.safetensors"),
    ],
)
def test_a_killed_stage_leaves_no_partial_file(copy, base, stage, missing, there):
    """Killed when the content of `missing` is written, `there` before it."""
    found = copy.repro(stage, code=255, KILL_STAGE=f"stages.{stage}", KILL_BEFORE=missing)
    assert found.commands[-1] == stage
    assert f"failed to reproduce '{stage}'" in found.text
    files, whole = written(copy.path), written(base.path)
    assert missing not in files
    assert there in files
    assert [name for name, content in files.items() if content != whole[name]] == []


def test_the_next_repro_ends_with_the_same_bytes(copy, base):
    found = copy.repro()
    assert found.unchanged == {"download", "vocab"}
    assert {
        "train",
        "evaluate",
        "beam_bench",
        "kv_bench",
        "accum_run",
        "accum_sweep",
        "ckpt_bench",
    } < found.ran
    assert copy.metrics() == base.metrics()
    assert written(copy.path) == written(base.path)
    assert copy.repro().commands == []
