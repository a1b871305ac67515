"""The hub in memory, the parameters of a run to publish, and its dvc.lock."""

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from dvc.repo import Repo
from huggingface_hub import CommitOperationAdd

from tinylm.base.config import load_params
from tinylm.params.presets.write import FOLDER


class Hub:
    """Repositories with the files of each commit, and an error to raise instead of a commit.

    It stands for huggingface_hub.HfApi.
    """

    def __init__(self) -> None:
        self.repos: dict[str, list[dict[str, bytes]]] = {}
        self.private: set[str] = set()
        self.error: Exception | None = None
        self.tokens: list[str] = []
        self.messages: list[str] = []

    def __call__(self, token: str) -> "Hub":
        self.tokens.append(token)
        return self

    def create_repo(self, repo: str, private: bool | None, exist_ok: bool) -> str:
        assert exist_ok
        if repo not in self.repos:
            self.repos[repo] = [{".gitattributes": b""}]
            if private:
                self.private.add(repo)
        return f"https://hub/{repo}"

    def model_info(self, repo: str) -> Any:
        siblings = [SimpleNamespace(rfilename=name) for name in self.repos[repo][-1]]
        head = str(len(self.repos[repo]))
        return SimpleNamespace(siblings=siblings, private=repo in self.private, sha=head)

    def create_commit(
        self, repo: str, operations: list[Any], commit_message: str, parent_commit: str
    ) -> Any:
        if self.error is not None:
            raise self.error
        assert parent_commit == str(len(self.repos[repo]))
        self.messages.append(commit_message)
        files = dict(self.repos[repo][-1])
        for operation in operations:
            if isinstance(operation, CommitOperationAdd):
                files[operation.path_in_repo] = Path(operation.path_or_fileobj).read_bytes()
            else:
                del files[operation.path_in_repo]
        if files != self.repos[repo][-1]:
            self.repos[repo].append(files)
        return SimpleNamespace(oid=str(len(self.repos[repo])))


@pytest.fixture
def hub(monkeypatch):
    hub = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", hub)
    return hub


@pytest.fixture
def params() -> dict[str, Any]:
    """The storybook's parameters."""
    return load_params(FOLDER / "storybook.yaml")


def write(folder: Path, name: str, value: Any) -> None:
    """A file with this text, or with this value as JSON."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text, encoding="utf-8")


def write_lock(folder: Path, stages: dict[str, tuple[list, list, list]]) -> None:
    """Make the folder a DVC repository whose stages have just run.

    stages: {name: (sections of params.yaml, inputs, outputs)}. Outputs that are missing are left out.
    """
    params = load_params(folder / "params.yaml")
    entries = {}
    for name, (sections, deps, outs) in stages.items():
        used = [section for section in sections if section in params]
        present = [path for path in outs if (folder / path).exists()]
        entries[name] = {"cmd": "true", "params": used, "deps": deps, "outs": present}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": entries}), encoding="utf-8")
    with contextlib.chdir(folder):  # DVC looks for dvc.yaml from here
        if not Path(".dvc").exists():
            Repo.init(no_scm=True).close()
        with Repo() as repo:
            repo.commit(force=True)
