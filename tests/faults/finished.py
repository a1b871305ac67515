"""What stages leave under final names, and whether it is whole."""

import json
import os
from pathlib import Path

import yaml

from tests.support.stages import ROOT, is_measured
from tinylm.base.files import sha256

FOLDERS = ("data", "models", "metrics", "plots", "report")
LAST_BYTES = {
    ".json": b"\n",
    ".csv": b"\n",
    ".md": b"\n",
    ".html": b"</html>\n",
    ".svg": b"</svg>\n",
    ".pdf": b"%%EOF",
}


def tree(folder: Path) -> dict[str, Path]:
    """Every file below the folder, by its path there; links to the code are not followed."""
    paths = (Path(top) / name for top, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): path for path in paths if not path.is_symlink()}


def outs(name: str) -> list[str]:
    """What DVC removes before it starts the stage."""
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text("utf-8"))["stages"][name]
    entries = [entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])]
    return [entry if isinstance(entry, str) else next(iter(entry)) for entry in entries]


def finished(folder: Path) -> dict[str, Path]:
    """The files under final names in the folders of the pipeline."""
    found = {name: path for name, path in tree(folder).items() if name.split("/")[0] in FOLDERS}
    return {name: path for name, path in found.items() if not path.name.startswith(".")}


def sums(folder: Path) -> dict[str, str]:
    return {name: sha256(path) for name, path in finished(folder).items()}


def temporary(folder: Path) -> list[str]:
    return [name for name in tree(folder) if ".tmp" in name]


def whole(path: Path, name: str, expected: dict[str, str]) -> bool:
    """Whether a file is what the undisturbed run left; where it tells of time, whether nothing is cut off."""
    if not is_measured(name):
        return sha256(path) == expected.get(name)
    if path.suffix == ".json":
        json.loads(path.read_text("utf-8"))
    return path.read_bytes().endswith(LAST_BYTES[path.suffix])
