"""The look of every picture: calm, and legible to colour-blind readers and in print."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Okabe and Ito's palette, which colour-blind readers can tell apart.
TAKEN = "#0072B2"
OTHER = "#D55E00"
QUIET = "#8A8A8A"
INK = "#222222"
COSTS = "YlGnBu"


def canvas(width: float, height: float) -> Figure:
    """An empty figure that belongs to no window and leaves pyplot's state alone."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=130)
    figure.set_facecolor("white")
    return figure


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
