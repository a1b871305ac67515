"""One truth of what changes bytes: a stage depends on every file that it opens, and so do the snapshots of a training.

Each edit of tests/support/edits.py is made on a run that was killed and on one that is finished.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.test_graph import covers, deps
from tests.support.clone import ROOT, working_tree
from tests.support.edits import EDITS
from tests.support.reruns import STAGES
from tests.support.stages import ORDER, plant, small_params
from tinylm.base import closure
from tinylm.base.config import InputError
from tinylm.host.params import SECTIONS
from tinylm.train.snapshot import Snapshots

EACH = pytest.mark.parametrize(
    ("file", "old", "new", "stages"), EDITS, ids=[row[0] for row in EDITS]
)
# What a stage's closure takes of tinylm/host: names through which no result passes.
OF_HOST = {
    "command": {
        "CommandFailed",
        "Interrupted",
        "guard",
        "is_out_of_memory",
        "one_line",
        "signals_noted",
    },
    "loggers": {"Logger", "open_logger"},
    "memory": {"note_workers", "own_peak_mib"},
    "processes": {"check_writable", "exclusive_lock", "name_sockets"},
    "runtime": {"Progress", "RuntimeSettings", "conditions", "in_words", "keep_freed_memory"},
    "tables": {"format_description"},
    "times": {"read_times", "show_times", "stage_time", "write_times"},
    "workers": {"begin_worker", "cores", "ctrl_c_later"},
}
TIMES = "metrics/train_time.json"  # differs after every training
# Imported by every Python process of a stage: notes each file of the repository that is opened, code or not.
NOTING = """
import os, sys
handle = os.open(os.environ["OPENED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def hashed():
    frame = sys._getframe()
    while frame:
        if frame.f_code.co_name in ("code_sha256", "result_sha256"):  # they only ask what a result is of
            return True
        frame = frame.f_back
    return False
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and not hashed():
        os.write(handle, (os.path.realpath(arguments[0]) + "\\n").encode())
sys.addaudithook(note)
"""


def edited(path: Path, old: str, new: str) -> bytes:
    """Make the edit; returns the bytes of before."""
    before = path.read_bytes()
    assert old.encode() in before
    path.write_bytes(before.replace(old.encode(), new.encode()))
    if path.suffix == ".py":
        ast.parse(path.read_text("utf-8"))
    return before


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the code, which the closure reads."""
    folder = tmp_path_factory.mktemp("tree")
    for name in working_tree():
        if name.startswith(("stages/", "tinylm/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closure, "ROOT", folder)
        closure.imported.cache_clear()
        yield folder
    closure.imported.cache_clear()


@EACH
def test_an_edit_reruns_what_depends_on_it_and_refuses_a_killed_run(
    tree, tmp_path, pipeline, file, old, new, stages
):
    def begun():
        return Snapshots(tmp_path, {"code": closure.code_sha256("stages/train.py")}, 1.0)

    begun().save(1, {}, {"updates": 1})
    before = edited(tree / file, old, new)
    try:
        if "train" in stages.split():
            with pytest.raises(InputError, match="since then: code changed"):
                begun().latest()
        else:
            assert begun().latest() is not None
    finally:
        (tree / file).write_bytes(before)
    assert {name for name, stage in pipeline["stages"].items() if covers(deps(stage), file)} == set(
        stages.split()
    )


def test_the_edits_are_of_every_room_that_stages_use():
    rooms = {
        "/".join(path.split("/")[:2])
        for path in closure.closure(*(f"stages/{name}.py" for name in STAGES))
    }
    rooms = {room for room in rooms if not room.startswith("stages/")}
    assert rooms <= {"/".join(file.split("/")[:2]) for file, *_ in EDITS}
    assert {Path(file).suffix for file, *_ in EDITS} >= {
        ".py",
        ".cpp",
        ".h",
        ".yaml",
        ".css",
        ".typ",
    }


def test_no_result_passes_through_what_stages_take_of_host():
    """A name that is not in OF_HOST: may it change a result? Then its place is another room, which is depended on."""
    found: dict[str, set[str]] = {}
    for path in closure.closure(*(f"stages/{name}.py" for name in STAGES)):
        if path.endswith(".py"):
            for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tinylm.host."):
                    found.setdefault(str(node.module).rpartition(".")[2], set()).update(
                        a.name for a in node.names
                    )
    assert found == OF_HOST


def test_every_file_that_a_stage_opens_is_one_it_depends_on(tmp_path, pipeline):
    """All stages in processes of their own, with every process that these start."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook/sitecustomize.py").write_text(NOTING)
    folder = tmp_path / "there"
    folder.mkdir()
    plant(folder, small_params())
    checked = 0
    for command in ORDER:
        opened = tmp_path / f"{command}.opened"
        environment = {
            "PYTHONPATH": str(tmp_path / "hook"),
            "OPENED": str(opened),
            "XDG_CACHE_HOME": str(tmp_path / "c"),
        }
        subprocess.run(
            [sys.executable, "-m", *f"stages.{command}".split()], cwd=folder, env=os.environ | environment,
            check=True, capture_output=True,
        )  # fmt: skip
        files = set()
        for line in set(opened.read_text().splitlines()):
            path = Path(line)
            if path.suffix == ".pyc":
                path = path.parents[1] / f"{path.name.partition('.')[0]}.py"
            if (
                path.is_relative_to(ROOT)
                and path.is_file()
                and not path.is_relative_to(ROOT / ".venv")
            ):
                files.add(path.relative_to(ROOT).as_posix())
        checks = {f"{where.partition(':')[0].replace('.', '/')}.py" for where in SECTIONS.values()}
        checks.add("tinylm/embedding/source.py")
        # the rules of params.yaml read more; they decide whether a stage runs, not what it writes
        named = deps(pipeline["stages"][command.split()[0]])
        checking = closure.closure(*checks)
        unknown = {
            path for path in files
            if not covers(named, path) and not path.endswith("__init__.py")
            and not path.startswith(closure.HOW_IT_RUNS) and path not in checking
        }  # fmt: skip
        assert unknown == set(), command
        checked += len([path for path in files if covers(named, path)])
    assert checked > 300


@pytest.fixture(scope="module")
def killed(base, clone):
    """A finished pipeline, in which another training was killed before it wrote its weights."""
    weights = clone.path / "models/model.safetensors"
    tools = clone.path.parent / f"{clone.path.name}.bin"
    shutil.copy(clone.path / TIMES, clone.path.parent)
    clone.run(
        sys.executable, str(tools / "kill_at.py"), "stages.train", code=-9, KILL_BEFORE=str(weights)
    )
    shutil.copytree(clone.path / "runs/train", clone.path.parent / "runs")
    return clone


@pytest.mark.parametrize(
    ("file", "old", "new", "stages"), EDITS[::3], ids=[row[0] for row in EDITS[::3]]
)
def test_after_an_edit_dvc_reruns_a_finished_pipeline_and_a_killed_run_is_refused(
    killed, base, file, old, new, stages
):
    """As it is done: `dvc status`, and stage train started again."""
    before = edited(killed.path / file, old, new)
    shutil.copy(killed.path.parent / Path(TIMES).name, killed.path / TIMES)
    shutil.rmtree(killed.path / "runs/train")
    shutil.copytree(killed.path.parent / "runs", killed.path / "runs/train")
    try:
        status = json.loads(killed.run(sys.executable, "-m", "dvc", "status", "--json").stdout)
        done = killed.run(sys.executable, "-m", "stages.train", code=None)
    finally:
        (killed.path / file).write_bytes(before)
    always = {"report"}  # its page shows times, which DVC does not know: it looks each time
    assert {name.partition("@")[0] for name in status} == set(stages.split()) | always
    if "train" in stages.split():
        # where the machine uses the kernels, those of edited C++ are others too
        assert (done.returncode, "but since then: code changed" in done.stderr) == (2, True), (
            done.stderr
        )
    else:
        assert (done.returncode, "resumed after update" in done.stdout) == (0, True)
        weights = "models/model.safetensors"
        assert (killed.path / weights).read_bytes() == (base.path / weights).read_bytes()
