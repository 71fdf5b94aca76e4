"""Decisions as small SVG, one way for each kind of problem; a new kind registers its own.

Costs are drawn in six shades, each a single path, and what all pictures share is drawn once: a
thousand pictures take a second and a megabyte or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from markupsafe import Markup

from cfopt.problems import GridShortestPath, TerrainShortestPath
from cfopt.report import svg
from cfopt.report.bars import draw_columns
from cfopt.report.naming import cell, column_letters, place, walk
from cfopt.report.scene import Line, Panel
from cfopt.types import Array

#: Shades of cost; the page gives them their greys, other ones in the dark.
SHADES = 6
#: The name of what the pictures of a report share.
PLACES = "places"
#: Between two nodes of a grid; the side of a cell; room for the names of columns and rows.
_STEP, _CELL, _RULER = 30, 12, 13


@singledispatch
def draw(problem: Any, panel: Panel) -> Markup:
    """Any problem: bars for the columns in which the decisions differ."""
    return draw_columns(problem, panel)


@singledispatch
def sketch(problem: Any, panel: Panel) -> Markup | None:
    """The decisions alone, in a few hundred bytes; None where `draw` is as small."""
    return None


@singledispatch
def common(problem: Any) -> Markup:
    """What all pictures of the problem share, drawn once."""
    return Markup("")


@draw.register
def _(problem: GridShortestPath, panel: Panel) -> Markup:
    """Arcs shaded by cost, the routes on top."""
    shades = _shades(panel)
    moves = [_arc(problem, k) for k in range(problem.num_costs)]
    costs = [
        svg.path("".join(moves[k] for k in np.flatnonzero(shades == shade)), f"cost c{shade}")
        for shade in range(SHADES)
    ]
    return _grid(problem, panel, costs)


@sketch.register
def _(problem: GridShortestPath, panel: Panel) -> Markup:
    return _grid(problem, panel, [])


def _grid(problem: GridShortestPath, panel: Panel, costs: list[str]) -> Markup:
    lines = [
        svg.path("".join(_arc(problem, int(k)) for k in np.flatnonzero(line.decision > 0.5)), kind)
        for line, kind in _styled(panel)
    ]
    edge = _ruler(problem)
    width, height = (_STEP * size + edge for size in (problem.cols, problem.rows))
    return svg.picture(width, height, panel.label, [*costs, *lines, svg.shared(PLACES)], "grid")


def _arc(problem: GridShortestPath, k: int) -> str:
    source, target = problem.arcs[k]
    x, y = _node(problem, source)
    return f"M{x} {y}h{_STEP}" if target == source + 1 else f"M{x} {y}v{_STEP}"


def _node(problem: GridShortestPath, node: int) -> tuple[int, int]:
    row, col = divmod(node, problem.cols)
    edge = _ruler(problem)
    return edge + _STEP // 2 + _STEP * col, edge + _STEP // 2 + _STEP * row


@common.register
def _(problem: GridShortestPath) -> Markup:
    """The nodes: with letters where there are few, else named along the edges."""
    last = problem.rows * problem.cols - 1
    lettered = not _ruler(problem)
    parts = []
    for node in range(last + 1):
        x, y = _node(problem, node)
        kind = "node end" if node in (0, last) else "node"
        parts.append(svg.dot(x, y, 8 if lettered else 3.5, kind))
        if lettered:
            name = place(*divmod(node, problem.cols), problem.rows, problem.cols)
            parts.append(svg.text(x, y + 3, name, kind))
    return _once([*parts, *_rulers(problem, _STEP)])


@draw.register
def _(problem: TerrainShortestPath, panel: Panel) -> Markup:
    """Cells shaded by cost, or the map itself, the routes on top."""
    edge = _ruler(problem)
    if panel.backdrop:
        size = _CELL * problem.cols, _CELL * problem.rows
        return _terrain(problem, panel, [svg.image(panel.backdrop, edge, edge, *size)])
    shades = _shades(panel).reshape(problem.rows, problem.cols)
    cells = [svg.path(_runs(shades == shade, edge), f"cell c{shade}") for shade in range(SHADES)]
    return _terrain(problem, panel, cells)


@sketch.register
def _(problem: TerrainShortestPath, panel: Panel) -> Markup:
    edge = _ruler(problem)
    size = _CELL * problem.cols, _CELL * problem.rows
    return _terrain(problem, panel, [svg.box(edge, edge, *size, "land")])


def _terrain(problem: TerrainShortestPath, panel: Panel, ground: list[str]) -> Markup:
    tracks = [(_track(problem, line.decision), kind) for line, kind in _styled(panel)]
    # Pale rims, so that lines are seen on any ground; below all lines, or one would cut another.
    rims = [svg.path(data, f"{kind} rim") for data, kind in tracks]
    lines = rims + [svg.path(data, kind) for data, kind in tracks]
    edge = _ruler(problem)
    width, height = (_CELL * size + edge + 1 for size in (problem.cols, problem.rows))
    parts = [*ground, *lines, svg.shared(PLACES)]
    return svg.picture(width, height, panel.label, parts, "terrain")


def _track(problem: TerrainShortestPath, decision: Array) -> str:
    """A route as one line; cells that form none as dots."""
    cells = walk(problem, decision)
    middle = _ruler(problem) + _CELL / 2
    if cells is None:
        visits = np.nan_to_num(decision).reshape(problem.rows, problem.cols) > 1e-4
        spots = (_at(middle, int(i), int(j)) for i, j in np.argwhere(visits))
        return "".join(f"M{spot}h0" for spot in spots)
    points = [_at(middle, i, j) for i, j in cells]
    return f"M{'L'.join(points)}"


def _at(middle: float, row: int, col: int) -> str:
    return f"{svg.number(middle + _CELL * col)} {svg.number(middle + _CELL * row)}"


def _runs(chosen: Any, edge: int) -> str:
    """Cells as boxes, neighbours in a row joined: `(rows, cols) -> str`."""
    parts = []
    for i, row in enumerate(np.pad(chosen.astype(np.int8), ((0, 0), (1, 1)))):
        change = np.diff(row)
        for start, end in zip(np.flatnonzero(change > 0), np.flatnonzero(change < 0), strict=True):
            width = _CELL * (end - start)
            parts.append(f"M{edge + _CELL * start} {edge + _CELL * i}h{width}v{_CELL}h-{width}z")
    return "".join(parts)


@common.register
def _(problem: TerrainShortestPath) -> Markup:
    """Start and goal, and the names of columns and rows."""
    middle = _ruler(problem) + _CELL / 2
    (i, j), (k, m) = problem.start, problem.goal
    ends = [
        svg.dot(middle + _CELL * j, middle + _CELL * i, 4, "node end"),
        svg.box(middle + _CELL * m - 3.5, middle + _CELL * k - 3.5, 7, 7, "node end"),
    ]
    names = []
    if not _ruler(problem):
        names = [
            svg.text(_CELL * col + 3, _CELL * row + 4, cell(row, col), "tag")
            for row in range(problem.rows)
            for col in range(problem.cols)
        ]
    return _once([*ends, *names, *_rulers(problem, _CELL)])


def _ruler(problem: GridShortestPath | TerrainShortestPath) -> int:
    """How wide the edge with the names of columns and rows is; 0 where places have letters."""
    return 0 if place(0, 0, problem.rows, problem.cols) == "A" else _RULER


def _rulers(problem: GridShortestPath | TerrainShortestPath, step: int) -> list[str]:
    edge = _ruler(problem)
    if not edge:
        return []
    every = 1 if max(problem.rows, problem.cols) <= 16 else 5
    half = edge + step / 2
    columns = [
        svg.text(half + step * j, edge - 4, column_letters(j), "ruler")
        for j in range(0, problem.cols, every)
    ]
    rows = [
        svg.text(edge / 2 - 1, half + step * i + 2.5, str(i + 1), "ruler")
        for i in range(0, problem.rows, every)
    ]
    return columns + rows


def _once(parts: Sequence[str]) -> Markup:
    return Markup(
        f'<svg class="common" aria-hidden="true" width="0" height="0"><defs><g id="{PLACES}">'
        f"{''.join(parts)}</g></defs></svg>"
    )


def _styled(panel: Panel) -> list[tuple[Line, str]]:
    """The lines with their classes, the one in the foreground first, as dashes lie above it."""
    strong = [(panel.strong, f"line strong {panel.strong.role}")]
    return strong + [(line, f"line weak {line.role}") for line in panel.weak]


def _shades(panel: Panel) -> Any:
    """The shade of each price, from 0 to SHADES - 1: `(m,)`."""
    span = panel.high - panel.low
    part = (panel.prices - panel.low) / span if span > 0 else np.zeros(len(panel.prices))
    return np.clip(np.nan_to_num(part) * SHADES, 0, SHADES - 1).astype(int)
