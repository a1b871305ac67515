"""dvc.yaml against the code: what a stage imports, reads and writes is what dvc.yaml lists."""

import subprocess
from pathlib import Path

from tests.support import reruns
from tests.support.closure import sections_read
from tests.support.reruns import PARAMS, PIPELINE, ROOT, STAGES, covers, dependencies, outputs
from tests.support.stage_deps import written
from tests.support.stages import is_measured


def test_the_code_that_stages_depend_on_is_what_make_deps_writes():
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    assert written(text) == text


def test_stages_are_scripts_that_run_as_modules():
    assert {path.stem for path in (ROOT / "stages").glob("*.py")} - {"__init__"} == set(STAGES)
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
    assert sum(len(values) for values in PARAMS.values()) <= 105


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
        for path in (path for other in PIPELINE.values() for path in outputs(other)):
            if is_measured(path if Path(path).suffix else f"{path}/file"):
                assert not covers(needed, path) or name == "report", (name, path)


def test_git_ignores_exactly_what_dvc_caches():
    cached = {}
    for stage in PIPELINE.values():
        cached |= outputs(stage)
    inside = [path if Path(path).suffix else f"{path}/file" for path in cached]
    command = ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-v", "-n", *inside]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    ignored = [line.startswith(".gitignore:") for line in lines]
    assert dict(zip(cached, ignored, strict=True)) == cached


def test_the_table_of_reruns_follows_from_the_graph():
    """`python -m tests.support.reruns` prints it."""
    page = (ROOT / "docs/reference/pipeline.md").read_text(encoding="utf-8")
    shown = page.partition(reruns.BEGIN)[2].partition(reruns.END)[0]
    assert shown.strip() == reruns.markdown().strip()


def test_params_are_the_storybooks_and_files_made_by_python_are_no_dependency():
    preset = ROOT / "tinylm/presets/storybook.yaml"
    assert (ROOT / "params.yaml").read_bytes() == preset.read_bytes()
    ignored = (ROOT / ".dvcignore").read_text(encoding="utf-8").split()
    assert {"__pycache__", "*.pyc"} <= set(ignored)
