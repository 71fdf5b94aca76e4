"""Routes as rows and columns, and decisions drawn by themselves."""

from __future__ import annotations

from functools import lru_cache, singledispatch
from itertools import pairwise
from typing import Any

import numpy as np

from cfopt.errors import InputError
from cfopt.problems import GridShortestPath, Knapsack, TerrainShortestPath
from cfopt.report.drawing import PLACES, common, draw
from cfopt.report.naming import walk
from cfopt.report.scene import Line, Panel
from cfopt.types import Array

Route = list[list[int]]


@singledispatch
def route(problem: Any, decision: Array) -> Route | None:
    """The places that a decision visits, in order; None where it is no route: `(m,)`."""
    return None


@route.register
def _(problem: TerrainShortestPath, decision: Array) -> Route | None:
    cells = walk(problem, decision)
    return None if cells is None else [[int(i), int(j)] for i, j in cells]


@route.register
def _(problem: GridShortestPath, decision: Array) -> Route | None:
    onward = dict(problem.arcs[k] for k in np.flatnonzero(decision > 0.5))
    node, nodes = 0, [0]
    while node in onward and len(nodes) <= len(onward):
        node = onward[node]
        nodes.append(node)
    return [list(divmod(node, problem.cols)) for node in nodes]


@singledispatch
def along(problem: Any, path: Route) -> Array:
    """The decision that takes a route: `-> (m,)`."""
    raise InputError(
        f"A path is for routes; the decisions of {type(problem).__name__} are lists of numbers."
    )


@along.register
def _(problem: TerrainShortestPath, path: Route) -> Array:
    visits = np.zeros((problem.rows, problem.cols))
    for k, (row, col) in enumerate(path):
        _check_place(problem, row, col)
        # Visits alone have no order: a jump could be mended by cells that come later.
        if k:
            down, right = abs(row - path[k - 1][0]), abs(col - path[k - 1][1])
            far = max(down, right) if problem.neighbours == 8 else down + right
            if far != 1:
                raise InputError(
                    f"The path breaks off: from cell {path[k - 1]} to {[row, col]} is no single "
                    "move. Pass neighbouring cells from start to goal."
                )
        visits[row, col] += 1
    for what, end, cell in (("start", path[0], problem.start), ("end", path[-1], problem.goal)):
        if tuple(end) != tuple(cell):
            raise InputError(f"The path needs to {what} at {list(cell)}, got {end}.")
    return visits.reshape(-1)


@along.register
def _(problem: GridShortestPath, path: Route) -> Array:
    index = {arc: k for k, arc in enumerate(problem.arcs)}
    taken = np.zeros(problem.num_costs)
    nodes = []
    for row, col in path:
        _check_place(problem, row, col)
        nodes.append(row * problem.cols + col)
    for source, target in pairwise(nodes):
        if (source, target) not in index:
            ends = [list(divmod(node, problem.cols)) for node in (source, target)]
            raise InputError(
                f"The path breaks off: there is no street from {ends[0]} to {ends[1]}. Moves go "
                "one node to the right or down."
            )
        taken[index[source, target]] += 1
    return taken


def _check_place(problem: GridShortestPath | TerrainShortestPath, row: int, col: int) -> None:
    if not (0 <= row < problem.rows and 0 <= col < problem.cols):
        raise InputError(
            f"The path leaves the map at {[row, col]}: there are {problem.rows} rows and "
            f"{problem.cols} columns, from 0 on."
        )


def layout(problem: Any) -> dict[str, Any] | None:
    """How the page may draw a decision by itself; None where it cannot."""
    if isinstance(problem, GridShortestPath):
        return {"kind": "grid", "rows": problem.rows, "cols": problem.cols}
    if isinstance(problem, Knapsack):
        return {
            "kind": "items",
            "weights": problem.weights.tolist(),
            "capacities": problem.capacities.tolist(),
        }
    return None


def drawing(problem: Any, prices: Array, decision: Array, label: str) -> str:
    """A decision over its prices, as SVG that needs no other element of the page."""
    nothing = Line(np.zeros(len(decision)), "other")
    # Bars show where two decisions differ: against nothing, all that is taken.
    weak = () if layout(problem) or isinstance(problem, TerrainShortestPath) else (nothing,)
    finite = prices[np.isfinite(prices)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return alone(
        problem, draw(problem, Panel(prices, Line(decision, "factual"), weak, low, high, label))
    )


def alone(problem: Any, picture: str) -> str:
    """A picture with its own copy of what the pictures of a report share."""
    return str(picture).replace(f'<use href="#{PLACES}"/>', _places(problem))


@lru_cache(maxsize=16)
def _places(problem: Any) -> str:
    shared = str(common(problem))
    _, found, rest = shared.partition(f'<g id="{PLACES}">')
    return f"<g>{rest.partition('</g></defs>')[0]}</g>" if found else ""
