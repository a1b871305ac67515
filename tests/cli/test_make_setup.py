"""make setup: an environment that was made in another folder is not used."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path):
    """What make looks at in a clone that was set up, in a folder whose name has a space."""
    folder = tmp_path / "my clone"
    (folder / "tinylm/report").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("pyproject.toml", "requirements.txt", "tinylm/report/offline_page.py"):
        (folder / name).touch()
    environment(folder / ".venv")
    return folder


def environment(folder: Path) -> None:
    """What `python -m venv` writes about itself, and the mark of a set-up that is done."""
    folder.mkdir()
    (folder / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ncommand = /usr/bin/python3 -m venv {folder}\n", "utf-8"
    )
    (folder / ".ready").touch()


def make_setup(folder: Path) -> tuple[int, str]:
    command = ["make", "setup"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return result.returncode, result.stderr


def test_an_environment_in_its_own_folder_is_used(clone):
    assert make_setup(clone) == (0, "")


@pytest.mark.parametrize("how", [shutil.move, shutil.copytree])
def test_an_environment_that_was_moved_or_copied_is_refused(clone, how):
    other = clone.with_name("another clone")
    how(clone, other)
    code, error = make_setup(other)
    assert code == 2
    assert "rm -r .venv" in error
