"""Whether a DVC is at work in this folder, and what it recorded; for the commands that mend what DVC left."""

import configparser
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinylm.base.files import is_alive
from tinylm.host.processes import locked

FOLDER = Path(".dvc")
LOCK_FILE, TMP, RWLOCK = Path("dvc.lock"), FOLDER / "tmp", FOLDER / "tmp/rwlock"
HOLDS = f"it holds {TMP}/lock"
_FILE = re.compile(r"- path: (.+)\n\s+hash: md5\n\s+md5: ([0-9a-f]{32}(?:\.dir)?)\n")


def setting(section: str, key: str) -> str | None:
    """A value of .dvc/config.local or .dvc/config, None if neither has it or can be read."""
    for name in ("config.local", "config"):
        config = configparser.ConfigParser(interpolation=None, strict=False)
        with contextlib.suppress(configparser.Error, UnicodeDecodeError):
            config.read(FOLDER / name, encoding="utf-8")
        if config.has_option(section, key):
            return config.get(section, key)
    return None


def cache() -> Path:
    """The folder of DVC's cache."""
    return FOLDER / (setting("cache", "dir") or "cache")


def is_held(holder: Any) -> bool:
    """Whether the process of an entry of DVC's rwlock lives; true where only DVC can tell."""
    try:
        return is_alive(int(holder["pid"]))
    except (KeyError, TypeError, ValueError):
        return True


def _running() -> list[str]:
    """The commands, with their process ids, of the living whose stages are running: DVC holds no other lock then."""
    try:
        held = json.loads(RWLOCK.read_text(encoding="utf-8"))
        readers = [holder for holders in held.get("read", {}).values() for holder in holders]
        holders = [*held.get("write", {}).values(), *readers]
    except (FileNotFoundError, ValueError, AttributeError, TypeError):
        return []
    named = {
        holder["pid"]: str(holder.get("cmd", "dvc"))
        for holder in holders
        if is_held(holder) and "pid" in holder
    }
    return [f"{command}, pid {pid}" for pid, command in named.items()]


@contextlib.contextmanager
def dvc_held_off() -> Iterator[str]:
    """Hold DVC's own lock for the block, so that no DVC begins in it; yields "", or which DVC is at work already.

    DVC holds that lock except while the command of a stage runs; then the stage's files are named in the rwlock. Yields
    `HOLDS` if a DVC has the lock itself, so that not even the rwlock may be edited.
    """
    if (
        setting("core", "hardlink_lock") or ""
    ).lower() == "true":  # then the file is there while it is held
        yield HOLDS if (TMP / "lock").exists() else "; ".join(_running())
        return
    with locked(TMP / "lock") as lock:
        yield HOLDS if lock is None else "; ".join(_running())


def _listing(path: Path) -> list[tuple[str, str]]:
    """(path below it, MD5) of a folder in the cache; nothing if the listing is damaged."""
    try:
        return [
            (entry["relpath"], entry["md5"])
            for entry in json.loads(path.read_text(encoding="utf-8"))
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def recorded() -> set[tuple[str, str]]:
    """(file, MD5) of everything that dvc.lock or the run cache would have DVC restore."""
    found: set[tuple[str, str]] = set()
    for record in (
        LOCK_FILE,
        *(path for path in (cache() / "runs").glob("??/*/*") if path.suffix != ".tmp"),
    ):
        text = record.read_text(encoding="utf-8", errors="replace") if record.is_file() else ""
        for path, md5 in _FILE.findall(text):
            listed = (
                _listing(cache() / "files/md5" / md5[:2] / md5[2:]) if md5.endswith(".dir") else []
            )
            found |= {(f"{path}/{name}", file_md5) for name, file_md5 in listed} or {(path, md5)}
    return found
