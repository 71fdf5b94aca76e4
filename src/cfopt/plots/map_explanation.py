"""The picture of one explanation of a map: maps, costs and paths before and after, what changed."""

from __future__ import annotations

import math
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cfopt.drawing.mpl import (
    CHANGES,
    COSTS,
    DASHED,
    INK,
    QUIET,
    bare,
    draw_costs,
    draw_image,
    draw_routes,
    end_mark,
)
from cfopt.drawing.palette import LIGHT
from cfopt.drawing.panel import (
    chosen_elsewhere,
    host,
    marks,
    price_range,
    prices,
    winner_first,
)
from cfopt.drawing.pixels import change_over_map, change_size, pixels
from cfopt.drawing.redrawn import origin_of
from cfopt.engine.latent import norms
from cfopt.exact.certificate import Clash
from cfopt.plots.common import (
    height_ratio,
    map_scene,
    obstacle_title,
    obstacles,
    other_name,
    reasons,
    value_verb,
    verdict,
)
from cfopt.plots.style import canvas
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status
from cfopt.result.wording import question

#: How wide a figure and a panel are, and how high the titles of the panels, in inches.
_WIDTH, _PANEL, _TITLES = 12.0, 3.68, 1.05


def draw_map_explanation(e: Explanation) -> Figure:
    """Maps above, predicted costs below, before and after; on the right what changed."""
    scene = map_scene(e, "plot")
    figure = _headed(e)
    (before, after, change), (cost_before, cost_after, key) = figure.subplots(2, 3)
    factual, other = marks(e)
    paths, paths_after = [factual, other], winner_first(e)
    price_before, price_after = prices(e, "costs_before"), prices(e, "costs")
    clash = e.clash[0]
    if clash is not None:
        paths_after, price_after = obstacles(clash) or paths, price_before
    scale = Normalize(*price_range([price_before, price_after]))

    draw_image(before, scene, pixels(e.x0[0]))
    draw_routes(before, scene, *paths)
    _title(before, f"Before: {values(e, 'costs_before')}")
    draw_costs(cost_before, scene, price_before, scale)
    draw_routes(cost_before, scene, *paths)
    _title(cost_before, "Predicted costs before")

    draw_image(after, scene, pixels(e.x[0] if clash is None else e.x0[0]))
    draw_routes(after, scene, *paths_after)
    draw_costs(cost_after, scene, price_after, scale)
    draw_routes(cost_after, scene, *paths_after)
    if clash is None:
        _title(after, f"{_after_title(e)}: {values(e, 'costs')}")
        _title(cost_after, "Predicted costs after")
        _draw_change(e, change)
    else:
        _title(after, obstacle_title(len(clash.decisions)))
        _title(cost_after, "Predicted costs, the same")
        reasons(change, clash)
    key.set_box_aspect(scene.size[0] / scene.size[1])
    _draw_key(key, _handles(e, clash), scale)
    return figure


def legend_handles(e: Explanation, *extra: tuple[str, str]) -> list[Line2D]:
    """What lines and signs of a picture stand for; `extra` are roles of more paths, and names."""
    factual, other = marks(e)
    named = [(factual.role, "the decision"), (other.role, other_name(e)), *extra]
    lines = [Line2D([], [], color=LIGHT[role], linewidth=4, label=name) for role, name in named]
    thin = Line2D([], [], color=QUIET, linewidth=2, linestyle=DASHED, label="for comparison")
    return [*lines, thin, end_mark("o", 8, label="start"), end_mark("s", 8, label="goal")]


def values(e: Explanation, name: str) -> str:
    """What both paths are worth at `costs_before` or `costs`, on two lines."""
    worth = [float(prices(e, name) @ mark.decision) for mark in marks(e)]
    return (
        f"the decision {value_verb(e)} {digits(worth[0])},\n"
        f"{other_name(e)} {value_verb(e)} {digits(worth[1])}"
    )


def digits(value: float) -> str:
    """A value with four digits, as neighbouring paths differ little; "?" if it is not known."""
    return f"{value:#.4g}".rstrip(".") if math.isfinite(value) else "?"


