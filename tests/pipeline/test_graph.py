"""dvc.yaml against the code, read from the source: what a stage imports, reads and writes is what it names."""

import ast
import re
import runpy
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tinylm.base import paths
from tinylm.base.config import load_params
from tinylm.reporting.library import RUNS, STUDIES
from tinylm.reporting.sources import FILES

ROOT = Path(__file__).parents[2]
TABLE = runpy.run_path(str(Path(__file__).with_name("rerun_table.py")))
STAGES: tuple[str, ...] = TABLE["STAGES"]
HOW_IT_RUNS = {
    "tinylm/host/command.py",
    "tinylm/kernels/library.py",
    "tinylm/host/memory.py",
    "tinylm/host/processes.py",
    "tinylm/host/runtime.py",
    "tinylm/presets/sections.py",
    "tinylm/host/workers.py",
}  # not what is computed
PARAMS = load_params(ROOT / "tinylm/presets/storybook.yaml")
SECTIONS = set(PARAMS) - {"runtime"}

# outputs that come out the same, whatever a section says of what else their stage does
SCORES = ("data/seeds/train.json", "data/seeds/2.json")
SAME_BYTES = {"decode": SCORES, "evaluate": SCORES}

# (a file that is edited, the stages that run)
SEEDS = "seed_train seed_score seeds"
EDITED_CODE = [
    ("tinylm/text/storybook/telling.py", " ".join(STAGES)),
    ("tinylm/text/tokens/words.py", " ".join(STAGES[1:])),
    ("tinylm/text/skipgram.py", " ".join(STAGES[1:])),
    ("tinylm/model/attention.py", " ".join(STAGES[2:])),
    ("tinylm/training/loop.py", f"train evaluate beam_bench accum_run accum_sweep ckpt_bench {SEEDS} report"),
    ("tinylm/decoding/beam.py", "beam_bench kv_bench report"),
    ("tinylm/scoring/ngram.py", "evaluate seed_score seeds report"),
    ("tinylm/scoring/bleu.py", "evaluate beam_bench seed_score seeds report"),
    ("stages/seed_score.py", "seed_score seeds report"),
    ("tinylm/bench/seeds.py", "seeds report"),
    ("tinylm/bench/kv.py", "kv_bench report"),
    ("tinylm/bench/sweep.py", "accum_run accum_sweep report"),
    ("tinylm/reporting/page.py", "report"),
    ("tinylm/cli/generate.py", ""),
    ("tinylm/host/command.py", ""),
    ("tinylm/host/runtime.py", ""),
    ("tinylm/presets/sections.py", ""),
]


def filled(path: str) -> list[str]:
    """A path of dvc.yaml with the values of the storybook's params.yaml; one for each setting of the matrix."""
    path = re.sub(r"\$\{(\w+)\.(path)\}", lambda match: PARAMS[match[1]][match[2]], path)
    path = path.replace("${item.seed}", "2")
    return [path.replace("${item.accumulation}", str(number)) for number in PARAMS["accum_sweep"]["settings"]]


def deps(stage: dict[str, Any]) -> set[str]:
    return {path for entry in stage["deps"] for path in filled(entry)}


def outputs(stage: dict[str, Any]) -> dict[str, bool]:
    """{path: does DVC cache it}"""
    found = {}
    for entry in [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]:
        path, options = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
        found |= dict.fromkeys(filled(path), options.get("cache", True))
    return found


def covers(named: set[str], path: str) -> bool:
    """Is the file, or a folder above it, among those named?"""
    return any(path == name or path.startswith(f"{name}/") for name in named)


def source_file(module: str) -> str | None:
    path = f"{module.replace('.', '/')}.py"
    return path if (ROOT / path).is_file() else None


def imports(path: str) -> set[str]:
    """Our own files that a file imports, at its top or inside functions."""
    names: set[str] = set()
    if path.endswith(".cpp"):
        return names
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    found = {file for name in names if name.startswith("tinylm.") and (file := source_file(name))}
    compiled = Path(path).with_suffix(".cpp")  # what the module of this name compiles
    return found | ({str(compiled)} if (ROOT / compiled).is_file() else set())


