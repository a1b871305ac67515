"""Snapshots of a training run, so that one that was cut off goes on and ends with the same bytes."""

import dataclasses
import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.base.files import copy_file, read_json, rename_folder, sha256, sweep, write_bytes, write_json, write_sums
from tinylm.training import unfinished
from tinylm.training.unfinished import DONE, FORMAT, PARTS, SINCE, Unfinished

KEPT_SNAPSHOTS = 2
MODES = ("auto", "require", "force", "never")
MOMENTS = "moments"
SOURCES = (".py", ".cpp", ".h")


def code_sha256(*places: str | Path) -> str:
    """One SHA-256 over the sources of the given files and folders, names and bytes, in order of their names."""
    digest = hashlib.sha256()
    for place in places:
        files = [f for f in Path(place).rglob("*") if f.suffix in SOURCES] if Path(place).is_dir() else [Path(place)]
        for file in sorted(files):
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Snapshots:
    """The snapshots of one run, in root/<fingerprint of its parts>: parameters, hashes of data and of code.

    Each is UPDATE.safetensors, then UPDATE.json with the SHA-256 of both: without its JSON a snapshot does not exist.
    Weights to be kept lie in `moments` beside them until the run is done, since what a run wrote elsewhere may be gone
    when it is taken up. A run that is done keeps its snapshots until the next one starts.
    mode (default: TINYLM_RESUME, or auto): auto takes up a run with just these parts, and refuses where an unfinished
    one differs in its code only; require refuses to start anew, and takes up a run that is done too; force goes on
    from other code as well; never starts anew. conditions: what equal bytes need beside the parts; a resumed run that
    has others is warned.
    """

    def __init__(
        self,
        root: str | Path,
        parts: Mapping[str, Any],
        every_s: float,
        mode: str | None = None,
        conditions: Mapping[str, Any] | None = None,
    ) -> None:
        self.mode = mode if mode is not None else os.environ.get("TINYLM_RESUME", "auto")
        if self.mode not in MODES:
            raise InputError(f"TINYLM_RESUME = {self.mode!r}; allowed: {' | '.join(MODES)}")
        self.parts = json.loads(json.dumps({"format": FORMAT, "since": SINCE, **parts}))
        self.conditions = dict(conditions or {})
        self.root, self.every_s = Path(root), every_s
        self.folder = self.root / _digest(json.dumps(self.parts, sort_keys=True))[:16]
        self.newest: Path | None = None  # the last whole snapshot that was written or taken up
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether `every_s` seconds have passed since the last snapshot or the start."""
        return time.monotonic() - self._last >= self.every_s

    def save(self, update: int, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Write a snapshot; the ones before the last two go."""
        path = self.folder / f"{update:012d}.safetensors"
        self._write(path, tensors)
        kept = {"sha256": sha256(path), "conditions": self.conditions, "state": numbers}
        write_json(path.with_suffix(".json"), kept, sealed=True)
        for old in sorted(self.folder.glob("*.safetensors"))[:-KEPT_SNAPSHOTS]:
            old.with_suffix(".json").unlink(missing_ok=True)
            old.unlink()
        self.newest, self._last = path, time.monotonic()

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
            unfinished.forget_old(self.root)
        write_bytes(path, save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}))

    def latest(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """(tensors, numbers) of the newest whole snapshot of this run, None where it starts anew.

        A damaged one is named and passed over. Raises InputError where one is required and there is none, where a
        later tinylm wrote the newest unfinished run, and where that run had other code.
        """
        if self.mode != "require":
            unfinished.forget_finished(self.root)
        found = self._newest_whole()
        if found is None and self.mode == "require":
            raise InputError(
                f"TINYLM_RESUME = 'require': no snapshot of this run in {self.folder}; nothing was changed"
            )
        if self.mode in ("auto", "force") and not any(self.folder.glob("[0-9]*.json")):
            found = self._after_others()
        sweep(self.root, below=True)
        if self.mode == "never":
            unfinished.forget_other_code(self.root, self.parts)
        self._forget_after(self.newest)
        return found

    def finish(self) -> None:
        """Mark the run as done: its snapshots go when the next one starts."""
        write_json(self.folder / DONE, {})

    def _newest_whole(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        listed = sorted(self.folder.glob("[0-9]*.json"), reverse=True) if self.mode != "never" else []
        for path in listed:
            try:
                tensors, kept = self._read(path)
            except InputError as error:
                print(f"warning: {error}; going back to the snapshot before it", flush=True)
                continue
            self._warn_of_conditions(path, kept.get("conditions"))
            self.newest = path.with_suffix(".safetensors")
            return tensors, kept["state"]
        if listed and self.mode != "require":
            print(f"warning: {self.folder}: no whole snapshot of this run is left: starting anew", flush=True)
        return None

    def _warn_of_conditions(self, path: Path, before: Any) -> None:
        before = before if isinstance(before, dict) else {}
        keys = [key for key, now in self.conditions.items() if before.get(key, now) != now]
        if keys:
            changes = ", ".join(f"{key} {before[key]} -> {self.conditions[key]}" for key in keys)
            print(f"warning: {path}: written under other conditions ({changes}): equal bytes are not promised")

    def _after_others(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """No snapshot of this very run: say how the newest unfinished one differs, or go on from its other code."""
        others = unfinished.unfinished(self.root)
        if not others:
            return None
        newest = others[0]
        newest.refuse_newer()
        if newest.differing(self.parts) != ["code"]:
            print(f"an unfinished run differs ({newest.difference(self.parts)}): starting anew", flush=True)
            return None
        return self._other_code(newest)

    def _other_code(self, run: Unfinished) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        if self.mode != "force":
            raise InputError(
                f"{run.folder}: an unfinished run with the same parameters and data, but the code has changed since; "
                "TINYLM_RESUME=force goes on from it, TINYLM_RESUME=never starts anew"
            )
        print(f"warning: {run.folder}: going on from a run of other code: equal bytes are not promised", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)  # without a snapshot
        rename_folder(run.folder, self.folder)
        write_json(self.folder / PARTS, self.parts)
        return self._newest_whole()

    def _forget_after(self, taken: Path | None) -> None:
        """Remove the snapshots that the run does not go on from: later ones, which would be taken up again."""
        for path in [*self.folder.glob("[0-9]*.json"), *self.folder.glob("[0-9]*.safetensors")]:
            if taken is None or path.stem > taken.stem:
                path.unlink()
        (self.folder / DONE).unlink(missing_ok=True)

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        weights = path.with_suffix(".safetensors")
        kept = read_json(path)
        if not isinstance(kept, dict) or not isinstance(kept.get("state"), dict):
            raise InputError(f"{path}: not a snapshot's")
        try:
            if sha256(weights) != kept["sha256"]:
                raise InputError(f"{weights}: its SHA-256 is not the one it was written with")
            return load_file(weights), kept
        except (OSError, SafetensorError, KeyError, AttributeError) as error:
            raise InputError(f"{weights}: not a snapshot ({error})") from None
