"""The look of every picture: calm, and legible to colour-blind readers and in print."""

from __future__ import annotations

import warnings
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine, LayoutEngine, TightLayoutEngine

from cfopt.drawing.palette import LIGHT

FACTUAL, ALTERNATIVE, BAR = LIGHT["factual"], LIGHT["other"], LIGHT["soft"]
#: Decisions that stand in the way of the alternative.
OBSTACLES = (LIGHT["rival1"], LIGHT["rival2"])


class _Picture(Figure):
    """A figure in which a letter that no font has is drawn as a box, without a warning.

    It lays out its panels itself: a figure that leaves that to matplotlib is drawn twice when it is
    saved.

    Arguments:
        panels: puts the panels where they go.
        settings: those of a figure.
    """

    def __init__(self, panels: LayoutEngine, **settings: Any) -> None:
        super().__init__(**settings)
        self._panels = panels

    def draw(self, renderer: Any) -> None:
        """Draw it."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")
            self._panels.execute(self)
            super().draw(renderer)


def canvas(width: float, height: float, rect: tuple[float, float, float, float]) -> Figure:
    """An empty figure that belongs to no window; panels fill `rect`, the rest is for text."""
    panels = ConstrainedLayoutEngine(rect=rect)
    return _Picture(panels, figsize=(width, height), dpi=130, facecolor="white")


def row_of_panels(width: float, height: float, rect: tuple[float, float, float, float]) -> Figure:
    """The same for panels in one row, which are laid out in half the time: measured once."""
    left, bottom, across, up = rect
    panels = TightLayoutEngine(rect=(left, bottom, left + across, bottom + up))
    return _Picture(panels, figsize=(width, height), dpi=130, facecolor="white")
