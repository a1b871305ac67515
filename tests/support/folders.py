"""What a folder holds."""

from pathlib import Path


def contents(folder: Path, pattern: str = "*") -> dict[str, bytes]:
    """{path below the folder: bytes} of all files, sorted."""
    paths = [path for path in sorted(folder.rglob(pattern)) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
