"""Scenes as small SVG, for the report and the page.

Costs are drawn in six shades, each a single path, and what all pictures share is drawn once: a
thousand pictures take a second and a megabyte or two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup

from cfopt._typing import Array, Indices
from cfopt.drawing import elements as svg
from cfopt.drawing.bars import draw_bars
from cfopt.drawing.palette import SHADES
from cfopt.drawing.panel import Line, Panel
from cfopt.problems.cells import Cells
from cfopt.problems.lattice import column_letters
from cfopt.problems.network_scene import Network
from cfopt.problems.routes import Routes
from cfopt.problems.scene import Scene

#: The name of what the pictures of a report share.
_PLACES = "places"
#: The length of an arc, and of one between names; what is left free around; the size of names.
_STEP, _LONG, _MARGIN, _FONT = 30, 60, 10, 9
#: The radius of a node with its name in it, of one without, and of one among many.
_NAMED, _SMALL, _TINY = 8.0, 3.5, 2.2
#: How wide a network is at least, as pictures fill the width they are given; how wide or high at
#: most, so that names can be read; and times the root of the number of places, where they are many.
_LEAST, _MOST, _CROWDED = 90, 340, 18
#: The side of a cell; room for the names of columns and rows.
_CELL, _RULER = 12, 13


def draw(panel: Panel, standalone: bool = False) -> Markup:
    """A picture of any scene.

    Arguments:
        panel: what is seen.
        standalone: whether the picture has its own copy of what pictures share, so that it needs
            no other element of the page.
    """
    return _drawn(panel, panel.scene, standalone, sketched=False)


def sketch(panel: Panel) -> Markup | None:
    """The decisions alone, in a few hundred bytes; None where `draw` is as small."""
    return _drawn(panel, panel.scene, False, sketched=True) if panel.scene.has_places else None


def common(scene: Scene) -> Markup:
    """What all pictures of a scene share, drawn once."""
    places = "".join(_places(scene))
    if not places:
        return Markup("")
    return Markup(
        f'<svg class="common" aria-hidden="true" width="0" height="0"><defs><g id="{_PLACES}">'
        f"{places}</g></defs></svg>"
    )


def _drawn(panel: Panel, scene: Scene, standalone: bool, sketched: bool) -> Markup:
    if isinstance(scene, Network):
        plan = _plan(scene)
        parts, size = plan.draw(panel, sketched), plan.size
    elif isinstance(scene, Cells):
        parts, size = _draw_cells(panel, scene, sketched), _map_size(scene)
    else:
        return draw_bars(panel)
    shared = _places(scene) if standalone else [svg.shared(_PLACES)]
    return svg.picture(*size, panel.label, [*parts, *shared], scene.kind)


def _places(scene: Scene) -> list[str]:
    if isinstance(scene, Network):
        return _plan(scene).places()
    return _map_places(scene) if isinstance(scene, Cells) else []


def _in_shades(panel: Panel, kind: str, data: Callable[[Array], str]) -> list[str]:
    """One path for each shade of cost; `data` draws the entries that a mask chooses."""
    shade = np.minimum(panel.shades * len(SHADES), len(SHADES) - 1).astype(int)
    return [svg.path(data(shade == k), f"{kind} c{k}") for k in range(len(SHADES))]


def _styled(panel: Panel) -> list[tuple[Line, str]]:
    """The lines with their classes, the one in the foreground first, as dashes lie above it."""
    weights = ["strong", *["weak"] * len(panel.weak)]
    return [(line, f"line {w} {line.role}") for line, w in zip(panel.lines, weights, strict=True)]


class _Plan:
    """Where everything of a network is drawn."""

    def __init__(self, scene: Network) -> None:
        self.scene = scene
        self._inside = not scene.has_rulers and all(len(name) <= 2 for name in scene.places)
        self._beside = not self._inside and not scene.has_rulers
        across, down = np.array(scene.positions).max(axis=0, initial=0.0)
        self._step: float = _LONG if self._beside else _STEP
        if scene.lattice is None:
            most = max(_MOST, _CROWDED * math.sqrt(len(scene.places)))
            self._step = min(self._step, most / max(across, down, 1.0))
        self._labelled = set(svg.readable(scene, self._step, _FONT)) if self._beside else set()
        half = max((svg.half_width(scene, k, _FONT) for k in self._labelled), default=0.0)
        small = _TINY if scene.crowded and not scene.has_rulers else _SMALL
        self._radius = _NAMED if self._inside else small
        self._edge = _RULER if scene.has_rulers else 0
        self._left = self._edge + max(_MARGIN, min(half, 60))
        self._top = self._edge + (_MARGIN + _FONT if self._beside else _MARGIN)
        width = self._step * across + 2 * self._left - self._edge
        self._left += max(0.0, _LEAST - width) / 2
        self.size = max(width, _LEAST), self._step * down + self._top + _MARGIN

    def at(self, k: int) -> tuple[float, float]:
        """The middle of a place."""
        x, y = self.scene.positions[k]
        return self._left + self._step * x, self._top + self._step * y

    def draw(self, panel: Panel, sketched: bool) -> list[str]:
        """Arcs in shades of their costs, and decisions on top."""
        slim = "cost" if self.scene.has_broad_arcs else "cost slim"
        costs = (
            [] if sketched else _in_shades(panel, slim, lambda of: self._arcs(np.flatnonzero(of)))
        )
        taken = [(np.flatnonzero(line.decision > 0.5), kind) for line, kind in _styled(panel)]
        return [*costs, *(svg.path(self._arcs(chosen), kind) for chosen, kind in taken)]

    def _arcs(self, chosen: Indices) -> str:
        known = self._known_arcs
        return "".join([known[k] for k in chosen.tolist()])

    @cached_property
    def _known_arcs(self) -> list[str]:
        return [self._arc(k) for k in range(len(self.scene.arcs))]

    def _arc(self, k: int) -> str:
        (x, y), (u, v) = map(self.at, self.scene.arcs[k])
        if self.scene.bends[k]:
            a, b = self._aside(k, 2.0)
            return f"M{_point(x, y)}Q{_point(a, b)} {_point(u, v)}"
        return f"M{_point(x, y)}L{_point(u, v)}"

    def _aside(self, k: int, times: float) -> tuple[float, float]:
        """The middle of an arc, moved aside by a multiple of its bend."""
        (x, y), (u, v) = map(self.at, self.scene.arcs[k])
        length = math.hypot(u - x, v - y) or 1.0
        off = times * self._step * self.scene.bends[k] / length
        return (x + u) / 2 - (v - y) * off, (y + v) / 2 + (u - x) * off

    def _arrow(self, k: int) -> str:
        """A small head in the middle of an arc."""
        (x, y), (u, v) = map(self.at, self.scene.arcs[k])
        length = math.hypot(u - x, v - y) or 1.0
        (a, b), (right, down) = self._aside(k, 1.0), ((u - x) / length, (v - y) / length)
        corners = [(3.2, 0.0), (-2.2, 2.4), (-2.2, -2.4)]
        points = [(a + i * right - j * down, b + i * down + j * right) for i, j in corners]
        return f"M{'L'.join(_point(*point) for point in points)}z"

    def places(self) -> list[str]:
        """Arrows, then the places: named inside, beside, or along the edges."""
        scene, parts = self.scene, []
        if scene.arrows:
            parts.append(svg.path("".join(map(self._arrow, range(len(scene.arcs)))), "arrow"))
        for k, name in enumerate(scene.places):
            (x, y), kind = self.at(k), "node end" if k in (scene.start, scene.goal) else "node"
            parts.append(svg.dot(x, y, self._radius, kind))
            if self._inside:
                parts.append(svg.text(x, y + 3, name, kind))
            elif k in self._labelled:
                parts.append(svg.text(x, y - 6, name, "label"))
        return [*parts, *_rulers(scene, self._step, self._left, self._top)]


#: The plan of the network that was drawn last: a report draws the same one a thousand times.
_LAST: list[_Plan] = []


def _plan(scene: Network) -> _Plan:
    plan = _LAST[0] if _LAST else None
    if plan is None or plan.scene is not scene:
        plan = _Plan(scene)
        _LAST[:] = [plan]
    return plan


def _point(x: float, y: float) -> str:
    return f"{svg.number(x)} {svg.number(y)}"


def _edge(scene: Cells) -> int:
    return _RULER if scene.has_rulers else 0


def _map_size(scene: Cells) -> tuple[float, float]:
    rows, cols = scene.size
    return _CELL * cols + _edge(scene) + 1, _CELL * rows + _edge(scene) + 1


def _draw_cells(panel: Panel, scene: Cells, sketched: bool) -> list[str]:
    """Cells shaded by cost, or the map itself, or plain land, the routes on top."""
    edge, (rows, cols) = _edge(scene), scene.size
    box = edge, edge, _CELL * cols, _CELL * rows
    if sketched:
        ground = [svg.box(*box, "land")]
    elif panel.backdrop:
        ground = [svg.image(panel.backdrop, *box)]
    else:
        ground = _in_shades(panel, "cell", lambda of: _runs(of.reshape(rows, cols), edge))
    tracks = [(_track(scene, line.decision), kind) for line, kind in _styled(panel)]
    # Pale rims, so that lines are seen on any ground; below all lines, or one would cut another.
    rims = [svg.path(data, f"{kind} rim") for data, kind in tracks]
    return [*ground, *rims, *(svg.path(data, kind) for data, kind in tracks)]


def _track(scene: Cells, decision: Array) -> str:
    """A route as one line; cells that form none as dots."""
    cells = scene.path_of(decision)
    if cells is None:
        visits = np.nan_to_num(decision).reshape(scene.size) > 1e-4
        spots = (_middle(scene, int(i), int(j)) for i, j in np.argwhere(visits))
        return "".join(f"M{_point(*spot)}h0" for spot in spots)
    return f"M{'L'.join(_point(*_middle(scene, *map(int, cell))) for cell in cells)}"


def _middle(scene: Cells, row: int, col: int) -> tuple[float, float]:
    half = _edge(scene) + _CELL / 2
    return half + _CELL * col, half + _CELL * row


def _runs(chosen: Any, edge: int) -> str:
    """Cells as boxes, neighbours in a row joined: `(rows, cols) -> str`."""
    parts = []
    for i, row in enumerate(np.pad(chosen.astype(np.int8), ((0, 0), (1, 1)))):
        change = np.diff(row)
        for start, end in zip(np.flatnonzero(change > 0), np.flatnonzero(change < 0), strict=True):
            width = _CELL * (end - start)
            parts.append(f"M{edge + _CELL * start} {edge + _CELL * i}h{width}v{_CELL}h-{width}z")
    return "".join(parts)


def _map_places(scene: Cells) -> list[str]:
    """Start and goal, and the names of cells, or of columns and rows."""
    assert scene.start is not None
    assert scene.goal is not None
    (x, y), (u, v) = (_middle(scene, *divmod(k, scene.size[1])) for k in (scene.start, scene.goal))
    ends = [svg.dot(x, y, 4, "node end"), svg.box(u - 3.5, v - 3.5, 7, 7, "node end")]
    if scene.has_rulers:
        half = _RULER + _CELL / 2
        return ends + _rulers(scene, _CELL, half, half)
    tags = []
    for k, name in enumerate(scene.places):
        row, col = divmod(k, scene.size[1])
        tags.append(svg.text(_CELL * col + 3, _CELL * row + 4, name, "tag"))
    return ends + tags


def _rulers(scene: Routes, step: float, left: float, top: float) -> list[str]:
    """The names of columns and rows along the edges of a lattice with many places."""
    if not scene.has_rulers or scene.lattice is None:
        return []
    rows, cols = scene.lattice
    every = 1 if max(rows, cols) <= 16 else 5
    columns = [
        svg.text(left + step * j, _RULER - 4, column_letters(j), "ruler")
        for j in range(0, cols, every)
    ]
    return columns + [
        svg.text(_RULER / 2 - 1, top + step * i + 2.5, str(i + 1), "ruler")
        for i in range(0, rows, every)
    ]
