"""The look of every picture: calm, and legible to colour-blind readers and in print."""

from __future__ import annotations

import warnings
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

#: Okabe and Ito's palette, which colour-blind readers can tell apart.
FACTUAL = "#0072B2"
ALTERNATIVE = "#D55E00"
#: Decisions that stand in the way of the alternative.
OBSTACLES = ("#009E73", "#CC79A7")
#: A decision that is neither of the two.
THIRD = "#222222"
QUIET = "#8A8A8A"
BAR = "#4D4D4D"
INK = "#222222"
#: Costs are grey, the darker the dearer, so that the two decisions keep the colours to themselves.
COSTS = LinearSegmentedColormap.from_list("costs", ["#F4F4F4", "#5E5E5E"])
#: How far a pixel moved; unlike the decisions and the terrain.
CHANGE = "#8E0152"
CHANGES = LinearSegmentedColormap.from_list("changes", ["#F4F4F4", CHANGE])
DASHED = (0, (2.2, 1.4))


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


def bare(axes: Axes) -> None:
    """Hide ticks and frame: for drawings rather than charts."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def chart(axes: Axes) -> None:
    """Keep only the frame's lower and left side: for charts."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
