"""A hand-in, unzipped in an empty folder: what its README says gives the results again."""

import os
import re
import subprocess
import sys
import zipfile

TOOLS = {"python": "", "dvc": "-m dvc", "tinylm": "-m tinylm.cli"}


def install(code):
    """The environment that make setup would make, from the packages of this one."""
    tools = code / ".venv/bin"
    tools.mkdir(parents=True)
    for name, words in TOOLS.items():
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
    (code / ".venv/.ready").touch()


def test_the_commands_of_the_readme_give_the_results_again(clone, tmp_path):
    clone.run(sys.executable, "-m", "tinylm.cli", "handin", "ada")
    with zipfile.ZipFile(clone.path / "exports/ada.zip") as archive:
        archive.extractall(tmp_path)
    unpacked = tmp_path / "ada"
    code = unpacked / "code"
    install(code)
    readme = (unpacked / "README.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"```bash\n(cd code\n.*?)```", readme, re.DOTALL)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "DVC_", "PYTHON", "MAKE"))
    }
    subprocess.run(["sh", "-ec", commands], cwd=unpacked, env=kept, check=True)
    assert (code / "report/report.pdf").read_bytes().startswith(b"%PDF")
    handed_in = sorted((unpacked / "model/pipeline/data/figures").glob("*.json"))
    assert len(handed_in) > 5
    for path in handed_in:
        name = path.relative_to(unpacked / "model/pipeline")
        assert (code / name).read_bytes() == path.read_bytes(), name
