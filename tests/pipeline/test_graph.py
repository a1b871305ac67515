"""dvc.yaml against the code: what a stage imports, reads and writes is what dvc.yaml lists."""

import ast
import re
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.support.reruns import RERUNS, STAGES
from tests.support.stage_deps import load_defaults, written
from tinylm.base.config import load_params

ROOT = Path(__file__).parents[2]
PARAMS = load_params(ROOT / "tinylm/presets/storybook.yaml")
# Scores of single stories: the same bytes, whatever else of their stage a section changes.
SCORES = ("data/seeds/train.json", "data/seeds/2.json")
SAME_BYTES = {"decode": SCORES, "evaluate": SCORES}
# Sections that a package reads for its script.
READ_BY_PACKAGES = {"train": {"model"}, "seed_train": {"model"}}
WITHOUT_METRICS = ("accum_run", "seed_train", "seed_score", "report")


def filled(path: str) -> list[str]:
    """A path of dvc.yaml with the values of params.yaml, one for each setting of a matrix."""
    path = re.sub(r"\$\{(\w+)\.(path)\}", lambda match: PARAMS[match[1]][match[2]], path)
    path = path.replace("${item.seed}", "2")
    numbers = PARAMS["accum_sweep"]["settings"]
    return [path.replace("${item.accumulation}", str(number)) for number in numbers]


def dependencies(stage: dict[str, Any]) -> set[str]:
    return {path for entry in stage["deps"] for path in filled(entry)}


def outputs(stage: dict[str, Any], *kinds: str) -> dict[str, bool]:
    """{path: whether DVC caches it}"""
    cached: dict[str, bool] = {}
    for kind in kinds or ("outs", "metrics", "plots"):
        for entry in stage.get(kind, []):
            if isinstance(entry, str):
                cached |= dict.fromkeys(filled(entry), True)
            else:
                ((path, options),) = entry.items()
                cached |= dict.fromkeys(filled(path), options.get("cache", True))
    return cached


def covers(named: Collection[str], path: str) -> bool:
    """Whether the file, or a folder above it, is among those named."""
    return any(f"{path}/".startswith(f"{name}/") for name in named)


def sections_read(stage: str) -> set[str]:
    """The sections of params.yaml that a script reads."""
    tree = ast.parse((ROOT / f"stages/{stage}.py").read_text(encoding="utf-8"))
    sections = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            position = 1 if name.endswith("read_section") else 0
            if name.endswith(("read_section", ".settings")) and len(node.args) > position:
                sections.add(ast.literal_eval(node.args[position]))
    return sections


def following(pipeline: dict[str, Any], first: set[str], unchanged: Collection[str]) -> set[str]:
    """The stages and all that depend on their outputs, except outputs `unchanged`."""
    reached = set(first)
    while True:
        made = {path for name in reached for path in outputs(pipeline["stages"][name])}
        made -= set(unchanged)
        for name, stage in pipeline["stages"].items():
            needed = dependencies(stage)
            if any(covers(needed, path) or covers({path}, dep) for dep in needed for path in made):
                reached.add(name)
        if reached == first:
            return reached
        first = set(reached)


def test_the_code_that_stages_depend_on_is_what_make_deps_writes():
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    assert written(text, load_defaults()) == text


def test_stages_are_scripts_that_run_as_modules(pipeline):
    assert tuple(pipeline["stages"]) == STAGES
    assert {path.stem for path in (ROOT / "stages").glob("*.py")} - {"__init__"} == set(STAGES)
    for name, stage in pipeline["stages"].items():
        items = [f"${{item.{key}}}" for key in stage.get("matrix", {})]
        assert stage["cmd"] == " ".join([f"python -m stages.{name}", *items])


def test_params_are_the_sections_that_a_script_reads(pipeline):
    for name, stage in pipeline["stages"].items():
        expected = sections_read(name) | READ_BY_PACKAGES.get(name, set())
        if name == "report":
            expected = set(PARAMS)
        assert sorted(stage["params"]) == sorted(expected - {"runtime"}), name


def test_dependencies_are_outputs_of_a_stage_or_files_of_the_repository(pipeline):
    made = {path for stage in pipeline["stages"].values() for path in outputs(stage)}
    for name, stage in pipeline["stages"].items():
        for dep in dependencies(stage):
            is_made = covers(made, dep) or any(covers({dep}, path) for path in made)
            assert is_made or (ROOT / dep).exists(), f"{name}: {dep}"


def test_metrics_and_curves_are_in_git_and_everything_else_in_dvcs_cache(pipeline):
    """What differs between equal runs is no output: a repeated run leaves dvc.lock as it was."""
    for name, stage in pipeline["stages"].items():
        metrics = [] if name in WITHOUT_METRICS else [f"metrics/{name}.json"]
        assert list(outputs(stage, "metrics")) == metrics
        assert not any(outputs(stage, "metrics", "plots").values())
        assert all(outputs(stage, "outs").values())
        assert [path for path in outputs(stage) if "_time" in path] == [], name


def test_git_ignores_exactly_what_dvc_caches(pipeline):
    cached = {}
    for stage in pipeline["stages"].values():
        cached |= outputs(stage)
    inside = [path if Path(path).suffix else f"{path}/file" for path in cached]
    command = ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-v", "-n", *inside]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    ignored = [line.startswith(".gitignore:") for line in lines]
    assert dict(zip(cached, ignored, strict=True)) == cached


def test_the_graph_agrees_with_the_table_of_reruns(pipeline):
    assert [edited.partition(".")[0] for edited, _ in RERUNS] == list(PARAMS)
    for edited, stages in RERUNS:
        section = edited.partition(".")[0]
        first = set()
        for name, stage in pipeline["stages"].items():
            if section in stage["params"] or f"${{{section}." in str(stage.get("matrix")):
                first.add(name)
        reached = following(pipeline, first, SAME_BYTES.get(section, ()))
        assert reached == set(stages.split()), edited


def test_params_are_the_storybooks_and_files_made_by_python_are_no_dependency():
    preset = ROOT / "tinylm/presets/storybook.yaml"
    assert (ROOT / "params.yaml").read_bytes() == preset.read_bytes()
    ignored = (ROOT / ".dvcignore").read_text(encoding="utf-8").split()
    assert {"__pycache__", "*.pyc"} <= set(ignored)
