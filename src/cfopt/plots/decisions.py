"""One way to draw a decision for each kind of problem; a new kind registers its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize

from cfopt.plots.style import COSTS, INK, OTHER, QUIET, TAKEN, bare, chart
from cfopt.problems import GridShortestPath, Knapsack, TerrainShortestPath
from cfopt.types import Array


@dataclass(frozen=True)
class Scene:
    """What one panel shows.

    Arguments:
        prices: the price of each column, `(m,)`.
        shown: the decision in the foreground, `(m,)`.
        behind: the decision to compare it with, `(m,)`.
        scale: the range of prices, shared by the panels of a picture.
    """

    prices: Array
    shown: Array
    behind: Array
    scale: Normalize


@singledispatch
def draw_decision(problem: Any, axes: Axes, scene: Scene) -> None:
    """Any problem: the columns in which the two decisions differ, and their prices."""
    differ = np.flatnonzero(np.abs(scene.shown - scene.behind) > 1e-9)
    order = differ[np.argsort(-np.abs(scene.prices[differ]))][:12]
    names = getattr(problem, "decision_names", None)
    labels = [names[j] if names else f"y{j}" for j in order]
    at = np.arange(len(order))
    axes.barh(at - 0.2, scene.shown[order], height=0.38, color=TAKEN)
    axes.barh(at + 0.2, scene.behind[order], height=0.38, color=OTHER)
    prices = scene.prices[order]
    ticks = [f"{label} at {price:.3g}" for label, price in zip(labels, prices, strict=True)]
    axes.set_yticks(at, ticks)
    axes.invert_yaxis()
    axes.set_xlabel("value in the decision", fontsize=8)
    chart(axes)


@draw_decision.register
def _(problem: GridShortestPath, axes: Axes, scene: Scene) -> None:
    """Arcs coloured by cost, with the two paths on top."""
    nodes = np.array(
        [(n % problem.cols, -(n // problem.cols)) for n in range(problem.rows * problem.cols)]
    )
    segments = nodes[np.array(problem.arcs)]
    width = 9 if max(problem.rows, problem.cols) <= 8 else 40 / max(problem.rows, problem.cols)
    costs = LineCollection(list(segments), cmap=COSTS, norm=scene.scale, linewidths=width, zorder=1)
    costs.set_array(scene.prices)
    axes.add_collection(costs)
    behind = segments[scene.behind > 0.5]
    shown = segments[scene.shown > 0.5]
    axes.add_collection(
        LineCollection(list(behind), colors=OTHER, linewidths=2, linestyles=(0, (2, 1.5)), zorder=3)
    )
    axes.add_collection(LineCollection(list(shown), colors=TAKEN, linewidths=3.5, zorder=2))
    axes.plot(*nodes.T, "o", color="white", markeredgecolor=QUIET, markersize=width * 0.6, zorder=4)
    ends = nodes[[0, -1]]
    axes.plot(*ends.T, "o", color=INK, markersize=width * 0.7, zorder=5)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.margins(0.08)
    bare(axes)


@draw_decision.register
def _(problem: TerrainShortestPath, axes: Axes, scene: Scene) -> None:
    """Cells coloured by cost, with the visited ones marked."""
    shape = (problem.rows, problem.cols)
    axes.imshow(scene.prices.reshape(shape), cmap=COSTS, norm=scene.scale)
    for cells, marker, color, size in (
        (scene.shown, "s", TAKEN, 60),
        (scene.behind, "o", OTHER, 14),
    ):
        rows, cols = np.nonzero(cells.reshape(shape) > 0.5)
        axes.scatter(cols, rows, marker=marker, s=size * 12 / max(shape), color=color)
    bare(axes)


@draw_decision.register
def _(problem: Knapsack, axes: Axes, scene: Scene) -> None:
    """Items by value, those in the foreground set filled, those of the other set outlined."""
    at = np.arange(problem.num_costs)
    taken = scene.shown > 0.5
    axes.barh(at, scene.prices, color=np.where(taken, TAKEN, "#DDDDDD").tolist(), height=0.72)
    other = np.flatnonzero(scene.behind > 0.5)
    axes.barh(other, scene.prices[other], height=0.72, fill=False, edgecolor=OTHER, linewidth=1.6)
    axes.set_xlim(min(0.0, float(scene.scale.vmin or 0.0)), float(scene.scale.vmax or 1.0) * 1.02)
    axes.set_yticks(at, [f"item {j}" for j in at], fontsize=7 if len(at) <= 24 else 4)
    axes.invert_yaxis()
    used = problem.weights @ scene.shown / np.where(problem.capacities > 0, problem.capacities, 1)
    axes.set_xlabel(
        "value;  " + ", ".join(f"resource {i}: {part:.0%} used" for i, part in enumerate(used)),
        fontsize=8,
    )
    chart(axes)
