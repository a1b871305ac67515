"""What `dvc repro` runs and what it leaves alone: from nothing, unchanged, one edit of each section, and back again."""

import shutil

import pytest

from tests.support.reruns import RERUNS, STAGES
from tinylm.base.config import load_params


def commands(stages: set[str], seed: int = 2) -> list[str]:
    """What is started for these stages: accum_run once for each of its settings 1 and 2, the seed's with the seed."""
    singles = [
        f"{stage} {seed}" if stage.startswith("seed_") else stage
        for stage in stages - {"accum_run"}
    ]
    return sorted([*singles, *(["accum_run 1", "accum_run 2"] if "accum_run" in stages else [])])


def outputs(pipeline) -> list[str]:
    """Every path that dvc.yaml names as a stage's output, the matrix filled in."""
    paths: list[str] = []
    for stage in pipeline["stages"].values():
        for entry in [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]:
            path = entry if isinstance(entry, str) else next(iter(entry))
            path = path.replace("${item.seed}", "2")
            paths += [path.replace("${item.accumulation}", number) for number in ("1", "2")]
    return sorted(set(paths))


def test_from_nothing_every_stage_runs(first_run, base, pipeline):
    assert first_run.ran == set(STAGES)
    assert sorted(first_run.commands) == commands(set(STAGES))
    found = outputs(pipeline)
    assert len(found) > 30
    assert [path for path in found if not (base.path / path).exists()] == []
    assert all((base.path / path).stat().st_size > 0 for path in found)


def test_no_temporary_file_is_left(base):
    left = [str(path) for path in base.path.rglob(".*.tmp*") if ".dvc" not in path.parts]
    assert left == []


def test_unchanged_nothing_runs(clone):
    again = clone.repro()
    assert again.commands == []
    assert again.restored == set()
    assert again.unchanged == set(STAGES)
    assert "up to date" in clone.dvc("status").stdout
    assert list(
        (clone.path / "tinylm/model").rglob("*.pyc")
    )  # made by the run, inside a dependency


@pytest.mark.parametrize(("edited", "value", "stages"), RERUNS, ids=[row[0] for row in RERUNS])
def test_an_edit_runs_what_depends_on_it(clone, edited, value, stages):
    """The edits add up, one on top of the other: what an edit runs does not depend on earlier ones."""
    expected = set(stages.split())
    clone.set({edited: value})
    found = clone.repro()
    assert found.ran == expected
    assert sorted(found.commands) == commands(expected, 3 if edited == "seeds.more" else 2)
    assert found.restored == set()
    assert found.unchanged == set(STAGES) - expected


def test_back_to_the_old_values_nothing_is_trained_or_measured(clone, base):
    clone.set({"report.title": "a third title"})
    clone.repro("report")
    shutil.copy(base.path / "params.yaml", clone.path / "params.yaml")
    back = clone.repro()
    # the edit of seeds.more left another seed in the folder that stage seeds gathers: it looks again, and trains none
    assert set(back.commands) <= {"seeds", "report"}
    assert "train" in back.restored
    assert back.restored | back.unchanged | back.ran == set(STAGES)
    for path in (
        "models/model.safetensors",
        "data/seeds/2/model.safetensors",
        "data/accum/2.json",
        "metrics/seeds.json",
    ):
        assert (clone.path / path).read_bytes() == (base.path / path).read_bytes()
    assert clone.metrics() == base.metrics()
    locks = [load_params(folder.path / "dvc.lock")["stages"] for folder in (clone, base)]
    kept = (
        locks[0].keys() - locks[1].keys()
    )  # DVC keeps the entries of a stage that an edit of a list once made
    assert {name: entry for name, entry in locks[0].items() if name not in kept} == locks[1]
    assert all("@" in name for name in kept)
    assert clone.run("git", "status", "--porcelain").stdout.split() == ["M", "dvc.lock"]
