"""The look of every picture: calm, and legible to colour-blind readers and in print."""

from __future__ import annotations

import warnings
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from cfopt.drawing.palette import LIGHT

FACTUAL, ALTERNATIVE, BAR = LIGHT["factual"], LIGHT["other"], LIGHT["soft"]
#: Decisions that stand in the way of the alternative.
OBSTACLES = (LIGHT["rival1"], LIGHT["rival2"])


class _Picture(Figure):
    """A figure in which a letter that no font has is drawn as a box, without a warning."""

    def draw(self, renderer: Any) -> None:
        """Draw it."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")
            super().draw(renderer)


def canvas(width: float, height: float, rect: tuple[float, float, float, float]) -> Figure:
    """An empty figure that belongs to no window; panels fill `rect`, the rest is for text."""
    layout = ConstrainedLayoutEngine(rect=rect)
    return _Picture(figsize=(width, height), layout=layout, dpi=130, facecolor="white")
