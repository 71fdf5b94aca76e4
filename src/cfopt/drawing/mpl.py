"""Scenes drawn with matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from cfopt._typing import Array
from cfopt.drawing.elements import readable
from cfopt.drawing.palette import CHANGE, LIGHT, SHADES
from cfopt.drawing.panel import Line, Panel
from cfopt.problems.cells import Cells
from cfopt.problems.network_scene import Network

INK = LIGHT["ink"]
QUIET = LIGHT["edge"]
COSTS = LinearSegmentedColormap.from_list("costs", SHADES)
CHANGES = LinearSegmentedColormap.from_list("changes", [SHADES[0], CHANGE])
DASHED = (0, (2.2, 1.4))
_ROUND: dict[str, Any] = {"solid_capstyle": "round", "solid_joinstyle": "round"}
#: How many points a bent arc is drawn with; the size of names and the side of a panel, in points.
_BENT, _FONT, _PANEL = 9, 7.5, 220


def draw(axes: Axes, panel: Panel) -> None:
    """A picture of any scene."""
    scene = panel.scene
    if isinstance(scene, Network):
        _draw_network(axes, panel, scene)
    elif isinstance(scene, Cells):
        draw_costs(axes, scene, panel.prices, Normalize(panel.low, panel.high))
        draw_routes(axes, scene, *panel.lines)
    elif panel.items:
        _draw_items(axes, panel)
    else:
        _draw_entries(axes, panel)


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


def _draw_entries(axes: Axes, panel: Panel) -> None:
    """The entries in which two decisions differ, and their prices."""
    order, names = panel.columns, panel.scene.names
    at = np.arange(len(order))
    axes.barh(at - 0.2, panel.strong.decision[order], height=0.38, color=LIGHT[panel.strong.role])
    edge = LIGHT[panel.beside.role]
    axes.barh(at + 0.2, panel.beside.decision[order], height=0.3, fill=False, edgecolor=edge)
    axes.set_yticks(at, [f"{names[j]} at {panel.prices[j]:.3g}" for j in order])
    axes.set_ylim(max(len(at), 5) - 0.5, -0.5)
    axes.set_xlabel("value in the decision", fontsize=8)
    chart(axes)


def _draw_items(axes: Axes, panel: Panel) -> None:
    """Items by price, those of the foreground filled, those of the other decision outlined."""
    count = len(panel.prices)
    at, taken = np.arange(count), panel.strong.decision > 0.5
    colors = np.where(taken, LIGHT[panel.strong.role], LIGHT["c1"]).tolist()
    axes.barh(at, panel.prices, color=colors, height=0.72)
    other, edge = np.flatnonzero(panel.beside.decision > 0.5), LIGHT[panel.beside.role]
    axes.barh(other, panel.prices[other], height=0.72, fill=False, edgecolor=edge, linewidth=1.8)
    axes.set_xlim(1.05 * min(0.0, panel.low), 1.05 * max(0.0, panel.high))
    axes.set_yticks(at, panel.scene.names, fontsize=7 if count <= 24 else 4)
    axes.invert_yaxis()
    note = panel.scene.note(panel.strong.decision)
    axes.set_xlabel(f"value; the filled {panel.scene.noun} {note}" if note else "value", fontsize=8)
    chart(axes)


def _draw_network(axes: Axes, panel: Panel, scene: Network) -> None:
    """Arcs coloured by cost, with the decisions on top."""
    places = np.array(scene.positions) * [1, -1]
    across, down = np.ptp(places, axis=0)
    size = max(across, down) + 1
    width = min(10.0, 48 / size) * (1.0 if scene.has_broad_arcs else 0.6)
    arcs = [_arc(scene, k) for k in range(len(scene.arcs))]
    scale = Normalize(panel.low, panel.high)
    costs = LineCollection(arcs, cmap=COSTS, norm=scale, linewidths=width, zorder=1)
    costs.set_array(panel.prices)
    axes.add_collection(costs)
    if scene.arrows:
        _draw_arrows(axes, arcs, 0.9 * width)
    for k, line in enumerate(panel.lines):
        chosen = [arcs[j] for j in np.flatnonzero(line.decision > 0.5)]
        style: dict[str, Any] = {"linewidths": max(1.0, 0.25 * width), "linestyles": [DASHED]}
        if k == 0:
            style = {"linewidths": max(1.6, 0.5 * width), "capstyle": "round"}
        axes.add_collection(
            LineCollection(chosen, colors=LIGHT[line.role], zorder=2 + min(k, 1), **style)
        )
    dot = 0.55 * min(10.0, 48 / size)
    axes.plot(*places.T, "o", color="white", markeredgecolor=QUIET, markersize=dot, zorder=4)
    ends = [end for end in (scene.start, scene.goal) if end is not None]
    axes.plot(*places[ends].T, "o", color=INK, markersize=1.4 * dot, zorder=5)
    if scene.lattice is None:
        _name_places(axes, scene, places)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.margins(0.08)
    axes.set_axis_off()  # rather than bare: that would make ticks in order to remove them


def _arc(scene: Network, k: int) -> Array:
    """The points of an arc, `(p, 2)`, y upwards."""
    start, end = (np.array(scene.positions[place]) for place in scene.arcs[k])
    if not scene.bends[k]:
        return np.array([start, end]) * [1, -1]
    along = end - start
    right = np.array([-along[1], along[0]]) / (np.hypot(*along) or 1.0)
    fraction = np.linspace(0, 1, _BENT)[:, None]
    aside = 4 * fraction * (1 - fraction) * scene.bends[k]
    points: Array = start + fraction * along + aside * right
    return points * [1, -1]


def _draw_arrows(axes: Axes, arcs: list[Array], size: float) -> None:
    for points in arcs:
        middle, half = len(points) // 2, (points[0] + points[-1]) / 2
        tip = half if len(points) == 2 else points[middle]
        step = 0.05 * (points[-1] - points[0])
        arrow = {"arrowstyle": "-|>", "color": QUIET, "lw": 0, "mutation_scale": 1.6 * size}
        axes.annotate("", tip + step, tip - step, arrowprops=arrow, zorder=1.5)


def _name_places(axes: Axes, scene: Network, places: Array) -> None:
    halo = [withStroke(linewidth=2, foreground="white")]
    above: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
    above |= {"fontsize": _FONT, "color": INK, "zorder": 6, "path_effects": halo}
    for k in readable(scene, _PANEL / np.ptp(places, axis=0).max(initial=1.0), _FONT):
        axes.annotate(scene.places[k], places[k], **above)


def draw_image(axes: Axes, scene: Cells, image: Array) -> None:
    """An image `(H, W, 3)` in [0, 1], in the coordinates of the cells: x is a column, y a row."""
    rows, cols = scene.size
    extent = (-0.5, cols - 0.5, rows - 0.5, -0.5)
    axes.imshow(image, extent=extent, interpolation="nearest", vmin=0, vmax=1)
    bare(axes)


def draw_costs(axes: Axes, scene: Cells, prices: Array, scale: Normalize) -> None:
    """Cells coloured by cost: `(m,)`."""
    cells = prices.reshape(scene.size)
    axes.imshow(cells, cmap=COSTS, norm=scale, interpolation="nearest")
    bare(axes)


def draw_routes(axes: Axes, scene: Cells, strong: Line, *weak: Line, size: float = 1.0) -> None:
    """Paths on a map, one in the foreground and thin ones, with start and goal.

    Arguments:
        axes, scene: the map, and where to draw in the coordinates of its cells.
        strong: the path in the foreground.
        weak: those to compare it with, dashed.
        size: the size of lines and marks; 1 for a panel of 3.5 inches.
    """
    width = size * min(4.0, 70 / max(scene.size))
    # Halos lie below all the lines, or one would cut the other where they meet.
    _draw_route(axes, scene, strong, width)
    for line in weak:
        _draw_route(axes, scene, line, 0.5 * width, dashed=True)
    for end, marker in ((scene.start, "o"), (scene.goal, "s")):
        if end is not None:
            axes.add_line(end_mark(marker, 1.9 * width, at=divmod(end, scene.size[1])))


def _draw_route(axes: Axes, scene: Cells, line: Line, width: float, dashed: bool = False) -> None:
    color, cells = LIGHT[line.role], scene.path_of(line.decision)
    if cells is None:
        rows, cols = np.nonzero(np.nan_to_num(line.decision.reshape(scene.size)) > 1e-4)
        axes.scatter(
            cols,
            rows,
            marker="o" if dashed else "s",
            s=(2.2 * width) ** 2,
            color=color,
            edgecolors="white",
            linewidths=0.3 * width,
            zorder=4 if dashed else 3,
        )
        return
    rows, cols = np.array(cells).T
    axes.plot(cols, rows, color="white", linewidth=1.4 + 1.4 * width, zorder=2, **_ROUND)
    style: dict[str, Any] = {"linestyle": DASHED, "dash_capstyle": "butt"} if dashed else _ROUND
    axes.plot(cols, rows, color=color, linewidth=width, zorder=4 if dashed else 3, **style)


def end_mark(
    marker: str, size: float, at: tuple[int, int] | None = None, label: str = ""
) -> Line2D:
    """The sign of a start or a goal, to be drawn at a cell or to stand in a legend."""
    return Line2D(
        [] if at is None else [at[1]],
        [] if at is None else [at[0]],
        marker=marker,
        markersize=size,
        markerfacecolor="white",
        markeredgecolor=INK,
        markeredgewidth=0.25 * size,
        linestyle="none",
        label=label,
        zorder=5,
    )
