"""The run that a picture is of: the md5 of its models, which dvc.lock records and the picture's file notes."""

import hashlib
import io
import json
import re
from pathlib import Path

import yaml
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.support.size import ROOT
from tinylm.base import paths
from tinylm.base.config import InputError

PICTURES = ROOT / "docs/pictures"
KEY = "models"


def models_md5(folder: Path) -> str:
    """The md5 of a folder as DVC computes it: that of the list of its files and their md5s."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    listed = [
        {"md5": hashlib.md5(path.read_bytes()).hexdigest(), "relpath": name}
        for name, path in sorted(files.items())
        if path.is_file()
    ]
    return hashlib.md5(json.dumps(listed).encode()).hexdigest() + ".dir"


def recorded_md5(lock: Path = ROOT / "dvc.lock", stage: str = "train", part: str = "outs") -> str:
    """That of the models which a stage wrote, or read (part "deps"), when it last ran."""
    stages = yaml.safe_load(lock.read_text("utf-8"))["stages"]
    [md5] = [file["md5"] for file in stages[stage][part] if file["path"] == paths.MODELS]
    return md5


def finished_run(folder: Path) -> str:
    """The md5 of this folder's models. Raises InputError if the report, and so its charts, is of other models."""
    run = models_md5(folder / paths.MODELS)
    reported = recorded_md5(folder / "dvc.lock", "report", "deps")
    if run != reported:
        raise InputError(
            f"expected a report of the models {run}, got one of {reported}: run make repro"
        )
    return run


def noted_in(picture: Path) -> str | None:
    """What a picture notes; None without a note."""
    if picture.suffix == ".png":
        with Image.open(picture) as image:
            return image.info.get(KEY)
    found = re.search(f"<metadata>{KEY} (.*)</metadata>", picture.read_text("utf-8"))
    return found and found[1]


def svg_note(run: str) -> str:
    """The note as an element of SVG, which no viewer shows."""
    return f"<metadata>{KEY} {run}</metadata>"


def with_note(png: bytes, run: str) -> bytes:
    """The PNG picture with the note as a text of its file."""
    note = PngInfo()
    note.add_text(KEY, run)
    target = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").save(target, "PNG", optimize=True, pnginfo=note)
    return target.getvalue()
