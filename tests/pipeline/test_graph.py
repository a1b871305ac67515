"""dvc.yaml against the code, read from the source: what a stage imports, reads and writes is what it names."""

import ast
import re
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tests.support.reruns import RERUNS, STAGES
from tests.support.stage_deps import load_defaults, written
from tinylm.base import paths
from tinylm.base.config import load_params
from tinylm.report.sources import FILES

ROOT = Path(__file__).parents[2]
PARAMS = load_params(ROOT / "tinylm/presets/storybook.yaml")
# outputs that come out the same, whatever a section says of what else their stage does
SCORES = ("data/seeds/train.json", "data/seeds/2.json")
UNTRACKED = [paths.plot(name) for name in ("beam_bench_time", "kv_bench_time", "ckpt_memory_time")]
MODEL = ("models/config.json", "models/model.safetensors", "data/vocab/tokenizer.json")
SAME_BYTES = {"decode": SCORES, "evaluate": SCORES}


def filled(path: str) -> list[str]:
    """A path of dvc.yaml with the values of the storybook's params.yaml; one for each setting of the matrix."""
    path = re.sub(r"\$\{(\w+)\.(path)\}", lambda match: PARAMS[match[1]][match[2]], path)
    path = path.replace("${item.seed}", "2")
    return [
        path.replace("${item.accumulation}", str(number))
        for number in PARAMS["accum_sweep"]["settings"]
    ]


def deps(stage: dict[str, Any]) -> set[str]:
    return {path for entry in stage["deps"] for path in filled(entry)}


def outputs(stage: dict[str, Any], *kinds: str) -> dict[str, bool]:
    """{path: does DVC cache it}"""
    found = {}
    for entry in [
        entry for kind in kinds or ("outs", "metrics", "plots") for entry in stage.get(kind, [])
    ]:
        path, options = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
        found |= dict.fromkeys(filled(path), options.get("cache", True))
    return found


def covers(named: Collection[str], path: str) -> bool:
    """Is the file, or a folder above it, among those named?"""
    return any(f"{path}/".startswith(f"{name}/") for name in named)


def below(pipeline: dict[str, Any], first: set[str], unchanged: Collection[str] = ()) -> set[str]:
    """The stages and all that follow from their outputs, but for those `unchanged`."""
    found = set(first)
    while True:
        made = {path for name in found for path in outputs(pipeline["stages"][name])} - set(
            unchanged
        )
        more = {
            name
            for name, stage in pipeline["stages"].items()
            if any(
                covers({dep}, path) or covers({path}, dep) for dep in deps(stage) for path in made
            )
        }
        if more <= found:
            return found
        found |= more


def nodes(stage: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse((ROOT / f"stages/{stage}.py").read_text(encoding="utf-8"))))


def sections_read(stage: str) -> set[str]:
    calls = [node for node in nodes(stage) if isinstance(node, ast.Call)]
    return {
        ast.literal_eval(node.args[1])
        for node in calls
        if ast.unparse(node.func).endswith("read_section")
    }


def path_of(node: ast.AST) -> object:
    """What `paths.NAME` or `paths.name("constant")` stands for."""
    if isinstance(node, ast.Call) and all(isinstance(word, ast.Constant) for word in node.args):
        function = path_of(node.func)
        return function(*(word.value for word in node.args)) if callable(function) else None
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "paths"
    ):
        return getattr(paths, node.attr)
    return None


def paths_named(stage: str) -> set[str]:
    every = nodes(stage)
    pieces = {
        id(piece) for node in every if isinstance(node, ast.JoinedStr) for piece in node.values
    }
    texts = {
        str(node.value)
        for node in every
        if isinstance(node, ast.Constant) and id(node) not in pieces
    }
    texts |= {str(path) for node in every if (path := path_of(node))}
    return {
        text
        for text in texts
        if re.fullmatch(r"models|(data|models|metrics|plots|report)/[\w./]+", text)
    }


def test_the_code_that_stages_depend_on_is_what_make_deps_writes():
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    assert written(text, load_defaults()) == text
    assert len(text.splitlines()) < 150  # two screens


def test_stages_are_scripts_that_run_as_modules(pipeline):
    assert tuple(pipeline["stages"]) == STAGES
    assert {path.stem for path in (ROOT / "stages").glob("*.py")} - {"__init__"} == set(STAGES)
    for name, stage in pipeline["stages"].items():
        words = [
            f"python -m stages.{name}",
            *(f"${{item.{key}}}" for key in stage.get("matrix", {})),
        ]
        assert stage["cmd"] == " ".join(words)


