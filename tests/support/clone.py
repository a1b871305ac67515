"""A throw-away copy of the repository with small parameters, in which DVC really runs."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.support import stages

ROOT = Path(__file__).parents[2]
# {"section.key": value}: those of tests/support/stages.py, but on stories of the storybook
SMALL: dict[str, Any] = {
    f"{section}.{key}": value
    for section, values in stages.SMALL.items()
    for key, value in values.items()
    if section not in ("data", "train")
}
SMALL |= {"data.train_stories": 300, "data.evaluation_stories": 30, "data.held_out_share": 0.1}
SMALL |= {"embedding.width": 16}
SMALL |= {"model.layers": 1, "model.feed_forward": 32, "model.context": 48}
SMALL |= {
    "train.tokens": 6000,
    "train.validate_every": 10,
    "runtime.sample_every": 1000,
    "accum_sweep.tokens": 2000,
}


@dataclass(frozen=True)
class Clone:
    """One copy; every command runs inside it, with a git identity and DVC folders of its own."""

    path: Path

    def environment(self, **more: str) -> dict[str, str]:
        of_dvc = self.path.parent / f"{self.path.name}.settings"
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("GIT_", "DVC_", "PYTHON"))
        }
        return inherited | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "test",
            "GIT_AUTHOR_EMAIL": "test@localhost",
            "GIT_COMMITTER_NAME": "test",
            "GIT_COMMITTER_EMAIL": "test@localhost",
            "DVC_NO_ANALYTICS": "1",
            "DVC_GLOBAL_CONFIG_DIR": str(of_dvc / "config"),
            "DVC_SYSTEM_CONFIG_DIR": str(of_dvc / "config"),
            "DVC_SITE_CACHE_DIR": str(of_dvc / "site"),
            **more,
        }

    def run(
        self, *words: str, code: int | None = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; `code` is the exit code that it must have, None for any."""
        done = subprocess.run(
            words,
            cwd=self.path,
            env=self.environment(**environment),
            text=True,
            encoding="utf-8",
            capture_output=True,
        )
        assert code is None or done.returncode == code, (
            f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def dvc(self, *words: str, code: int | None = 0, **environment: str) -> str:
        """Run dvc and return what it printed, both streams."""
        done = self.run(sys.executable, "-m", "dvc", *words, code=code, **environment)
        return done.stdout + done.stderr

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "-m", message)

    def repro(self, *words: str, code: int = 0) -> set[str]:
        """`dvc repro`: the stages that ran; seed_train@2 and @3 are one name."""
        return stages_run(self.dvc("repro", *words, code=code))

    def set(self, changes: dict[str, Any]) -> None:
        set_params(self.path, changes)

    def metrics(self) -> dict[str, bytes]:
        """Bytes of each metrics file, times included."""
        files = sorted((self.path / "metrics").rglob("*.json"))
        return {str(file.relative_to(self.path)): file.read_bytes() for file in files}


def stages_run(text: str) -> set[str]:
    """The stages that `dvc repro` says it ran."""
    return {name.partition("@")[0] for name in re.findall(r"Running stage '([\w@]+)'", text)}


def set_params(folder: Path, changes: dict[str, Any]) -> None:
    """Edit params.yaml, comments and all else kept: {"section.key": value}."""
    yaml = YAML()
    yaml.width = 4096
    file = folder / "params.yaml"
    params = yaml.load(file.read_text(encoding="utf-8"))
    for name, value in changes.items():
        section, _, key = name.partition(".")
        assert key in params[section], name
        params[section][key] = value
    with open(file, "w", encoding="utf-8") as handle:
        yaml.dump(params, handle)


def working_tree(source: Path = ROOT) -> list[str]:
    """Paths that a commit of everything here would hold, edits included."""
    words = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(words, cwd=source, capture_output=True, check=True, text=True).stdout
    return sorted({name for name in listed.split("\0") if name and (source / name).is_file()})


def copy_tree(path: Path, source: Path = ROOT) -> None:
    """The working tree as it is, without somebody's results; the storybook's parameters."""
    for name in working_tree(source):
        if name.partition("/")[0] not in ("metrics", "plots", "dvc.lock"):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, path / name)
    shutil.copy(source / "tinylm/params/presets/storybook.yaml", path / "params.yaml")


def new_clone(path: Path) -> Clone:
    """A repository of its own: the working tree as it is, the storybook's parameters made small, one commit."""
    copy_tree(path)
    clone = Clone(path)
    clone.set(SMALL)
    clone.run("git", "init", "-q", "-b", "main")
    clone.commit("small parameters")
    return clone
