"""What a stage says before its slow imports: another Python, another folder's code, too little memory to import."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tinylm.host import starting

ROOT = Path(__file__).parents[2]


def stage(folder, *, python=sys.executable, limit=None, **environment):
    def lower():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    variables = {
        key: value for key, value in os.environ.items() if key != "PYTHONPATH"
    } | environment
    words = [python, "-m", "stages.train"]
    return subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, preexec_fn=lower
    )


def one_line(done) -> str:
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


def test_a_python_without_the_packages_says_what_to_type(tmp_path):
    """An environment that is not activated: the first stage refuses, not one that imports torch late."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    done = stage(ROOT, python=tmp_path / "bare/bin/python")
    assert done.returncode == 2
    said = one_line(done)
    assert said.startswith(f"{tmp_path}/bare/bin/python lacks ")
    assert said.endswith("source .venv/bin/activate, and run it again")


def test_what_is_missing_is_counted_and_an_old_python_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert starting.wrong_python() == ""
    monkeypatch.setattr(starting, "_missing", lambda: ["torch", "dvc", "numpy"])
    assert starting.wrong_python() == (
        f"{sys.executable} lacks torch and 2 more packages; type make setup, then source .venv/bin/activate, and run "
        "it again"
    )
    Path(".venv/bin").mkdir(parents=True)
    Path(".venv/bin/activate").touch()
    monkeypatch.setattr(starting, "OLDEST", (9, 9))
    assert starting.wrong_python() == (
        f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}, which is too old; type source "
        ".venv/bin/activate, and run it again"
    )


def test_stages_of_another_folder_are_refused(tmp_path, monkeypatch):
    (tmp_path / "stages").mkdir()
    done = stage(tmp_path, PYTHONPATH=str(ROOT), PYTHONSAFEPATH="1")
    assert done.returncode == 2
    assert one_line(done) == (
        f"{ROOT}/stages would run, not {tmp_path}/stages; unset PYTHONSAFEPATH, and run it again"
    )
    monkeypatch.chdir(ROOT)
    assert starting.wrong_folder(str(ROOT / "stages")) == ""
    monkeypatch.chdir(tmp_path / "stages")  # no stages here: the caller chose them
    assert starting.wrong_folder(str(ROOT / "stages")) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to the limit")
def test_too_little_memory_to_import_torch_is_one_line(tmp_path):
    done = stage(
        ROOT, limit=600_000 << 10, TINYLM_DEBUG="0", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"
    )
    assert done.returncode == 1
    assert one_line(done).startswith("out of memory; ")
