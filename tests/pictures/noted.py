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


def recorded_md5() -> str:
    """That of the recorded run's models."""
    lock = yaml.safe_load((ROOT / "dvc.lock").read_text("utf-8"))
    [md5] = [out["md5"] for out in lock["stages"]["train"]["outs"] if out["path"] == "models"]
    return md5


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
