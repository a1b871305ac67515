"""dvc.yaml and dvc.lock of a folder, as after `dvc repro`; DVC itself computes the hashes."""

import contextlib
from pathlib import Path

import yaml
from dvc.repo import Repo

from tinylm.base.config import load_params


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
