"""Snapshots of a training run, so that an interrupted run can be resumed and ends with the same bytes."""

import contextlib
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
from tinylm.base.files import (
    copy_file,
    read_json,
    remove_stale_temp_files,
    rename_folder,
    sha256,
    write_bytes,
    write_json,
    write_sums,
)
from tinylm.train.arithmetic import PREFIX

FORMAT, SINCE = 3, "0.3.0"  # of snapshots, and the first version of tinylm that writes it
KEPT_RUNS, KEPT_SNAPSHOTS = 3, 2
PARTS, DONE = "run.json", "done.json"
ORDER, MIXED = (
    "order",
    "mixed",
)  # in run.json beside the parts: the run's number among those here, and `Snapshots.mixed`
EPOCH_CHECKPOINTS = "moments"  # folder of the weights kept after chosen epochs
MODES = ("auto", "require", "force", "never")
_SHOWN = 3  # differences in a message
State = tuple[dict[str, Tensor], dict[str, Any]]  # (tensors, numbers) of a snapshot


def fingerprint(sections: Mapping[str, Any], data: list[str], code: str) -> dict[str, Any]:
    """What decides a run: every setting by its key path, SHA-256 of each data file, and `code`, that of the code.

    The kind of arithmetic (`training.arithmetic`) is added to these.
    """
    values = {
        f"{name}.{key}": value
        for name, settings in sections.items()
        for key, value in dataclasses.asdict(settings).items()
    }
    return values | {path: sha256(path) for path in data} | {"code": code}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Unfinished:
    """A run that did not finish: its folder, the parts of its fingerprint, and what it was mixed from."""

    folder: Path
    parts: Mapping[str, Any]
    mixed: tuple[str, ...] = ()

    def differing(self, parts: Mapping[str, Any]) -> list[str]:
        """The keys whose values differ from `parts`."""
        return [key for key in {**self.parts, **parts} if self.parts.get(key) != parts.get(key)]

    def has_the_inputs_of(self, parts: Mapping[str, Any]) -> bool:
        """Whether settings and data are equal: only code, kind of arithmetic or the snapshots' format differ."""
        keys = self.differing(parts)
        if "format" in keys:  # format 2 held what `auto` had meant
            keys = [key for key in keys if parts.get(key) != "auto"]
        return all(key in ("code", "format", "since") or key.startswith(PREFIX) for key in keys)

    def difference(self, parts: Mapping[str, Any]) -> str:
        """What differs from `parts`, in words: `train.lr 0.0003 -> 0.001`; hashes are not shown."""
        keys = [key for key in self.differing(parts) if key != "since"]
        if "format" in keys:  # and what an older format did not hold is no difference
            keys = [key for key in keys if key in self.parts and parts.get(key) != "auto"]
        shown = [
            f"{key} changed"
            if key == "code" or key.startswith("data/")
            else f"{key.removeprefix(PREFIX)} {self.parts.get(key)!s:.40} -> {parts.get(key)!s:.40}"
            for key in keys[:_SHOWN]
        ]
        return ", ".join(shown + ([f"{len(keys) - _SHOWN} more"] if len(keys) > _SHOWN else []))

    def refuse_newer(self) -> None:
        """Raise InputError if a later version of tinylm wrote it."""
        number = self.parts.get("format")
        if isinstance(number, int) and number > FORMAT:
            raise InputError(
                f"{self.folder / PARTS}: written by tinylm >= {self.parts.get('since', 'a later version')!s:.40} "
                f"(snapshot format {number}); allowed: format {FORMAT}; TINYLM_RESUME=never starts anew"
            )


def _read_note(folder: Path) -> tuple[dict[str, Any], int, tuple[str, ...]]:
    """The parts of a run, its number (0 where it has none, or none that can be read) and what it was mixed from."""
    note: dict[str, Any] = {}
    with contextlib.suppress(InputError, TypeError, ValueError):
        note = dict(read_json(folder / PARTS))
    order, mixed = note.pop(ORDER, 0), note.pop(MIXED, [])
    is_number = isinstance(order, int) and 0 <= order < 1 << 53
    return (
        note,
        int(order) if is_number else 0,
        tuple(map(str, mixed)) if isinstance(mixed, list) else (),
    )


