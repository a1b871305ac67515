"""report/report.pdf: the sections of the page as a paper to hand in. The same run gives the same bytes.

paper.typ has the layout and reads the blocks as JSON, so that no text is ever read as markup.
"""

import dataclasses
import hashlib
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
import typst
from matplotlib.ft2font import FT2Font
from PIL import Image

from tinylm.report.blocks import Figure, Fold, Maps, Shaded
from tinylm.report.drawing import HEAT, INK, RULE, SOFT
from tinylm.report.heatmaps import NORM, SCALE
from tinylm.report.sections import Part
from tinylm.report.wording import percent, short, visible

CHAPTERS = (
    ("Method", ("data", "preprocessing", "model", "training")),
    (
        "Results",
        (
            "curves",
            "learns",
            "evaluation",
            "seeds",
            "samples",
            "sense",
            "pairs",
            "memorised",
            "beams",
            "cache",
            "accumulation",
            "checkpointing",
            "enhancements",
            "attention",
        ),
    ),
    ("Discussion", ("conclusions",)),
    ("Appendix", ("budget", "settings", "literature")),
)
_TEMPLATE = Path(__file__).with_name("paper.typ")
_WARN = "#8a4b08"
_OPACITY = 0.62  # of the background of a token whose probability is 1
_PIXELS = 6  # per side of one weight, so that no viewer blurs a map


def build_paper(
    parts: Sequence[Part],
    title: str,
    subtitle: str,
    pngs: Mapping[str, bytes],
    *,
    byline: Sequence[str] = (),
    dense: bool = False,
    form: Literal["pdf", "png"] = "pdf",
) -> bytes | list[bytes]:
    """The whole paper; `pngs` has the pictures by name (drawing.to_png). As "png": one image per page.

    byline: the lines under the title; dense: smaller type, and no table of contents.
    """
    by_anchor = {part.anchor: part for part in parts}
    chapters = [
        (name, [by_anchor[anchor] for anchor in anchors if anchor in by_anchor])
        for name, anchors in CHAPTERS
    ]
    report = {
        "title": title,
        "subtitle": subtitle,
        "byline": list(byline),
        "dense": dense,
        "colours": [INK, SOFT, RULE, HEAT, _WARN],
        "summary": by_anchor["summary"].blocks if "summary" in by_anchor else [],
        "chapters": [
            (name, [(part.title, part.blocks) for part in written])
            for name, written in chapters
            if written
        ],
    }
    images = dict(pngs)
    read = json.dumps(_plain(report, images))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for image, png in images.items():
            (folder / f"{image}.png").write_bytes(png)
        (folder / "report.json").write_text(read, encoding="utf-8")
        source = folder / _TEMPLATE.name
        source.write_bytes(_TEMPLATE.read_bytes())
        # no clock, so that the same run gives the same bytes; no tags, which would double the file's size
        return typst.compile(
            source,
            root=folder,
            font_paths=[_fonts()],
            ignore_system_fonts=True,
            format=form,
            timestamp=0,
            pdf_tags=False,
        )


def _plain(value: Any, images: dict[str, bytes]) -> Any:
    """A value in JSON types. Maps are added to the images; figures without an image are left out."""
    match value:
        case str():
            return shown(value)
        case list() | tuple() | set() | frozenset():
            return [_plain(item, images) for item in value if _is_printed(item, images)]
        case dict():
            return {key: _plain(item, images) for key, item in value.items()}
        case Maps():
            panels = [(title, _map(weights, images)) for title, weights in value.panels]
            return {
                "type": "Maps",
                "words": [shown(short(word)) for word in value.words],
                "panels": _plain(panels, images),
            }
        case Shaded():
            tokens = [
                (token, percent(share), _OPACITY * max(share, 0.0) ** 0.5)
                for token, share in value.tokens
            ]
            return {
                "type": "Shaded",
                "prompt": shown(value.prompt),
                "tokens": _plain(tokens, images),
            }
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {"type": type(value).__name__} | {
            name: _plain(getattr(value, name), images) for name in names
        }
    return value


def _is_printed(item: Any, images: dict[str, bytes]) -> bool:
    if isinstance(item, Figure):
        return item.name in images
    return not isinstance(item, Fold) or item.on_paper


def _map(weights: np.ndarray, images: dict[str, bytes]) -> str:
    """The name of a map's image in the page's colours on white."""
    colours = SCALE(NORM(weights))  # (T, T, 4)
    opacity = colours[..., 3:]
    pixels = (255 * (colours[..., :3] * opacity + 1 - opacity)).round().astype(np.uint8)
    target = io.BytesIO()
    Image.fromarray(np.kron(pixels, np.ones((_PIXELS, _PIXELS, 1), dtype=np.uint8))).save(
        target, "PNG"
    )
    name = f"map-{hashlib.md5(target.getvalue()).hexdigest()}"
    images[name] = target.getvalue()
    return name


def _fonts() -> Path:
    """Matplotlib ships DejaVu and typst the serif font, so nothing has to be downloaded or installed."""
    return Path(matplotlib.get_data_path()) / "fonts/ttf"


@cache
def _characters() -> frozenset[int]:
    return frozenset(FT2Font(str(_fonts() / "DejaVuSans.ttf")).get_charmap())


def shown(text: str) -> str:
    """Text with ⟨U+XXXX⟩ for each character that the fonts lack."""
    return "".join(
        character
        if ord(character) in _characters() or character == "\n"
        else f"⟨U+{ord(character):04X}⟩"
        for character in visible(text)
    )
