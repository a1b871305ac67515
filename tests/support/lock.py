"""dvc.lock by hand, with the hashes that DVC computes."""

import hashlib
import json
from pathlib import Path

import yaml

from tinylm.base.config import load_params


def dvc_md5(path: Path) -> str:
    """As DVC computes it, of a file or a folder."""
    if path.is_file():
        return hashlib.md5(path.read_bytes()).hexdigest()
    files = [file for file in path.rglob("*") if file.is_file()]
    rows = [{"md5": dvc_md5(file), "relpath": file.relative_to(path).as_posix()} for file in files]
    rows.sort(key=lambda row: row["relpath"])
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest() + ".dir"


def write_lock(folder: Path, stages: dict[str, tuple[list, list, list]]) -> None:
    """Write dvc.lock of a folder, as after `dvc repro`; stages: {name: (sections, deps, outs)}."""
    params = load_params(folder / "params.yaml")
    entries = {}
    for name, (sections, deps, outs) in stages.items():
        used = {section: params[section] for section in sections if section in params}
        entries[name] = {
            "params": {"params.yaml": used},
            "deps": [{"path": path, "md5": dvc_md5(folder / path)} for path in deps],
            "outs": [{"path": path, "md5": dvc_md5(folder / path)} for path in outs],
        }
    lock = yaml.safe_dump({"schema": "2.0", "stages": entries})
    (folder / "dvc.lock").write_text(lock, encoding="utf-8")
