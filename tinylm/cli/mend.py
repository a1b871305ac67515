"""Repair files that DVC left half-written when it was killed; `make repro` does so first.

DVC writes dvc.lock and .dvc/tmp/rwlock in place. If a kill truncates one, DVC cannot run. DVC
writes all other missing files again.
"""

import json
import subprocess
import sys
from pathlib import Path

from tinylm.base.config import InputError, parse_yaml
from tinylm.base.files import write_bytes
from tinylm.host.command import guard

LOCK_FILE = Path("dvc.lock")
RWLOCK = Path(".dvc/tmp/rwlock")


def is_whole(text: str) -> bool:
    """Whether the text of a dvc.lock was written to its end: DVC can read it."""
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from voluptuous import Invalid

    try:
        COMPILED_LOCKFILE_SCHEMA(parse_yaml(text, str(LOCK_FILE)))
    except (InputError, Invalid):
        return False
    return text.endswith("\n")


def _mend_lock() -> None:
    if is_whole(LOCK_FILE.read_text(encoding="utf-8", errors="replace")):
        return
    command = ["git", "show", f"HEAD:./{LOCK_FILE}"]
    committed = subprocess.run(command, capture_output=True, check=False)
    if committed.returncode == 0:
        write_bytes(LOCK_FILE, committed.stdout)
        print(f"{LOCK_FILE} was left half-written: restored as it was committed")
    else:
        LOCK_FILE.unlink()
        print(f"{LOCK_FILE} was left half-written: removed")


def main() -> None:
    if LOCK_FILE.exists():
        _mend_lock()
    if RWLOCK.exists():
        try:
            json.loads(RWLOCK.read_text(encoding="utf-8"))
        except ValueError:
            RWLOCK.unlink()
            print(f"{RWLOCK} was left half-written: removed")


if __name__ == "__main__":
    sys.exit(guard(main))
