"""The runs whose snapshots lie side by side: which is unfinished, how it differs from one that starts, which go."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.files import read_json

FORMAT, SINCE = 2, "0.1.0"  # of snapshots, and the first version of tinylm that writes it
KEPT_RUNS = 3
PARTS, DONE = "run.json", "done.json"
_SHOWN = 3  # differences in a message


@dataclass(frozen=True)
class Unfinished:
    """A run that was cut off: its folder and the parts of its fingerprint."""

    folder: Path
    parts: Mapping[str, Any]

    def differing(self, parts: Mapping[str, Any]) -> list[str]:
        """Keys whose values are not those of `parts`."""
        return [key for key in {**self.parts, **parts} if self.parts.get(key) != parts.get(key)]

    def difference(self, parts: Mapping[str, Any]) -> str:
        """What differs from `parts`, in words: `train.lr 0.0003 -> 0.001`; of a hash only whose it is."""
        keys = self.differing(parts)
        shown = [
            f"{key} changed"
            if key == "code" or key.startswith("data/")
            else f"{key} {self.parts.get(key)!s:.40} -> {parts.get(key)!s:.40}"
            for key in keys[:_SHOWN]
        ]
        return ", ".join(shown + ([f"{len(keys) - _SHOWN} more"] if len(keys) > _SHOWN else []))

    def refuse_newer(self) -> None:
        """InputError where a later version of tinylm wrote it."""
        found = self.parts.get("format")
        if isinstance(found, int) and found > FORMAT:
            raise InputError(
                f"{self.folder / PARTS}: written by tinylm >= {self.parts.get('since', 'a later version')!s:.40} "
                f"(snapshot format {found}); allowed: format {FORMAT}; TINYLM_RESUME=never starts anew"
            )


def _folders(root: Path) -> list[Path]:
    found = [path.parent for path in root.glob(f"*/{PARTS}")]
    return sorted(found, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)


def unfinished(root: Path) -> list[Unfinished]:
    """The runs in `root` that have a snapshot and are not done, newest first; an unreadable one is passed over."""
    found = []
    for folder in _folders(root):
        if (folder / DONE).exists() or not any(folder.glob("[0-9]*.json")):
            continue
        try:
            found.append(Unfinished(folder, dict(read_json(folder / PARTS))))
        except (InputError, TypeError, ValueError):
            continue
    return found


def forget_finished(root: Path) -> None:
    """Remove the runs that are done."""
    for path in root.glob(f"*/{DONE}"):
        shutil.rmtree(path.parent, ignore_errors=True)


def forget_old(root: Path) -> None:
    """Remove all but the newest `KEPT_RUNS` runs."""
    for folder in _folders(root)[KEPT_RUNS:]:
        shutil.rmtree(folder, ignore_errors=True)


def forget_other_code(root: Path, parts: Mapping[str, Any]) -> None:
    """Remove the unfinished runs that differ from `parts` in nothing but their code."""
    for run in unfinished(root):
        if run.differing(parts) == ["code"]:
            shutil.rmtree(run.folder, ignore_errors=True)
