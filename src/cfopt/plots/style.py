"""The look of every picture: calm, and legible to colour-blind readers and in print."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from cfopt.drawing.palette import LIGHT
from cfopt.plots.canvas import Canvas

FACTUAL, ALTERNATIVE, BAR = LIGHT["factual"], LIGHT["other"], LIGHT["soft"]
#: Decisions that stand in the way of the alternative.
OBSTACLES = (LIGHT["rival1"], LIGHT["rival2"])
#: Left, bottom, width and height, as fractions of a figure.
Rect: TypeAlias = tuple[float, float, float, float]
#: What is left free around panels, in inches: a little more than a letter.
_FREE = 0.15


class _Picture(Figure):
    """A figure in which a letter that no font has is drawn as a box, without a warning.

    It lays out its panels itself: a figure that leaves that to matplotlib is drawn twice when it is
    saved.

    Arguments:
        lay_out: puts the panels where they go, given the figure and what it is drawn with.
        settings: those of a figure.
    """

    def __init__(self, lay_out: Callable[[Figure, Any], None], **settings: Any) -> None:
        super().__init__(**settings)
        self._lay_out = lay_out

    def draw(self, renderer: Any) -> None:
        """Draw it."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")
            self._lay_out(self, renderer)
            super().draw(renderer)


def canvas(width: float, height: float, rect: Rect) -> Figure:
    """An empty figure that belongs to no window; panels fill `rect`, the rest is for text."""
    engine = ConstrainedLayoutEngine(rect=rect)
    return _picture(width, height, lambda figure, _: engine.execute(figure))


def row_of_panels(width: float, height: float, rect: Rect) -> Figure:
    """The same for panels in one row, whose surroundings are measured only once."""
    return _picture(width, height, lambda figure, renderer: _lay_in_row(figure, rect, renderer))


def _picture(width: float, height: float, lay_out: Callable[[Figure, Any], None]) -> Figure:
    figure = _Picture(lay_out, figsize=(width, height), dpi=130, facecolor="white")
    Canvas(figure)
    return figure


def _lay_in_row(figure: Figure, rect: Rect, renderer: Any) -> None:
    """Panels side by side within `rect`, with room for what is written around each.

    That is measured once: it does not depend on where the panels are.
    """
    to_fractions, (across, up) = figure.transFigure.inverted(), figure.get_size_inches()
    around = []
    for axes in figure.axes:
        panel = axes.get_position(original=True)
        whole = axes.get_tightbbox(renderer, for_layout_only=True)
        assert whole is not None  # all panels are shown
        whole = whole.transformed(to_fractions)
        around.append(
            (panel.x0 - whole.x0, panel.y0 - whole.y0, whole.x1 - panel.x1, whole.y1 - panel.y1)
        )
    lefts, bottoms, rights, tops = zip(*around, strict=True)
    aside, above, gaps = _FREE / across, _FREE / up, len(around) - 1
    left = rect[0] + aside + max(lefts[0], 0.0)
    right = rect[0] + rect[2] - aside - max(rights[-1], 0.0)
    gap = aside + max(map(sum, zip(rights[:-1], lefts[1:], strict=True)), default=0.0)
    figure.subplots_adjust(
        left=left,
        right=right,
        bottom=rect[1] + above + max(*bottoms, 0.0),
        top=rect[1] + rect[3] - above - max(*tops, 0.0),
        wspace=gap * len(around) / (right - left - gap * gaps),
    )
