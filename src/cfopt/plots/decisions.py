"""One way to draw a decision for each kind of problem; a new kind registers its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize

from cfopt.plots.style import COSTS, DASHED, INK, QUIET, bare, chart
from cfopt.problems import GridShortestPath, Knapsack
from cfopt.types import Array


@dataclass(frozen=True)
class Mark:
    """A decision `(m,)` and the colour that stands for it in the whole picture."""

    decision: Array
    color: str


@dataclass(frozen=True)
class Scene:
    """What one panel shows.

    Arguments:
        prices: the price of each column, `(m,)`.
        strong: the decision in the foreground.
        weak: the decision to compare it with.
        scale: the range of prices, shared by the panels of a picture.
    """

    prices: Array
    strong: Mark
    weak: Mark
    scale: Normalize


@singledispatch
def draw_decision(problem: Any, axes: Axes, scene: Scene) -> None:
    """Any problem: the columns in which the two decisions differ, and their prices."""
    strong, weak = scene.strong.decision, scene.weak.decision
    differ = np.flatnonzero(np.abs(strong - weak) > 1e-9)
    order = differ[np.argsort(-np.abs(scene.prices[differ]))][:12]
    names = getattr(problem, "decision_names", None)
    ticks = [f"{names[j] if names else f'y{j}'} at {scene.prices[j]:.3g}" for j in order]
    at = np.arange(len(order))
    axes.barh(at - 0.2, strong[order], height=0.38, color=scene.strong.color)
    axes.barh(at + 0.2, weak[order], height=0.3, fill=False, edgecolor=scene.weak.color)
    axes.set_yticks(at, ticks)
    axes.set_ylim(max(len(at), 5) - 0.5, -0.5)
    axes.set_xlabel("value in the decision", fontsize=8)
    chart(axes)


@draw_decision.register
def _(problem: GridShortestPath, axes: Axes, scene: Scene) -> None:
    """Arcs coloured by cost, with the two paths on top."""
    numbers = np.arange(problem.rows * problem.cols)
    nodes = np.column_stack([numbers % problem.cols, -(numbers // problem.cols)])
    segments = nodes[np.array(problem.arcs)]
    width = min(10.0, 48 / max(problem.rows, problem.cols))
    costs = LineCollection(list(segments), cmap=COSTS, norm=scene.scale, linewidths=width, zorder=1)
    costs.set_array(scene.prices)
    axes.add_collection(costs)
    strong = list(segments[scene.strong.decision > 0.5])
    weak = list(segments[scene.weak.decision > 0.5])
    lines = {"colors": scene.strong.color, "linewidths": 0.5 * width, "capstyle": "round"}
    axes.add_collection(LineCollection(strong, zorder=2, **lines))
    lines = {"colors": scene.weak.color, "linewidths": 0.25 * width, "linestyles": [DASHED]}
    axes.add_collection(LineCollection(weak, zorder=3, **lines))
    size = 0.55 * width
    axes.plot(*nodes.T, "o", color="white", markeredgecolor=QUIET, markersize=size, zorder=4)
    axes.plot(*nodes[[0, -1]].T, "o", color=INK, markersize=1.4 * size, zorder=5)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.margins(0.08)
    bare(axes)


@draw_decision.register
def _(problem: Knapsack, axes: Axes, scene: Scene) -> None:
    """Items by value, those of the foreground set filled, those of the other set outlined."""
    at = np.arange(problem.num_costs)
    packed = scene.strong.decision > 0.5
    colors = np.where(packed, scene.strong.color, "#DDDDDD").tolist()
    axes.barh(at, scene.prices, color=colors, height=0.72)
    other = np.flatnonzero(scene.weak.decision > 0.5)
    edge = scene.weak.color
    axes.barh(other, scene.prices[other], height=0.72, fill=False, edgecolor=edge, linewidth=1.8)
    low, high = float(scene.scale.vmin or 0.0), float(scene.scale.vmax or 1.0)
    axes.set_xlim(1.05 * min(0.0, low), 1.05 * max(0.0, high))
    names = problem.decision_names or [f"item {j}" for j in at]
    axes.set_yticks(at, names, fontsize=7 if len(at) <= 24 else 4)
    axes.invert_yaxis()
    used = problem.weights @ packed / np.where(problem.capacities > 0, problem.capacities, 1)
    parts = ", ".join(f"{part:.0%} of resource {i}" for i, part in enumerate(used))
    axes.set_xlabel(f"value; the packed set takes {parts}", fontsize=8)
    chart(axes)