def _runs(root: Path) -> list[tuple[int, Path]]:
    """(number, folder) of all runs, the one written to last first. The numbers are ours: clocks may be set back."""
    folders = [path.parent for path in root.glob(f"*/{PARTS}")]
    return sorted(((_read_note(folder)[1], folder) for folder in folders), reverse=True)


def unfinished_runs(root: Path) -> list[Unfinished]:
    """The runs in `root` that have a snapshot and are not done, newest first, without those that cannot be read."""
    runs = []
    for _, folder in _runs(root):
        if not (folder / DONE).exists() and any(folder.glob("[0-9]*.json")):
            parts, _, mixed = _read_note(folder)
            if parts:
                runs.append(Unfinished(folder, parts, mixed))
    return runs


class Snapshots:
    """The snapshots of one run, in root/<fingerprint of its parts>: parameters, hashes of data and of code.

    Each is UPDATE.safetensors, then UPDATE.json with the SHA-256 of both: without its JSON a snapshot does not exist.
    The weights of chosen epochs are in `moments` beside them until the run is done, since files that the run wrote
    elsewhere may be gone when it is resumed. A run that is done keeps its snapshots until the next one starts.
    mode (default: TINYLM_RESUME, or auto): `auto` resumes a run with exactly these parts, and refuses if an unfinished
    one differs only in its code or its kind of arithmetic; `require` refuses to start a new run, and resumes even a
    finished one; `force` also resumes what `auto` refuses, and notes it in `mixed`; `never` always starts a new run.
    """

    def __init__(
        self, root: str | Path, parts: Mapping[str, Any], every_s: float, mode: str | None = None
    ) -> None:
        self.mode = mode if mode is not None else os.environ.get("TINYLM_RESUME", "auto")
        if self.mode not in MODES:
            raise InputError(f"TINYLM_RESUME = {self.mode!r}; allowed: {' | '.join(MODES)}")
        self.parts = json.loads(json.dumps({"format": FORMAT, "since": SINCE, **parts}))
        self.root, self.every_s = Path(root), every_s
        self.folder = self.root / _digest(json.dumps(self.parts, sort_keys=True))[:16]
        self.newest: Path | None = None  # the last whole snapshot written, or the one resumed from
        self.mixed: tuple[
            str, ...
        ] = ()  # where the run went on in other code or another kind of arithmetic, in words
        self._noted = False
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether `every_s` seconds have passed since the last snapshot or the start."""
        return time.monotonic() - self._last >= self.every_s

    def save(self, update: int, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Write a snapshot and remove all but the last two."""
        path = self.folder / f"{update:012d}.safetensors"
        self._write(path, tensors)
        note = {"sha256": sha256(path), "state": numbers}
        write_json(path.with_suffix(".json"), note, sealed=True)
        for old in sorted(self.folder.glob("*.safetensors"))[:-KEPT_SNAPSHOTS]:
            old.with_suffix(".json").unlink(missing_ok=True)
            old.unlink()
        self.newest, self._last = path, time.monotonic()

    def keep(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Write moments/NAME.safetensors."""
        self._write(self.folder / EPOCH_CHECKPOINTS / f"{name}.safetensors", tensors)

    def copy_kept(self, folder: str | Path) -> None:
        """Make folder/moments hold what `keep` wrote and nothing else."""
        target = Path(folder) / EPOCH_CHECKPOINTS
        shutil.rmtree(target, ignore_errors=True)
        for path in sorted((self.folder / EPOCH_CHECKPOINTS).glob("*.safetensors")):
            copy_file(path, target / path.name)
        if target.exists():
            write_sums(target)

    def _note(self) -> None:
        """Write run.json, as the newest of all runs here, and forget the oldest."""
        others = [(number, folder) for number, folder in _runs(self.root) if folder != self.folder]
        order = max((number for number, _ in others), default=0) + 1
        write_json(self.folder / PARTS, self.parts | {ORDER: order, MIXED: list(self.mixed)})
        for _, folder in others[KEPT_RUNS - 1 :]:
            shutil.rmtree(folder, ignore_errors=True)
        self._noted = True

    def _write(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        if not self._noted:
            self._note()
        write_bytes(
            path,
            save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}),
        )

    def latest(self) -> State | None:
        """The newest whole snapshot of this run, or None if it starts from the beginning.

        Damaged ones are named and skipped. Raises InputError if one is required and there is none, if a later
        tinylm wrote the newest unfinished run, and if that run had other code.
        """
        if self.mode != "require":
            for path in self.root.glob(f"*/{DONE}"):
                shutil.rmtree(path.parent, ignore_errors=True)
        state = self._newest_whole()
        if state is None and self.mode == "require":
            raise InputError(
                f"TINYLM_RESUME = 'require': no snapshot of this run in {self.folder}; nothing was changed"
            )
        if self.mode in ("auto", "force") and not any(self.folder.glob("[0-9]*.json")):
            state = self._from_other_run()
        remove_stale_temp_files(self.root, below=True)
        if self.mode == "never":
            for run in unfinished_runs(self.root):
                if run.has_the_inputs_of(self.parts):
                    shutil.rmtree(run.folder, ignore_errors=True)
        self._remove_later(self.newest)
        return state

    def finish(self) -> None:
        """Mark the run as done: its snapshots are removed when the next one starts."""
        write_json(self.folder / DONE, {})

    def _newest_whole(self) -> State | None:
        listed = (
            sorted(self.folder.glob("[0-9]*.json"), reverse=True) if self.mode != "never" else []
        )
        for path in listed:
            try:
                tensors, note = self._read(path)
            except InputError as error:
                print(f"warning: {error}; going back to the snapshot before it", flush=True)
                continue
            self.mixed = _read_note(self.folder)[2]
            self.newest = path.with_suffix(".safetensors")
            return tensors, note["state"]
        if listed and self.mode != "require":
            print(
                f"warning: {self.folder}: no whole snapshot of this run is left: starting anew",
                flush=True,
            )
        return None

    def _from_other_run(self) -> State | None:
        """Without a snapshot of this very run: say how the newest unfinished one differs, or resume one if forced."""
        others = unfinished_runs(self.root)
        if not others:
            return None
        others[0].refuse_newer()
        run = next((run for run in others if run.has_the_inputs_of(self.parts)), None)
        if run is None:
            print(
                f"an unfinished run differs ({others[0].difference(self.parts)}): starting anew",
                flush=True,
            )
            return None
        changes = run.difference(self.parts)
        if self.mode != "force":
            raise InputError(
                f"{run.folder}: an unfinished run of the same parameters and data, but since then: {changes}; "
                "TINYLM_RESUME=force goes on from it, TINYLM_RESUME=never starts anew"
            )
        print(
            f"warning: {run.folder}: going on from it ({changes}): equal bytes are not promised",
            flush=True,
        )
        shutil.rmtree(self.folder, ignore_errors=True)  # without a snapshot
        rename_folder(run.folder, self.folder)
        state = self._newest_whole()
        if state is not None:
            self.mixed = (*run.mixed, f"{changes} after update {state[1].get('updates')}")
        self._note()
        return state

    def _remove_later(self, resumed: Path | None) -> None:
        """Remove the snapshots after the one resumed from: the next run would resume from them."""
        for path in [*self.folder.glob("[0-9]*.json"), *self.folder.glob("[0-9]*.safetensors")]:
            if resumed is None or path.stem > resumed.stem:
                path.unlink()
        (self.folder / DONE).unlink(missing_ok=True)

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        weights = path.with_suffix(".safetensors")
        note = read_json(path)
        if not isinstance(note, dict) or not isinstance(note.get("state"), dict):
            raise InputError(f"{path}: not a snapshot's")
        try:
            if sha256(weights) != note["sha256"]:
                raise InputError(f"{weights}: its SHA-256 is not the one it was written with")
            return load_file(weights), note
        except (OSError, SafetensorError, KeyError, AttributeError) as error:
            raise InputError(f"{weights}: not a snapshot ({error})") from None
