"""Check the bytes that `dvc repro` left, some of them restored from DVC's cache; `make repro` does this after it.

DVC does not check what it restores from its cache: if a file there has changed, `dvc repro` succeeds with other bytes
and records them in dvc.lock. What stages write carries its SHA-256, which is checked here; metrics and curves are small
and carry none, so the cache's small files are checked against their names, which are MD5s. What differs is removed,
here and in the cache: DVC then makes it again. Where a DVC is at work, nothing is touched.
"""

import hashlib
import math
import re
import sys
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.files import SUMS, discard, read_json, sha256
from tinylm.cli.dvc_state import cache, dvc_held_off, recorded
from tinylm.host.command import guard

FOLDERS = (paths.DATA, paths.MODELS)
SMALL = 1 << 20  # bytes; larger files of the cache are checked only if something is wrong
STORE = ("ids", "offsets")  # files of a token store, whose sums are in its JSON
_NAME = re.compile(
    r"[0-9a-f]{30}(\.dir)?"
)  # of a file in the cache; DVC writes it under another name


def _sums(path: Path) -> dict[Path, str]:
    """File -> SHA-256, of those that the JSON file `path` vouches for. Raises InputError if it is damaged itself."""
    held = read_json(path)
    if not isinstance(held, dict):
        return {}
    if path.name == SUMS:
        return {path.with_name(name): str(expected) for name, expected in held.items()}
    return {
        path.with_suffix(f".{kind}"): held[f"{kind}_sha256"]
        for kind in STORE
        if f"{kind}_sha256" in held
    }


def checked() -> tuple[set[Path], set[Path]]:
    """(damaged, whole): our files in data/ and models/ whose bytes are not those that were written, and that are."""
    damaged: set[Path] = set()
    whole: set[Path] = set()
    for path in sorted(path for folder in FOLDERS for path in Path(folder).glob("**/*.json")):
        try:
            sums = _sums(path)
        except InputError:
            damaged.add(path)
            continue
        for file, expected in sums.items():
            if file.is_file():
                (whole if sha256(file) == expected else damaged).add(file)
    return damaged, whole


def _md5(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "md5").hexdigest()


def damaged_in(folder: Path, largest: float = math.inf) -> dict[Path, tuple[str, str]]:
    """Files below `folder`/files/md5 whose MD5 is not their name: the MD5 of the name, and the one that they have.

    largest: files of more bytes than this are skipped.
    """
    found = {}
    for path in (folder / "files/md5").glob("??/*"):
        named = path.parent.name + path.name.removesuffix(".dir")
        if _NAME.fullmatch(path.name) and path.is_file() and path.stat().st_size <= largest:
            has = _md5(path)
            if has != named:
                found[path] = (named, has)
    return found


def restored_from(bad: dict[Path, tuple[str, str]]) -> set[Path]:
    """Outputs with the bytes of a damaged file of the cache that DVC may have restored there."""
    has = dict(bad.values())
    named = {(Path(file), has[md5]) for file, md5 in recorded() if md5 in has} if bad else set()
    inside = {(file, md5) for file, md5 in named if file.parts[0] in paths.OUTPUTS}
    return {file for file, md5 in inside if file.is_file() and _md5(file) == md5}


def _found() -> tuple[set[Path], dict[Path, tuple[str, str]]]:
    """(damaged files here, damaged files of the cache)."""
    damaged, whole = checked()
    bad = damaged_in(cache(), math.inf if damaged else SMALL)
    return damaged | (restored_from(bad) - whole), bad


def main() -> None:
    if not any(_found()):
        return
    with dvc_held_off() as busy:
        if busy:
            print(
                f"a DVC is at work here ({busy}): what it left was not checked; run make repro when it is done"
            )
            return
        found, bad = _found()  # again, now that nobody writes
        discard(*found, *bad)
    if found:
        raise InputError(
            f"{', '.join(map(str, sorted(found)))}: other bytes than were written; removed, and {len(bad)} damaged "
            "files of DVC's cache with them: run make repro again"
        )
    if bad:
        print(f"{len(bad)} damaged files of DVC's cache removed; nothing here came out of them")


if __name__ == "__main__":
    sys.exit(guard(main))