def closure(path: str) -> set[str]:
    """All our own files that are imported from here on, but for those that only say how a command runs."""
    seen: set[str] = set()
    new = {path}
    while new:
        new = {file for path in new for file in imports(path)} - seen - HOW_IT_RUNS
        seen |= new
    return seen


def below(pipeline: dict[str, Any], first: set[str], unchanged: Collection[str] = ()) -> set[str]:
    """The stages and all that follow from their outputs, but for those `unchanged`."""
    found = set(first)
    while True:
        made = {path for name in found for path in outputs(pipeline["stages"][name])} - set(unchanged)
        more = {
            name
            for name, stage in pipeline["stages"].items()
            if any(covers({dep}, path) or covers({path}, dep) for dep in deps(stage) for path in made)
        }
        if more <= found:
            return found
        found |= more


def calls_of_read_section(stage: str) -> set[str]:
    tree = ast.parse((ROOT / f"stages/{stage}.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {ast.literal_eval(node.args[1]) for node in calls if ast.unparse(node.func).endswith("read_section")}


def test_stages_are_scripts_and_scripts_are_stages(pipeline):
    assert tuple(pipeline["stages"]) == STAGES
    assert {path.stem for path in (ROOT / "stages").glob("*.py")} - {"__init__"} == set(STAGES)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_runs_its_own_script_as_a_module(pipeline, name):
    expected = f"python -m stages.{name}"
    matrix = pipeline["stages"][name].get("matrix", {})
    assert pipeline["stages"][name]["cmd"] == " ".join([expected, *(f"${{item.{key}}}" for key in matrix)])
    assert {dep for dep in deps(pipeline["stages"][name]) if dep.startswith("stages")} == {f"stages/{name}.py"}


@pytest.mark.parametrize("name", STAGES)
def test_every_imported_module_is_a_dependency(pipeline, name):
    named = deps(pipeline["stages"][name])
    assert [file for file in sorted(closure(f"stages/{name}.py")) if not covers(named, file)] == []


@pytest.mark.parametrize("name", STAGES)
def test_no_dependency_on_code_is_superfluous(pipeline, name):
    used = closure(f"stages/{name}.py")
    code = {dep for dep in deps(pipeline["stages"][name]) if dep.startswith("tinylm")}
    assert "tinylm" not in code
    assert [dep for dep in sorted(code) if not any(covers({dep}, file) for file in used)] == []


@pytest.mark.parametrize("name", STAGES)
def test_params_are_the_sections_that_the_script_reads(pipeline, name):
    read = calls_of_read_section(name) - {"runtime"}
    listed = pipeline["stages"][name]["params"]
    assert read
    assert len(listed) == len(set(listed))
    assert set(listed) == (SECTIONS if name == "report" else read)  # the report shows every value


def test_every_section_belongs_to_a_stage(pipeline):
    read = {section for name in STAGES for section in calls_of_read_section(name)}
    assert read == set(PARAMS)


def path_of(node: ast.AST) -> object:
    """What `paths.NAME` or `paths.name("constant")` stands for."""
    if isinstance(node, ast.Call) and all(isinstance(word, ast.Constant) for word in node.args):
        function = path_of(node.func)
        return function(*(word.value for word in node.args)) if callable(function) else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "paths":
        return getattr(paths, node.attr)
    return None


@pytest.mark.parametrize("name", STAGES)
def test_files_named_in_the_script_are_dependencies_or_outputs(pipeline, name):
    nodes = list(ast.walk(ast.parse((ROOT / f"stages/{name}.py").read_text(encoding="utf-8"))))
    pieces = {id(piece) for node in nodes if isinstance(node, ast.JoinedStr) for piece in node.values}
    texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant) and id(node) not in pieces}
    texts |= {str(path) for node in nodes if (path := path_of(node))}
    named = {text for text in texts if re.fullmatch(r"models|(data|models|metrics|plots|report)/[\w./]+", text)}
    stage = pipeline["stages"][name]
    known = deps(stage) | set(outputs(stage))
    assert [path for path in sorted(named) if not covers(known, path)] == []


