"""What decisions and their columns are called: routes by their nodes, sets by their items."""

from __future__ import annotations

from functools import lru_cache, singledispatch
from typing import Any

import numpy as np

from cfopt.names import listing
from cfopt.plots.maps import route
from cfopt.problems import GridShortestPath, Knapsack, TerrainShortestPath
from cfopt.problems.terrain import Cell
from cfopt.types import Array

#: Up to this many parts a decision is spelled out.
_SPELLED = 12
#: How many parts stand for a longer one.
_HINTS = 4
#: Up to this many nodes each has a letter of its own.
_LETTERS = 26


def noun(problem: Any) -> str:
    """What a decision of the problem is: "route", "selection" or "decision"."""
    if isinstance(problem, GridShortestPath | TerrainShortestPath):
        return "route"
    return "selection" if isinstance(problem, Knapsack) else "decision"


def decision_name(problem: Any, decision: Array, beside: Array | None = None) -> str:
    """A decision in a few words, to stand in a sentence: `(m,) -> str`.

    Short ones are spelled out; a long one is told by what it has and another has not.

    Arguments:
        problem: knows what its columns mean; None is any problem.
        decision: the decision.
        beside: the decision that a long one is told apart from.
    """
    if not np.isfinite(decision).all():
        return "an unknown decision"
    walk = stops(problem, decision)
    if walk is not None:
        if len(walk) <= _SPELLED:
            return "-".join(walk)
        others = (None if beside is None else stops(problem, beside)) or []
        own = [stop for stop in walk if stop not in set(others)]
        return f"the route by {_hints(own or walk[1:-1])}"
    if isinstance(problem, GridShortestPath | TerrainShortestPath):
        return "the given visits, which are no simple route"
    taken = np.flatnonzero(np.abs(decision) > 1e-9)
    if not len(taken):
        return "no item" if isinstance(problem, Knapsack) else "nothing"
    if len(taken) > _SPELLED and beside is not None and np.isfinite(beside).all():
        telling = taken[np.abs(decision - beside)[taken] > 1e-9]
        if len(telling):
            return f"{_with_values(problem, decision, telling, hints=True)} among {len(taken)}"
    return _with_values(problem, decision, taken, hints=len(taken) > _SPELLED)


def _with_values(problem: Any, decision: Array, columns: Any, hints: bool) -> str:
    parts = [_part(problem, decision, int(j)) for j in columns]
    if isinstance(problem, Knapsack) and problem.decision_names is None:
        parts = [str(j) for j in columns]
        listed = _hints(parts) if hints else listing(parts)
        return f"item {listed}" if len(parts) == 1 else f"items {listed}"
    return _hints(parts) if hints else listing(parts)


def _part(problem: Any, decision: Array, j: int) -> str:
    name = column_name(problem, j)
    # 1e-6: as exactly as solvers answer.
    return name if abs(decision[j] - 1) <= 1e-6 else f"{name} = {decision[j]:.4g}"


def _hints(parts: list[str]) -> str:
    more = len(parts) - _HINTS
    return listing([*parts[:_HINTS], *([f"{more} more"] if more > 0 else [])])


def place(row: int, col: int, rows: int, cols: int) -> str:
    """A node: a letter where the alphabet is enough, else named as a cell is."""
    if rows * cols <= _LETTERS:
        return chr(ord("A") + row * cols + col)
    return cell(row, col)


def cell(row: int, col: int) -> str:
    """A cell of a map: its column and its row, as in chess."""
    return f"{column_letters(col)}{row + 1}"


def column_letters(col: int) -> str:
    """The letters of a column: A to Z, then AA, AB, as in a spreadsheet."""
    letters = ""
    col += 1
    while col:
        col, rest = divmod(col - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


@singledispatch
def column_name(problem: Any, j: int) -> str:
    """What one column of a decision is called."""
    names = getattr(problem, "decision_names", None)
    return str(names[j]) if names is not None else f"y{j}"


@column_name.register
def _(problem: Knapsack, j: int) -> str:
    return f"item {j}" if problem.decision_names is None else problem.decision_names[j]


@column_name.register
def _(problem: GridShortestPath, j: int) -> str:
    return "-".join(_node(problem, node) for node in problem.arcs[j])


@column_name.register
def _(problem: TerrainShortestPath, j: int) -> str:
    return cell(*divmod(j, problem.cols))


def _node(problem: GridShortestPath, node: int) -> str:
    return place(*divmod(node, problem.cols), problem.rows, problem.cols)


@singledispatch
def stops(problem: Any, decision: Array) -> list[str] | None:
    """The places that a route visits, in order; None for what is no simple route: `(m,)`."""
    return None


@stops.register
def _(problem: GridShortestPath, decision: Array) -> list[str] | None:
    onward = dict(problem.arcs[k] for k in np.flatnonzero(decision > 0.5))
    whole = np.abs(decision - decision.round()).max() <= 1e-4
    node, walk = 0, [0]
    while node in onward and len(walk) <= len(onward):
        node = onward[node]
        walk.append(node)
    last = problem.rows * problem.cols - 1
    if not whole or node != last or len(walk) != int((decision > 0.5).sum()) + 1:
        return None
    return [_node(problem, node) for node in walk]


@stops.register
def _(problem: TerrainShortestPath, decision: Array) -> list[str] | None:
    cells = walk(problem, decision)
    if cells is None:
        return None
    return [cell(i, j) for i, j in cells]


def walk(problem: TerrainShortestPath, decision: Array) -> list[Cell] | None:
    """The visited cells in order, None if they form no simple path; a page asks many times."""
    return _walk(problem, np.ascontiguousarray(decision, dtype=np.float64).tobytes())


@lru_cache(maxsize=4096)
def _walk(problem: TerrainShortestPath, decision: bytes) -> list[Cell] | None:
    return route(problem, np.frombuffer(decision))
