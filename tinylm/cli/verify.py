"""Check the bytes that `dvc repro` left, some of them restored from DVC's cache; `make repro` does this after it.

DVC does not check what it restores from its cache: if a file there has changed, `dvc repro` succeeds with other bytes
and records them in dvc.lock. What stages write carries its SHA-256, which is checked here; metrics and curves are small
and carry none, so the cache's small files are checked against their names, which are MD5s. What differs is removed,
here and in the cache: DVC then makes it again.
"""

import configparser
import contextlib
import hashlib
import math
import sys
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.files import SUMS, discard, read_json, sha256
from tinylm.host.command import guard

FOLDERS = (paths.DATA, paths.MODELS)
SMALL = 1 << 20  # bytes; larger files of the cache are checked only if something is wrong
STORE = ("ids", "offsets")  # files of a token store, whose sums are in its JSON


def _sums(path: Path) -> dict[Path, str]:
    """File -> SHA-256, of those that the JSON file `path` vouches for. Raises InputError if it is damaged itself."""
    held = read_json(path)
    if not isinstance(held, dict):
        return {}
    if path.name == SUMS:
        return {path.with_name(name): str(expected) for name, expected in held.items()}
    return {path.with_suffix(f".{kind}"): held[f"{kind}_sha256"] for kind in STORE if f"{kind}_sha256" in held}


def damaged() -> list[Path]:
    """Our files in data/ and models/ whose bytes are not those that were written."""
    found = set()
    for path in sorted(path for folder in FOLDERS for path in Path(folder).glob("**/*.json")):
        try:
            sums = _sums(path)
        except InputError:
            found.add(path)
            continue
        found |= {file for file, expected in sums.items() if file.is_file() and sha256(file) != expected}
    return sorted(found)


def _cache() -> Path:
    """DVC's cache, as set in .dvc/config.local or .dvc/config."""
    for name in ("config.local", "config"):
        config = configparser.ConfigParser(interpolation=None, strict=False)
        with contextlib.suppress(configparser.Error, UnicodeDecodeError):
            config.read(Path(".dvc") / name, encoding="utf-8")
        if config.has_option("cache", "dir"):
            return Path(".dvc") / config.get("cache", "dir")
    return Path(".dvc/cache")


def _md5(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "md5").hexdigest()


def clean_cache(folder: Path, largest: float = math.inf) -> set[str]:
    """Remove the files below `folder`/files/md5 whose MD5 is not their name; returns the MD5s that they had.

    largest: files of more bytes than this are skipped.
    """
    found = set()
    for path in (folder / "files/md5").glob("??/*"):
        if path.stat().st_size <= largest and _md5(path) != path.parent.name + path.name.removesuffix(".dir"):
            found.add(_md5(path))
            discard(path)
    return found


def main() -> None:
    found = damaged()
    bad = clean_cache(_cache(), math.inf if found else SMALL)
    if bad:
        files = [path for folder in paths.OUTPUTS for path in Path(folder).rglob("*") if path.is_file()]
        found = sorted({*found, *(path for path in files if _md5(path) in bad)})
    if found:
        discard(*found)
        raise InputError(
            f"{', '.join(map(str, found))}: other bytes than were written; removed, and {len(bad)} damaged files of "
            "DVC's cache with them: run make repro again"
        )
    if bad:
        print(f"{len(bad)} damaged files of DVC's cache removed; nothing here came out of them")


if __name__ == "__main__":
    sys.exit(guard(main))