def test_params_are_the_sections_that_a_script_reads(pipeline):
    for name, stage in pipeline["stages"].items():
        expected = (
            set(PARAMS) if name == "report" else sections_read(name)
        )  # the report shows every value
        assert sorted(stage["params"]) == sorted(expected - {"runtime"}), name
    assert set.union(*map(sections_read, STAGES)) == set(PARAMS)


def test_files_named_in_a_script_are_dependencies_or_outputs(pipeline):
    for name, stage in pipeline["stages"].items():
        known = {*deps(stage), *outputs(stage), *UNTRACKED}
        assert [path for path in sorted(paths_named(name)) if not covers(known, path)] == [], name


def test_dependencies_are_outputs_of_a_stage_or_files_of_the_repository(pipeline):
    made = {path for stage in pipeline["stages"].values() for path in outputs(stage)}
    for name, stage in pipeline["stages"].items():
        for dep in deps(stage):
            known = (
                covers(made, dep)
                or any(covers({dep}, path) for path in made)
                or (ROOT / dep).exists()
            )
            assert known, f"{name}: {dep}"


def test_the_report_depends_on_what_it_reads(pipeline):
    named = {
        dep
        for dep in deps(pipeline["stages"]["report"])
        if not dep.startswith(("stages", "tinylm"))
    }
    read = {path for path, _ in FILES.values() if "_time" not in path} | set(MODEL)
    assert [path for path in sorted(read) if not covers(named, path)] == []
    assert [dep for dep in sorted(named) if not any(covers({dep}, path) for path in read)] == []


def test_metrics_and_curves_are_in_git_and_all_else_in_dvcs_cache(pipeline):
    for stage in pipeline["stages"].values():
        assert not any(outputs(stage, "metrics", "plots").values())
        assert all(
            outputs(stage, "outs").values()
        )  # an output without cache turns the run cache off


def test_what_differs_between_equal_runs_is_no_stages_output(pipeline):
    """Then a repeated run leaves dvc.lock as it was."""
    for name, stage in pipeline["stages"].items():
        assert [
            path for path in outputs(stage) if "_time" in path or covers(UNTRACKED, path)
        ] == [], name
    shown = {
        path
        for entry in pipeline["plots"]
        for path in ([entry] if isinstance(entry, str) else entry)
    }
    assert shown - {"loss against updates", "plots/pictures"} == set(UNTRACKED)


def test_git_ignores_exactly_what_dvc_caches(pipeline):
    found = {
        path: cached
        for stage in pipeline["stages"].values()
        for path, cached in outputs(stage).items()
    }
    inside = [path if Path(path).suffix else f"{path}/file" for path in found]
    told = subprocess.run(
        ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-v", "-n", *inside],
        cwd=ROOT, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    assert {
        path: line.startswith(".gitignore:") for path, line in zip(found, told, strict=True)
    } == found


def test_metrics_are_named_after_their_stage(pipeline):
    for name, stage in pipeline["stages"].items():
        without = ("accum_run", "seed_train", "seed_score", "report")
        expected = [] if name in without else [f"metrics/{name}.json"]
        assert list(outputs(stage, "metrics")) == expected


def test_the_graph_says_the_same_as_the_table_of_reruns(pipeline):
    assert [edited.partition(".")[0] for edited, *_ in RERUNS] == list(PARAMS)
    for edited, _, stages in RERUNS:
        section = edited.partition(".")[0]
        first = {
            name
            for name, stage in pipeline["stages"].items()
            if section in stage["params"] or f"${{{section}." in str(stage.get("matrix"))
        }
        assert below(pipeline, first, SAME_BYTES.get(section, ())) == set(stages.split()), edited


def test_params_are_the_storybooks():
    assert (ROOT / "params.yaml").read_bytes() == (
        ROOT / "tinylm/presets/storybook.yaml"
    ).read_bytes()


def test_files_made_by_python_are_no_dependency():
    assert {"__pycache__", "*.pyc"} <= set(
        (ROOT / ".dvcignore").read_text(encoding="utf-8").split()
    )


@pytest.mark.parametrize(
    ("named", "path", "expected"),
    [
        ({"tinylm/model"}, "tinylm/model/transformer.py", True),
        ({"tinylm/model"}, "tinylm/model", True),
        ({"tinylm/model"}, "tinylm/models.py", False),
        ({"tinylm/model/transformer.py"}, "tinylm/model", False),
    ],
)
def test_covers(named, path, expected):
    assert covers(named, path) is expected