def test_dependencies_are_outputs_of_a_stage_or_files_of_the_repository(pipeline):
    made = {path for stage in pipeline["stages"].values() for path in outputs(stage)}
    for name, stage in pipeline["stages"].items():
        for dep in deps(stage):
            known = covers(made, dep) or any(covers({dep}, path) for path in made) or (ROOT / dep).exists()
            assert known, f"{name}: {dep}"


def test_the_report_depends_on_what_it_reads(pipeline):
    named = {dep for dep in deps(pipeline["stages"]["report"]) if not dep.startswith(("stages", "tinylm"))}
    read = {path for path, _ in FILES.values()} | {"docs/ledger.yaml", RUNS, STUDIES}
    assert [path for path in sorted(read) if not covers(named, path)] == []
    assert [dep for dep in sorted(named) if not any(covers({dep}, path) for path in read)] == []


@pytest.mark.parametrize("name", STAGES)
def test_cached_is_what_holds_times_and_what_is_large(pipeline, name):
    stage = pipeline["stages"][name]
    small = [*stage.get("metrics", []), *stage.get("plots", [])]
    for path, cached in outputs({"metrics": small}).items():
        assert cached == (path == "plots/pictures" or re.search(r"_time\.(json|csv)$", path) is not None), path
    assert all(outputs({"outs": stage.get("outs", [])}).values())  # an output without cache turns the run cache off


@pytest.mark.parametrize("name", STAGES)
def test_git_ignores_exactly_what_dvc_caches(pipeline, name):
    found = outputs(pipeline["stages"][name])
    inside = [path if Path(path).suffix else f"{path}/file" for path in found]
    told = subprocess.run(
        ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-v", "-n", *inside],
        cwd=ROOT, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    ignored = {path: line.startswith(".gitignore:") for path, line in zip(found, told, strict=True)}
    assert ignored == found


def test_metrics_are_named_after_their_stage(pipeline):
    for name, stage in pipeline["stages"].items():
        silent = ("accum_run", "seed_train", "seed_score", "report")
        expected = [] if name in silent else [f"metrics/{name}.json", f"metrics/{name}_time.json"]
        assert list(outputs({"metrics": stage.get("metrics", [])})) == expected


@pytest.mark.parametrize(("edited", "_value", "stages"), TABLE["RERUNS"], ids=[row[0] for row in TABLE["RERUNS"]])
def test_the_graph_says_the_same_as_the_table_of_reruns(pipeline, edited, _value, stages):
    section = edited.partition(".")[0]
    first = {
        name
        for name, stage in pipeline["stages"].items()
        if section in stage["params"] or f"${{{section}." in str(stage.get("matrix"))
    }
    assert below(pipeline, first, SAME_BYTES.get(section, ())) == set(stages.split())


def test_the_table_of_reruns_has_every_section():
    assert [row[0].partition(".")[0] for row in TABLE["RERUNS"]] == list(PARAMS)


@pytest.mark.parametrize(("path", "stages"), EDITED_CODE, ids=[row[0] for row in EDITED_CODE])
def test_an_edited_file_reruns_what_depends_on_it(pipeline, path, stages):
    assert (ROOT / path).is_file()
    first = {name for name, stage in pipeline["stages"].items() if covers(deps(stage), path)}
    assert below(pipeline, first) == set(stages.split())


def test_dvc_yaml_reads_in_one_screen_or_two():
    assert len((ROOT / "dvc.yaml").read_text(encoding="utf-8").splitlines()) < 150


def test_params_are_the_storybooks():
    assert (ROOT / "params.yaml").read_bytes() == (ROOT / "tinylm/presets/storybook.yaml").read_bytes()


def test_compiled_files_are_no_dependency():
    assert {"__pycache__", "*.pyc"} <= set((ROOT / ".dvcignore").read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    ("named", "path", "expected"),
    [
        ({"tinylm/model"}, "tinylm/model/lm.py", True),
        ({"tinylm/model"}, "tinylm/model", True),
        ({"tinylm/model"}, "tinylm/models.py", False),
        ({"tinylm/model/lm.py"}, "tinylm/model", False),
    ],
)
def test_covers(named, path, expected):
    assert covers(named, path) is expected