def note(e: Explanation) -> str:
    """How far the map moved and, of a latent explanation, how plausible the code is."""
    if e.status[0] is Status.PROVED_INFEASIBLE:
        return ""
    text = f"Distance {e.distance[0]:.3g}"
    if e.latent is None:
        return f"{text}."
    where = "in" if e.in_sphere()[0] else "outside"
    size = float(norms(e.latent.z)[0])
    return f"{text}; the code, of norm {size:.3g}, lies {where} the typical sphere."


def _headed(e: Explanation) -> Figure:
    """An empty figure with question, verdict and note; the panels get the rest."""
    lines = fill(verdict(e), 150, max_lines=3, placeholder=" ...")
    top = 0.55 + 0.19 * (1 + lines.count("\n")) + (0.2 if note(e) else 0.0)
    height = top + 2 * _PANEL * height_ratio(map_scene(e, "plot")) + _TITLES
    figure = canvas(_WIDTH, height, rect=(0.01, 0.01, 0.98, 0.99 - top / height))
    asked = question(e.criterion, e.margin)
    texts: list[tuple[str, float, dict[str, Any]]] = [
        (asked, 0.13, {"fontsize": 14, "fontweight": "bold", "color": INK}),
        (lines, 0.42, {"fontsize": 10, "color": INK, "linespacing": 1.3}),
        (note(e), top - 0.3, {"fontsize": 9, "color": LIGHT["soft"]}),
    ]
    for text, inches, style in texts:
        figure.text(0.018, 1 - inches / height, text, va="top", **style)
    return figure


def _after_title(e: Explanation) -> str:
    if e.status[0] is Status.ALREADY_VALID:
        return "After, unchanged"
    return "After" if e.answered[0] else "At the nearest miss"


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, fontsize=10, color=INK)


def _draw_change(e: Explanation, axes: Axes) -> None:
    """How far each pixel moved, over a pale map, with thin paths to find the place."""
    scene, origin = map_scene(e, "plot"), origin_of(e)
    largest = float(change_size(origin.context, e.x[0]).max())
    draw_image(axes, scene, change_over_map(origin.context, e.x[0], largest or 1.0))
    draw_routes(axes, scene, *winner_first(e), size=0.5)
    if not largest > 0:
        _title(axes, "Nothing changed")
        return
    what = (
        "Changes beside what the model alone makes" if origin.redrawn else "Where the map changed"
    )
    _title(axes, f"{what}:\nby up to {100 * largest:.2g}% of a colour's range")
    bar = axes.inset_axes((1.03, 0.0, 0.04, 1.0))
    _draw_bar(bar, ScalarMappable(Normalize(0, largest), CHANGES))


def _draw_bar(axes: Axes, scale: ScalarMappable) -> None:
    bar = axes.figure.colorbar(scale, cax=axes)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=INK, length=2)
    bar.ax.locator_params(nbins=5)


def _handles(e: Explanation, clash: Clash | None) -> list[Line2D]:
    """What each line and sign stands for."""
    if clash is not None:
        letters = zip("AB", obstacles(clash), strict=False)
        return legend_handles(e, *((m.role, f"{letter}, in its way") for letter, m in letters))
    if not chosen_elsewhere(e):
        return legend_handles(e)
    worth = float(prices(e, "costs") @ host(e.decision[0]))
    return legend_handles(e, ("third", f"what is chosen after, {value_verb(e)} {digits(worth)}"))


def _draw_key(axes: Axes, handles: list[Line2D], scale: Normalize) -> None:
    """The scale of the costs, beside them, and the legend."""
    bare(axes)
    bar = axes.inset_axes((0.0, 0.0, 0.04, 1.0))
    _draw_bar(bar, ScalarMappable(scale, COSTS))
    bar.set_ylabel("predicted cost of a cell", fontsize=9, color=INK)
    axes.legend(
        handles=handles,
        bbox_to_anchor=(0.2, 1.0),
        loc="upper left",
        frameon=False,
        fontsize=10,
        labelcolor=INK,
        handlelength=2.4,
        labelspacing=0.9,
    )
