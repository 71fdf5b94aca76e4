"""Many explanations of maps on one page."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib.figure import Figure

from cfopt.drawing.mpl import INK, draw_image, draw_routes
from cfopt.drawing.panel import chosen_elsewhere, marks, winner_first
from cfopt.drawing.pixels import pixels
from cfopt.errors import InputError
from cfopt.plots.common import caption, finish, height_ratio, map_scene, refuse_rejected
from cfopt.plots.map_explanation import legend_handles, values
from cfopt.plots.style import canvas
from cfopt.result.explanation import Explanation
from cfopt.result.wording import question

#: How many rows fit on a page.
_MOST = 24
#: The side of a map with its caption, and what the heading takes, in inches.
_PANEL, _CAPTION, _HEADING = 2.75, 0.75, 0.45


def plot_gallery(explanations: Explanation, path: str | Path | None = None) -> Figure:
    """For each row the map before and after, side by side with the path that wins there.

    Arguments:
        explanations: up to 24 rows; up to 8 are easy to read.
        path: where to save the picture (PNG, SVG or PDF), if anywhere.
    """
    e = explanations
    scene = map_scene(e, "plot_gallery")
    if not 1 <= len(e) <= _MOST:
        raise InputError(f"plot_gallery needs 1 to {_MOST} rows, got {len(e)}. Pick some: e[:8].")
    refuse_rejected(e)
    pairs = 1 if len(e) <= 3 else 2
    lines = math.ceil(len(e) / pairs)
    width = 2 * pairs * _PANEL + 0.3
    below = 0.4 if pairs == 2 else 0.62
    height = lines * (_PANEL * height_ratio(scene) + _CAPTION) + _HEADING + below
    rect = (0.01, below / height, 0.98, 1 - (_HEADING + below) / height)
    figure = canvas(width, height, rect=rect)
    # A narrow empty column keeps one pair apart from the next.
    grid = figure.add_gridspec(
        lines, 3 * pairs - 1, width_ratios=[1, 1, 0.05, 1, 1][: 3 * pairs - 1]
    )
    asked = question(e.criterion, e.margin)
    top = 1 - 0.2 / height
    figure.text(0.02, top, asked, fontsize=13, fontweight="bold", color=INK, va="top")
    for row in range(len(e)):
        line, pair = divmod(row, pairs)
        before, after = (figure.add_subplot(grid[line, 3 * pair + side]) for side in (0, 1))
        one = e[row]
        draw_image(before, scene, pixels(one.x0[0]))
        draw_routes(before, scene, *marks(one), size=0.75)
        caption(before, f"Row {e.label(row)}, before", values(one, "costs_before"), 10)
        draw_image(after, scene, pixels(one.x[0]))
        draw_routes(after, scene, *winner_first(one), size=0.75)
        how_far = f"After: {one.status[0]}, distance {one.distance[0]:.3g}"
        caption(after, how_far, values(one, "costs"), 10)
    third = any(chosen_elsewhere(e[row]) for row in range(len(e)))
    handles = legend_handles(e, *([("third", "what is chosen after")] if third else []))
    figure.legend(handles=handles, loc="lower left", ncols=3 * pairs, frameon=False, fontsize=10)
    return finish(figure, path)
