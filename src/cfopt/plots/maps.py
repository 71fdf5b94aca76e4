"""Maps and the ways across them: images, cells coloured by cost, and paths as lines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_rgb
from matplotlib.lines import Line2D
from torch import Tensor

from cfopt.errors import InputError
from cfopt.explanation import Explanation
from cfopt.plots.decisions import Mark, Scene, draw_decision
from cfopt.plots.parts import host
from cfopt.plots.style import CHANGE, COSTS, DASHED, INK, bare
from cfopt.problems import TerrainShortestPath
from cfopt.problems.terrain import Cell
from cfopt.types import Array

#: After how many wrong moves the order of a path's cells is given up: then it is a scribble.
_TRIES = 2_000
_ROUND: dict[str, Any] = {"solid_capstyle": "round", "solid_joinstyle": "round"}
#: What a magnification may be, times a power of ten.
_NICE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


def has_maps(e: Explanation) -> bool:
    """Whether the contexts are images, grey or in colour, that are crossed."""
    is_image = e.x0.ndim == 4 and e.x0.shape[1] in (1, 3)
    return is_image and isinstance(e.problem, TerrainShortestPath)


def map_problem(e: Explanation, name: str) -> TerrainShortestPath:
    """The problem of an explanation of maps.

    Arguments:
        e: the explanation.
        name: who needs it, for the error.
    """
    if not has_maps(e) or not isinstance(e.problem, TerrainShortestPath):
        problem = "no problem" if e.problem is None else type(e.problem).__name__
        raise InputError(
            f"{name} needs explanations of map images, contexts of shape (rows, 3, height, width) "
            f"and a TerrainShortestPath; got {tuple(e.x0.shape)} and {problem}. An explanation "
            "read from JSON is told its problem with from_json(path, problem=...)."
        )
    return e.problem


def height_ratio(problem: TerrainShortestPath) -> float:
    """How high a panel is, as a part of its width; long maps leave some of it empty."""
    return min(max(problem.rows / problem.cols, 0.5), 1.6)


def route(problem: TerrainShortestPath, decision: Array) -> list[Cell] | None:
    """The visited cells in order from start to goal; None if they form no simple path: `(m,)`.

    A path that touches itself may have several orders, of which this is one.
    """
    visits = decision.reshape(problem.rows, problem.cols)
    if not np.isclose(visits, visits.round(), atol=1e-4).all() or visits.max() > 1.5:
        return None
    cells = {(int(i), int(j)) for i, j in np.argwhere(visits > 0.5)}
    if problem.start not in cells or problem.goal not in cells:
        return None
    beside = {cell: _beside(problem, cell, cells) for cell in cells}
    walk, seen = [problem.start], {problem.start}
    ahead = [_onward(beside, problem.start, problem.goal, seen)]
    for _ in range(len(cells) + _TRIES):
        if len(walk) == len(cells):
            return walk
        if not walk:
            return None
        if ahead[-1]:
            cell = ahead[-1].pop()
            walk.append(cell)
            seen.add(cell)
            ahead.append(_onward(beside, cell, problem.goal, seen))
        else:
            seen.remove(walk.pop())
            ahead.pop()
    return None


def _beside(problem: TerrainShortestPath, cell: Cell, cells: set[Cell]) -> list[Cell]:
    """The cells of a path that can be reached in one move."""
    reach = 2 if problem.neighbours == 8 else 1
    near = [(cell[0] + i, cell[1] + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return [
        other
        for other in near
        if other in cells and 0 < abs(other[0] - cell[0]) + abs(other[1] - cell[1]) <= reach
    ]


def _onward(beside: dict[Cell, list[Cell]], cell: Cell, goal: Cell, seen: set[Cell]) -> list[Cell]:
    """Where to go next, the best last: a cell with few ways out must not be left behind."""
    left = beside.keys() - seen
    if left == {goal}:
        return [goal] if goal in beside[cell] else []
    ways = {c: sum(o in left or o == cell for o in beside[c]) for c in left}
    left.discard(goal)
    # Each cell is entered and left again, the goal entered from one of them; none may be cut off.
    stuck = any(ways[c] < 2 for c in left) or not any(c in left for c in beside[goal])
    if stuck or not _reaches(beside, cell, left):
        return []
    return sorted((c for c in beside[cell] if c in left), key=lambda c: (-ways[c], c))


def _reaches(beside: dict[Cell, list[Cell]], cell: Cell, left: set[Cell]) -> bool:
    """Whether all the cells that are left hang together with this one."""
    found, edge = {cell}, [cell]
    while edge:
        fresh = [other for other in beside[edge.pop()] if other in left and other not in found]
        found.update(fresh)
        edge += fresh
    return len(found) == len(left) + 1


def pixels(context: Tensor) -> Array:
    """An image as it is drawn, values cut to [0, 1]: `(C, H, W) -> (H, W, 3)`."""
    image = np.moveaxis(np.clip(host(context), 0, 1), 0, -1)
    return np.broadcast_to(image, (*image.shape[:2], 3))


def change_size(before: Tensor, after: Tensor) -> Array:
    """How far each pixel moved, in the channel that moved most: `(C, H, W) -> (H, W)`."""
    size: Array = np.abs(host(after) - host(before)).max(axis=0)
    return size


def change_over_map(before: Tensor, after: Tensor, full: float) -> Array:
    """The change in colour over a pale grey map: `(C, H, W) -> (H, W, 3)`.

    Arguments:
        before, after: the two images.
        full: the size of a change that is shown in full colour, > 0.
    """
    grey = 0.72 + 0.28 * pixels(before) @ np.array([0.299, 0.587, 0.114])
    part = np.clip(change_size(before, after) / full, 0, 1)[..., None]
    mixed: Array = (1 - part) * grey[..., None] + part * np.array(to_rgb(CHANGE))
    return mixed


def magnified(before: Tensor, after: Tensor, factor: float) -> Array:
    """The signed difference around mid grey, `0.5 + factor (x - x0)` cut to [0, 1]: `(H, W, 3)`."""
    return pixels(0.5 + factor * (after.double() - before.double()))


def magnification(before: Tensor, after: Tensor) -> float:
    """The factor that shows the largest change in full, rounded down to a nice number."""
    largest = float(change_size(before, after).max())
    if not largest > 0:
        return 1.0
    factor = 0.5 / largest
    unit = 10.0 ** math.floor(math.log10(factor))
    # 1e-9: a factor of 5 that rounding has made 4.999... is still 5.
    return max(nice for nice in _NICE if nice <= factor / unit + 1e-9) * unit


def draw_image(problem: TerrainShortestPath, axes: Axes, image: Array) -> None:
    """An image `(H, W, 3)` in [0, 1], in the coordinates of the cells: x is a column, y a row."""
    extent = (-0.5, problem.cols - 0.5, problem.rows - 0.5, -0.5)
    axes.imshow(image, extent=extent, interpolation="nearest", vmin=0, vmax=1)
    bare(axes)


def draw_routes(
    problem: TerrainShortestPath, axes: Axes, strong: Mark, *weak: Mark, size: float = 1.0
) -> None:
    """Paths on a map, one in the foreground and thin ones, with start and goal.

    Arguments:
        problem: knows start and goal.
        axes: where; in the coordinates of the cells.
        strong: the path in the foreground.
        weak: those to compare it with, dashed.
        size: of lines and marks; 1 for a panel of 3.5 inches.
    """
    width = size * min(4.0, 70 / max(problem.rows, problem.cols))
    # Halos lie below all the lines, or one would cut the other where they meet.
    _draw_route(problem, axes, strong, width)
    for mark in weak:
        _draw_route(problem, axes, mark, 0.5 * width, dashed=True)
    for cell, marker in ((problem.start, "o"), (problem.goal, "s")):
        axes.add_line(end_mark(marker, 1.9 * width, at=cell))


def _draw_route(
    problem: TerrainShortestPath, axes: Axes, mark: Mark, width: float, dashed: bool = False
) -> None:
    cells = route(problem, mark.decision)
    if cells is None:
        decision = mark.decision.reshape(problem.rows, problem.cols)
        rows, cols = np.nonzero(np.nan_to_num(decision) > 1e-4)
        axes.scatter(
            cols,
            rows,
            marker="o" if dashed else "s",
            s=(2.2 * width) ** 2,
            color=mark.color,
            edgecolors="white",
            linewidths=0.3 * width,
            zorder=4 if dashed else 3,
        )
        return
    rows, cols = np.array(cells).T
    axes.plot(cols, rows, color="white", linewidth=1.4 + 1.4 * width, zorder=2, **_ROUND)
    style: dict[str, Any] = {"linestyle": DASHED, "dash_capstyle": "butt"} if dashed else _ROUND
    axes.plot(cols, rows, color=mark.color, linewidth=width, zorder=4 if dashed else 3, **style)


def end_mark(marker: str, size: float, at: Cell | None = None, label: str = "") -> Line2D:
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


def draw_costs(problem: TerrainShortestPath, axes: Axes, prices: Array, scale: Normalize) -> None:
    """Cells coloured by cost: `(m,)`."""
    cells = prices.reshape(problem.rows, problem.cols)
    axes.imshow(cells, cmap=COSTS, norm=scale, interpolation="nearest")
    bare(axes)


@draw_decision.register
def _(problem: TerrainShortestPath, axes: Axes, scene: Scene) -> None:
    """Cells coloured by cost, with the two paths on top."""
    draw_costs(problem, axes, scene.prices, scene.scale)
    draw_routes(problem, axes, scene.strong, scene.weak)
