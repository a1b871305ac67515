"""Attention maps on paper: those of one layer, or of one head over training, in rows with words at the edges."""

import math

import numpy as np
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.platypus import Flowable, Paragraph

from tinylm.reporting.blocks import Maps
from tinylm.reporting.heatmaps import NORM, SCALE
from tinylm.reporting.paper_style import RULE_COLOUR, SANS, SOFT_COLOUR, STYLES, bare, text, width_of
from tinylm.reporting.wording import short

_CELL_MOST, _CELL_LEAST = 9.0, 4.0  # side of one weight, in points
_SIDE = 130.0  # of a map, at most: four rows a page
_GAP, _HIGHEST = 8.0, 200.0
_LETTERS, _EDGE = STYLES["map_title"].fontSize, 4.0  # size of a word at the edge, at most; its distance
_PIXELS = 6  # a side of one weight: no viewer blurs it


class MapRow(Flowable):
    """Maps (T, T) over the same words beside each other, each under its title; words left and on top."""

    def __init__(self, block: Maps, first: int, last: int, cell: float, margin: float):
        super().__init__()
        self._words = [bare(short(word)) for word in block.words]
        self._panels, self._cell, self._margin = block.panels[first:last], cell, margin
        self._side = cell * len(block.words)
        self._titles = [Paragraph(text(title), STYLES["map_title"]) for title, _ in self._panels]
        highest = max(title.wrap(self._side, _HIGHEST)[1] for title in self._titles)
        self.width = margin + len(self._panels) * (self._side + _GAP)
        self.height = self._side + margin + highest + 8

    def wrap(self, width: float, height: float) -> tuple[float, float]:
        """Room that it takes."""
        return self.width, self.height

    def draw(self) -> None:
        """Called by reportlab with the origin at the lower left."""
        for number, (title, (_, weights)) in enumerate(zip(self._titles, self._panels)):
            x = self._margin + number * (self._side + _GAP)
            self.canv.drawImage(ImageReader(_pixels(weights)), x, 6, self._side, self._side)
            self.canv.setStrokeColor(RULE_COLOUR)
            self.canv.setLineWidth(0.4)
            self.canv.rect(x, 6, self._side, self._side)
            self._label(x, number == 0)
            title.drawOn(self.canv, x, 6 + self._side + self._margin)

    def _label(self, x: float, first: bool) -> None:
        self.canv.setFont(SANS, min(self._cell, _LETTERS))
        self.canv.setFillColor(SOFT_COLOUR)
        for number, word in enumerate(self._words):
            middle = self._cell * (number + 0.5)
            if first:
                self.canv.drawRightString(x - 2, 6 + self._side - middle - self._cell * 0.3, word)
            self.canv.saveState()
            self.canv.translate(x + middle + self._cell * 0.3, 6 + self._side + 2)
            self.canv.rotate(90)
            self.canv.drawString(0, 0, word)
            self.canv.restoreState()


def map_rows(block: Maps, width: float) -> list[Flowable]:
    """As few rows as leave a weight room enough, of about the same number of maps each."""
    tokens, number = len(block.words), len(block.panels)
    if not tokens or not number:
        return []
    longest = max(width_of(bare(short(word)), STYLES["map_title"]) for word in block.words)
    for rows in range(1, number + 1):
        columns = math.ceil(number / rows)
        cell = (width - columns * _GAP - _EDGE) / (columns * tokens + longest / _LETTERS)
        if cell >= _CELL_LEAST:
            break
    cell = min(cell, _CELL_MOST, max(_CELL_LEAST, _SIDE / tokens))
    margin = longest * min(cell, _LETTERS) / _LETTERS + _EDGE
    return [MapRow(block, first, first + columns, cell, margin) for first in range(0, number, columns)]


def _pixels(weights: np.ndarray) -> Image.Image:
    """The map in the page's colours on white."""
    colours = SCALE(NORM(weights))  # (T, T, 4)
    opacity = colours[..., 3:]
    white = colours[..., :3] * opacity + 1 - opacity
    pixels = np.kron((255 * white).round().astype(np.uint8), np.ones((_PIXELS, _PIXELS, 1), dtype=np.uint8))
    return Image.fromarray(pixels, "RGB")
