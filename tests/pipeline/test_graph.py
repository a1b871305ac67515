"""dvc.yaml against the code: what a stage imports, reads and writes is what dvc.yaml lists."""

import itertools
import re
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.support.closure import ROOT, sections_read, written
from tests.support.stages import is_measured
from tinylm.base.config import load_params, read_yaml

PARAMS = load_params(ROOT / "tinylm/params/presets/storybook.yaml")
PIPELINE: dict[str, dict[str, Any]] = read_yaml(ROOT / "dvc.yaml")["stages"]


def filled(path: str) -> str:
    """A path of dvc.yaml with the values of params.yaml and seed 2."""
    path = re.sub(r"\$\{(\w+)\.(path)\}", lambda match: PARAMS[match[1]][match[2]], path)
    return path.replace("${item.seed}", "2")


def dependencies(stage: dict[str, Any]) -> set[str]:
    return {filled(entry) for entry in stage["deps"]}


def outputs(stage: dict[str, Any]) -> dict[str, bool]:
    """{path: whether DVC caches it}"""
    cached: dict[str, bool] = {}
    for entry in itertools.chain(*(stage.get(kind, []) for kind in ("outs", "metrics", "plots"))):
        if isinstance(entry, str):
            cached[filled(entry)] = True
        else:
            ((path, options),) = entry.items()
            cached[filled(path)] = options.get("cache", True)
    return cached


OUTPUTS = dict(itertools.chain(*(outputs(stage).items() for stage in PIPELINE.values())))


def covers(named: Collection[str], path: str) -> bool:
    """Whether the file, or a folder above it, is among those named."""
    return any(f"{path}/".startswith(f"{name}/") for name in named)


def test_the_code_that_stages_depend_on_is_what_make_deps_writes():
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    assert written(text) == text


def test_stages_are_scripts_that_run_as_modules():
    assert {path.stem for path in (ROOT / "stages").glob("*.py")} - {"__init__"} == set(PIPELINE)
    for name, stage in PIPELINE.items():
        items = [f"${{item.{key}}}" for key in stage.get("matrix", {})]
        assert stage["cmd"] == " ".join([f"python -m stages.{name}", *items])


def test_params_are_the_sections_that_a_script_reads():
    for name, stage in PIPELINE.items():
        expected = (
            set(PARAMS) - {"runtime"} if name == "report" else sections_read(f"stages/{name}.py")
        )
        assert set(stage.get("params", [])) == expected, name  # whole sections


def test_there_are_few_parameters():
    """A key exists because somebody would change it; anything else is a constant."""
    assert sum(len(values) for values in PARAMS.values()) <= 107, "remove a key, or raise this"


def test_dependencies_are_outputs_of_an_earlier_stage_or_files_of_the_repository():
    made: set[str] = set()
    for name, stage in PIPELINE.items():
        for dep in dependencies(stage):
            is_made = covers(made, dep) or any(covers({dep}, path) for path in made)
            assert is_made or (ROOT / dep).exists(), f"{name}: {dep}"
        made |= outputs(stage).keys()


def test_only_the_report_depends_on_what_differs_between_equal_runs():
    for name, stage in PIPELINE.items():
        needed = dependencies(stage)
        for path in OUTPUTS:
            if is_measured(path if Path(path).suffix else f"{path}/file"):
                assert not covers(needed, path) or name == "report", (name, path)


def test_git_ignores_exactly_what_dvc_caches():
    inside = [path if Path(path).suffix else f"{path}/file" for path in OUTPUTS]
    command = ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-v", "-n", *inside]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    ignored = [line.startswith(".gitignore:") for line in lines]
    assert dict(zip(OUTPUTS, ignored, strict=True)) == OUTPUTS


def test_params_are_the_storybooks_and_files_made_by_python_are_no_dependency():
    command = ["git", "show", "HEAD:params.yaml"]  # another preset may be in the workspace
    committed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    preset = (ROOT / "tinylm/params/presets/storybook.yaml").read_bytes()
    assert committed == preset, "make params.yaml and storybook.yaml the same, and commit both"
    ignored = (ROOT / ".dvcignore").read_text(encoding="utf-8").split()
    assert {"__pycache__", "*.pyc"} <= set(ignored)
