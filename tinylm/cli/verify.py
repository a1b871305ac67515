"""Look at the bytes that `dvc repro` left, some of them out of DVC's cache; `make repro` does so behind it.

DVC does not look at what it restores from its cache: where a file there has changed, `dvc repro` ends well, with other
bytes, and enters them in dvc.lock. What stages write carries its SHA-256, which is looked at here. Where one differs,
the file goes, and with it everything in the cache that is not what its name, an MD5, says: DVC then makes it anew.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from tinylm.command import guard
from tinylm.config import InputError
from tinylm.files import SUMS, discard, read_json, sha256

FOLDERS = ("data", "models")
STORE = ("ids", "offsets")  # files of a token store, whose sums stand in its JSON


def _sums(path: Path) -> dict[Path, str]:
    """File -> SHA-256, of those that the JSON file `path` answers for. Raises InputError where it is damaged itself."""
    held = read_json(path)
    if not isinstance(held, dict):
        return {}
    if path.name == SUMS:
        return {path.with_name(name): str(expected) for name, expected in held.items()}
    return {path.with_suffix(f".{kind}"): held[f"{kind}_sha256"] for kind in STORE if f"{kind}_sha256" in held}


def damaged() -> list[Path]:
    """Files of ours in data/ and models/ that have other bytes than they were written with."""
    found = set()
    for path in sorted(path for folder in FOLDERS for path in Path(folder).glob("**/*.json")):
        try:
            sums = _sums(path)
        except InputError:
            found.add(path)
            continue
        found |= {file for file, expected in sums.items() if file.is_file() and sha256(file) != expected}
    return sorted(found)


def clean_cache(folder: Path) -> int:
    """Remove the files below `folder`/files/md5 whose MD5 is not their name; how many there were."""
    count = 0
    for path in (folder / "files/md5").glob("??/*"):
        with open(path, "rb") as handle:
            found = hashlib.file_digest(handle, "md5").hexdigest()
        if found != path.parent.name + path.name.removesuffix(".dir"):
            discard(path)
            count += 1
    return count


def main() -> None:
    found = damaged()
    if not found:
        return
    words = [sys.executable, "-m", "dvc", "cache", "dir"]
    told = subprocess.run(words, capture_output=True, text=True, encoding="utf-8")
    count = clean_cache(Path(told.stdout.strip())) if told.returncode == 0 else 0
    discard(*found)
    raise InputError(
        f"{', '.join(map(str, found))}: other bytes than were written; removed, and {count} damaged files of DVC's "
        "cache with them: run make repro again"
    )


if __name__ == "__main__":
    sys.exit(guard(main))
