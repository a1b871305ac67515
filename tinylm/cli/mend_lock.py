"""Restore a dvc.lock that was half-written when DVC was killed; `make repro` does so before `dvc repro`.

DVC writes dvc.lock and .dvc/tmp/rwlock in place, so a kill can leave them empty or cut off, and then refuses to work.
Complete entries of the damaged file are kept and the last committed file gives the rest: DVC compares every entry with
the files, so an old one costs a look into the run cache and never a wrong result. Where a DVC is at work, nothing is
touched but the locks of dead processes.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tinylm.base.config import InputError, parse_yaml
from tinylm.base.files import atomic_write, discard, write_json
from tinylm.cli.dvc_state import HOLDS, LOCK_FILE, RWLOCK, dvc_held_off, is_held
from tinylm.host.command import guard

_HEAD = "schema: '2.0'\nstages:\n"


def _entries(text: str) -> dict[str, str]:
    """Stage name -> its lines, for every entry of a dvc.lock; all are complete, except perhaps the last."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if line.startswith("  ") and line[2:3] not in (" ", "-", ""):
            name = line.strip().rstrip(":")
            found[name] = []
        if name:
            found[name].append(line)
    return {name: "".join(lines) for name, lines in found.items()}


def _is_entry(entry: Any) -> bool:
    """Whether a stage's entry has a command, and each of its files a path, a hash and a size."""
    if not isinstance(entry, dict) or "cmd" not in entry or None in entry.values():
        return False
    if None in entry.get("params", {}).values():
        return False
    files = [file for kind in ("deps", "outs") for file in entry.get(kind, [])]
    return all(isinstance(file, dict) and {"path", "md5", "size"} <= file.keys() for file in files)


def is_whole(text: str) -> bool:
    """Whether it has stages with complete entries and ends with a line feed."""
    try:
        lock: Any = parse_yaml(text, str(LOCK_FILE))
    except InputError:
        return False
    stages = lock.get("stages")
    entries = stages.values() if isinstance(stages, dict) else [None]
    return text.endswith("\n") and all(map(_is_entry, entries))


def _committed() -> str:
    done = subprocess.run(
        ["git", "show", f"HEAD:./{LOCK_FILE}"], capture_output=True, text=True, encoding="utf-8"
    )
    return done.stdout if done.returncode == 0 and is_whole(done.stdout) else ""


def mended(text: str, committed: str) -> str:
    """The complete entries of a damaged file, and those of the committed one that it lacks; "" if there are none."""
    kept = _entries(text)
    if kept:
        kept.popitem()  # the file is cut off in it
    entries = {
        **kept,
        **{name: lines for name, lines in _entries(committed).items() if name not in kept},
    }
    new = _HEAD + "".join(entries.values())
    return new if entries and is_whole(new) else committed


def of_the_living(held: Any) -> Any:
    """DVC's read and write locks without those of dead processes, which DVC takes to be alive until they are reaped."""
    if not isinstance(held, dict) or not all(
        isinstance(held.get(mode, {}), dict) for mode in ("read", "write")
    ):
        return held
    read, write = held.get("read", {}), held.get("write", {})
    readers = {
        path: [holder for holder in holders if is_held(holder)] for path, holders in read.items()
    }
    return {
        **held,
        "read": {path: holders for path, holders in readers.items() if holders},
        "write": {path: holder for path, holder in write.items() if is_held(holder)},
    }


def _half_written() -> list[Callable[[], None]]:
    """What has to be done to files that DVC was killed in."""
    text = LOCK_FILE.read_text(encoding="utf-8", errors="replace") if LOCK_FILE.exists() else None
    todo: list[Callable[[], None]] = []
    if text is not None and not is_whole(text):
        todo.append(lambda: _mend_lock(text))
    if RWLOCK.exists() and _held() is None:
        todo.append(_remove_rwlock)
    return todo


def _mend_lock(text: str) -> None:
    new = mended(text, _committed())
    if new:
        with atomic_write(LOCK_FILE) as handle:
            handle.write(new)
    else:
        discard(LOCK_FILE)
    print(
        f"{LOCK_FILE} was left half-written ({len(text)} characters): restored {len(_entries(new))} of its stages"
    )


def _held() -> Any:
    """What DVC's rwlock holds; None if it is half-written."""
    try:
        return json.loads(RWLOCK.read_text(encoding="utf-8"))
    except ValueError:
        return None


def _remove_rwlock() -> None:
    discard(RWLOCK)
    print(f"{RWLOCK} was left half-written: removed")


def _has_dead() -> bool:
    return RWLOCK.exists() and (held := _held()) is not None and of_the_living(held) != held


def main() -> None:
    if not _half_written() and not _has_dead():
        return
    with dvc_held_off() as busy:  # what is half-written now may be DVC's at this moment: look again
        todo = _half_written()
        if busy == HOLDS or (busy and todo):
            print(
                f"a DVC is at work here ({busy}): nothing is mended; run make repro when it is done"
            )
            return
        for mend in todo:
            mend()
        if _has_dead():
            write_json(RWLOCK, of_the_living(_held()))


if __name__ == "__main__":
    sys.exit(guard(main))
