"""What `dvc repro` runs and what it leaves alone: from nothing, unchanged, after an edit, and back."""

import shutil

import pytest

from tests.support.reruns import STAGES
from tinylm.base.config import load_params


def commands(stages: set[str]) -> list[str]:
    """What is started for these stages: accum_run once for each of its settings 1 and 2."""
    started = []
    for stage in stages:
        if stage == "accum_run":
            started += ["accum_run 1", "accum_run 2"]
        elif stage.startswith("seed_"):
            started.append(f"{stage} 2")
        else:
            started.append(stage)
    return sorted(started)


def outputs(pipeline) -> set[str]:
    """Every path that dvc.yaml names as a stage's output, the matrix filled in."""
    paths = set()
    for stage in pipeline["stages"].values():
        for entry in [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]:
            path = entry if isinstance(entry, str) else next(iter(entry))
            path = path.replace("${item.seed}", "2")
            paths |= {path.replace("${item.accumulation}", number) for number in ("1", "2")}
    return paths


def test_from_nothing_every_stage_runs(first_run, base, pipeline):
    assert first_run.ran == set(STAGES)
    assert sorted(first_run.commands) == commands(set(STAGES))
    missing = [path for path in outputs(pipeline) if not (base.path / path).exists()]
    assert missing == []
    temporary = [path for path in base.path.rglob(".*.tmp*") if ".dvc" not in path.parts]
    assert temporary == []


def test_unchanged_nothing_runs_and_dvc_status_says_so(clone):
    again = clone.repro()
    assert again.commands == []
    assert again.unchanged == set(STAGES)
    assert "up to date" in clone.dvc("status")
    assert clone.run("git", "status", "--porcelain").stdout == ""


def test_an_edit_runs_what_depends_on_it_and_the_way_back_trains_nothing(clone, base):
    expected = {"evaluate", "beam_bench", "kv_bench", "report"}
    clone.set({"decode.temperature": 0.9})
    edited = clone.repro()
    assert edited.ran == expected
    assert sorted(edited.commands) == commands(expected)
    assert edited.unchanged == set(STAGES) - expected
    shutil.copy(base.path / "params.yaml", clone.path / "params.yaml")
    back = clone.repro()
    assert back.commands == []
    assert clone.metrics() == base.metrics()
    locks = [load_params(copy.path / "dvc.lock") for copy in (clone, base)]
    assert locks[0] == locks[1]


@pytest.mark.parametrize("key", ["train.lr", "model.layers"])
def test_a_wrong_value_stops_before_any_work(clone, key):
    before = (clone.path / "params.yaml").read_text("utf-8")
    clone.set({key: "wrong"})
    failed = clone.repro(code=255)
    assert f"params.yaml: {key} = 'wrong'" in failed.text
    assert clone.metrics() != {}
    (clone.path / "params.yaml").write_text(before, "utf-8")
