"""Snapshots of a training run, so that an interrupted run continues and ends with the same bytes.

A folder holds one unfinished run. HASH is the file's SHA-256:

    run.json                       what decides the run: settings, hashes of data and code, environment
    000000000120-HASH.safetensors  the state after 120 updates: tensors, and numbers as metadata
    checkpoints/0.5.safetensors    weights kept after chosen epochs
"""

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.base.files import copy_file, read_json, sha256, write_bytes, write_json
from tinylm.model.checkpoint import CHECKPOINTS

RUN_FILE = "run.json"
KEPT_SNAPSHOTS = 2  # so that one is whole even if a disk damages the other
State = tuple[dict[str, Tensor], dict[str, Any]]  # (tensors, numbers) of a snapshot


def fingerprint(sections: Mapping[str, Any], data: list[str], code: str) -> dict[str, Any]:
    """What decides a run: every setting, the SHA-256 of each data file, and that of the code."""
    parts: dict[str, Any] = {}
    for name, settings in sections.items():
        for key, value in dataclasses.asdict(settings).items():
            parts[f"{name}.{key}"] = value
    for path in data:
        parts[path] = sha256(path)
    return parts | {"code": code}


def _as_bytes(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(on_cpu, metadata)


def _is_whole(path: Path) -> bool:
    try:
        return path.stem.endswith(sha256(path))
    except OSError:  # of a damaged disk
        return False


class Snapshots:
    """The snapshots of one run in a folder.

    parts: the run's fingerprint. every_s: seconds between two snapshots.
    """

    def __init__(self, folder: str | Path, parts: Mapping[str, Any], every_s: float) -> None:
        self.folder = Path(folder)
        self.parts = json.loads(json.dumps(parts))
        self.every_s = every_s
        self._last_s = time.monotonic()

    def due(self) -> bool:
        """Whether `every_s` seconds have passed since the last snapshot or the start."""
        return time.monotonic() - self._last_s >= self.every_s

    def save(self, update: int, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Write a snapshot of the state after `update` updates; keep the last `KEPT_SNAPSHOTS`."""
        self._begin_run()
        content = _as_bytes(tensors, {"numbers": json.dumps(numbers)})
        name = f"{update:012d}-{hashlib.sha256(content).hexdigest()}.safetensors"
        write_bytes(self.folder / name, content)
        for old in self._newest_first()[KEPT_SNAPSHOTS:]:
            old.unlink()
        self._last_s = time.monotonic()

    def keep(self, name: str, weights: Mapping[str, Tensor]) -> None:
        """Write checkpoints/NAME.safetensors."""
        self._begin_run()
        write_bytes(self.folder / CHECKPOINTS / f"{name}.safetensors", _as_bytes(weights))

    def copy_checkpoints(self, folder: str | Path) -> None:
        """Replace folder/checkpoints by what `keep` wrote."""
        target = Path(folder) / CHECKPOINTS
        shutil.rmtree(target, ignore_errors=True)
        for path in sorted((self.folder / CHECKPOINTS).glob("*.safetensors")):
            copy_file(path, target / path.name)

    def latest(self) -> State | None:
        """The newest whole snapshot, or None if the run starts from the beginning.

        Damaged snapshots are named and removed; without run.json none counts. Raises InputError
        if run.json is damaged or of another run: the message names what changed.
        """
        snapshots = self._newest_first()
        if snapshots and (self.folder / RUN_FILE).exists():
            self._refuse_another_run()
            for path in snapshots:
                if _is_whole(path):
                    with safe_open(path, "pt") as file:
                        numbers = json.loads(file.metadata()["numbers"])
                    return load_file(path), numbers
                print(f"warning: {path}: damaged; going back to the one before it", flush=True)
                path.unlink()
        self.finish()
        return None

    def finish(self) -> None:
        """Remove the folder: the run is done."""
        (self.folder / RUN_FILE).unlink(missing_ok=True)  # first: without it no snapshot counts
        shutil.rmtree(self.folder, ignore_errors=True)

    def _newest_first(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.safetensors"), reverse=True)

    def _begin_run(self) -> None:
        if not (self.folder / RUN_FILE).exists():
            write_json(self.folder / RUN_FILE, self.parts)

    def _refuse_another_run(self) -> None:
        before = read_json(self.folder / RUN_FILE)
        if before == self.parts:
            return
        earlier = before if isinstance(before, dict) else {}
        changes = []
        for key, value in self.parts.items():
            if earlier.get(key) != value:
                changes.append(f"{key} {earlier.get(key)!s:.40} -> {value!s:.40}")
        raise InputError(
            f"{self.folder}: an unfinished run, but since then: {', '.join(changes)}; "
            f"restore that to continue, or rm -r {self.folder} to start again"
        )
