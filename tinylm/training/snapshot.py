"""Snapshots of a training run, so that one that was cut off goes on and ends with the same bytes."""

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from tinylm.config import InputError
from tinylm.files import copy_file, read_json, sha256, write_bytes, write_json, write_sums

FORMAT = 1
KEPT_SNAPSHOTS, KEPT_RUNS = 2, 3
MODES = ("auto", "never", "require")
PARTS, MOMENTS = "run.json", "moments"


def code_sha256(*places: str | Path) -> str:
    """One SHA-256 over the Python files of the given files and folders, names and bytes, in order of their names."""
    digest = hashlib.sha256()
    for place in places:
        for file in sorted(Path(place).rglob("*.py")) if Path(place).is_dir() else [Path(place)]:
            digest.update(f"{file.name} {sha256(file)}\n".encode())
    return digest.hexdigest()


def fingerprint(sections: Mapping[str, Any], data: list[str], code: list[str]) -> dict[str, Any]:
    """What decides a run: every setting by its key path, SHA-256 of each data file, one of the code."""
    values = {
        f"{name}.{key}": value
        for name, settings in sections.items()
        for key, value in dataclasses.asdict(settings).items()
    }
    return values | {path: sha256(path) for path in data} | {"code": code_sha256(*code)}


class Snapshots:
    """The snapshots of one run, in root/<fingerprint of its parts>: parameters, hashes of data and of code.

    Each is UPDATE.safetensors, then UPDATE.json with the tensors' SHA-256: without its JSON a snapshot does not exist.
    Weights to be kept lie in `moments` beside them until the run is done, since what a run wrote elsewhere may be gone
    when it is taken up.
    mode: auto takes up a run with just these parts; never starts anew; require refuses to start anew.
    """

    def __init__(self, root: str | Path, parts: Mapping[str, Any], every_s: float, mode: str = "auto") -> None:
        if mode not in MODES:
            raise InputError(f"TINYLM_RESUME = {mode!r}; allowed: {' | '.join(MODES)}")
        self.parts = json.loads(json.dumps({"format": FORMAT, **parts}))
        text = json.dumps(self.parts, sort_keys=True)
        self.root, self.every_s, self.mode = Path(root), every_s, mode
        self.folder = self.root / hashlib.sha256(text.encode()).hexdigest()[:16]
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether `every_s` seconds have passed since the last snapshot or the start."""
        return time.monotonic() - self._last >= self.every_s

    def save(self, update: int, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Write a snapshot; the ones before the last two go."""
        path = self.folder / f"{update:012d}.safetensors"
        self._write(path, tensors)
        write_json(path.with_suffix(".json"), {"sha256": sha256(path), **numbers}, sealed=True)
        for old in sorted(self.folder.glob("*.safetensors"))[:-KEPT_SNAPSHOTS]:
            old.with_suffix(".json").unlink(missing_ok=True)
            old.unlink()
        self._last = time.monotonic()

    def keep(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Write moments/NAME.safetensors."""
        self._write(self.folder / MOMENTS / f"{name}.safetensors", tensors)

    def copy_kept(self, folder: str | Path) -> None:
        """Make folder/moments hold what `keep` wrote and nothing else."""
        shutil.rmtree(Path(folder) / MOMENTS, ignore_errors=True)
        for path in sorted((self.folder / MOMENTS).glob("*.safetensors")):
            copy_file(path, Path(folder) / MOMENTS / path.name)
        if (Path(folder) / MOMENTS).exists():
            write_sums(Path(folder) / MOMENTS)

    def _write(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        if not (self.folder / PARTS).exists():
            write_json(self.folder / PARTS, self.parts)
            self._forget_old_runs()
        write_bytes(path, save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}))

    def latest(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """(tensors, numbers) of the newest whole snapshot of this run, None where it starts anew.

        A damaged one is named and passed over. Raises InputError where one is required and there is none.
        """
        whole = sorted(self.folder.glob("[0-9]*.json"), reverse=True) if self.mode != "never" else []
        found, taken = None, None
        for path in whole:
            try:
                found, taken = self._read(path), path
                break
            except InputError as error:
                print(f"warning: {error}; going back to the snapshot before it", flush=True)
        if found is None and self.mode == "require":
            raise InputError(
                f"TINYLM_RESUME = 'require': no snapshot of this run in {self.folder}; nothing was changed"
            )
        if found is None and self.mode != "never":
            self._say_what_differs()
        self._forget_after(taken)
        return found

    def clear(self) -> None:
        """Remove this run's snapshots: it is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _forget_after(self, taken: Path | None) -> None:
        """Remove the snapshots that the run does not go on from: later ones, which would be taken up again."""
        for path in [*self.folder.glob("[0-9]*.json"), *self.folder.glob("[0-9]*.safetensors")]:
            if taken is None or path.stem > taken.stem:
                path.unlink()

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        weights = path.with_suffix(".safetensors")
        numbers = read_json(path)
        if not isinstance(numbers, dict):
            raise InputError(f"{path}: not a snapshot's")
        try:
            if sha256(weights) != numbers.pop("sha256"):
                raise InputError(f"{weights}: its SHA-256 is not the one it was written with")
            return load_file(weights), numbers
        except (OSError, SafetensorError, KeyError, AttributeError) as error:
            raise InputError(f"{weights}: not a snapshot ({error})") from None

    def _runs(self) -> list[Path]:
        """Folders of unfinished runs, newest first."""
        found = [path.parent for path in self.root.glob(f"*/{PARTS}")]
        return sorted(found, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)

    def _say_what_differs(self) -> None:
        for folder in self._runs()[:1]:
            try:
                other = dict(read_json(folder / PARTS))
            except (InputError, TypeError, ValueError):
                continue
            keys = [key for key in {**other, **self.parts} if other.get(key) != self.parts.get(key)]
            shown = ", ".join(f"{key} {other.get(key)!s:.40} -> {self.parts.get(key)!s:.40}" for key in keys[:3])
            if keys:
                print(f"an unfinished run differs ({shown}): starting anew", flush=True)

    def _forget_old_runs(self) -> None:
        for folder in self._runs()[KEPT_RUNS:]:
            shutil.rmtree(folder, ignore_errors=True)
