"""Shortest paths on a grid whose arcs have costs: moves right and down."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.problems.base import FEASIBILITY_TOLERANCE, Problem, Solved
from cfopt.problems.finite import Finite
from cfopt.problems.lattice import node_names
from cfopt.problems.routes import Network

#: Up to this many paths, scoring them all beats the sweep (`make bench` compares the two).
_LISTED_PATHS = 100


@registry.problems.register
class GridShortestPath(Problem):
    """The cheapest path from the upper left to the lower right node of a grid.

    Moves go right or down, so that costs may have any sign. Arcs are in PyEPO's order: row by row,
    the arcs to the right first, then those down.

    Arguments:
        rows, cols: the nodes of the grid.
    """

    binary = True

    def __init__(self, rows: int, cols: int) -> None:
        if rows < 1 or cols < 1 or rows * cols < 2:
            raise InputError(f"A grid needs at least two nodes, got {rows} x {cols}.")
        self.rows, self.cols = rows, cols
        self.arcs = _grid_arcs(rows, cols)
        self.num_costs = len(self.arcs)
        self._index = {arc: k for k, arc in enumerate(self.arcs)}
        self._sweep = _Sweep(rows, cols, self._index)
        listed = self.list_decisions(_LISTED_PATHS)
        self._finite = None if listed is None else Finite(listed)

    def optimise(self, prices: Array) -> Array:
        """Every path scored where they are few, else one sweep over the diagonals."""
        solver = self._sweep if self._finite is None else self._finite
        return solver.optimise(prices)

    def runner_up(self, prices: Tensor, decisions: Tensor) -> Solved:
        if self._finite is not None:
            return self._finite.runner_up(prices, decisions)
        return super().runner_up(prices, decisions)

    def telling_columns(self, decision: Tensor) -> Tensor:
        """The path's own arcs: another path misses one of them."""
        return decision.nonzero().flatten()

    def describe(self, decision: Array) -> str:
        """The nodes that the path visits, the start apart."""
        visited = [self.arcs[k][1] for k in np.flatnonzero(decision)]
        return "path 0-" + "-".join(str(node) for node in sorted(visited))

    def scene(self) -> Network:
        places = node_names(self.rows, self.cols)
        return Network(
            entries=self.entries([f"{places[a]}-{places[b]}" for a, b in self.arcs]),
            places=places,
            start=0,
            goal=len(places) - 1,
            lattice=(self.rows, self.cols),
            arcs=tuple(self.arcs),
        )

    def faults(self, decisions: Array) -> list[str]:
        sources, targets = np.array(self.arcs).T
        faults = []
        for flow in decisions:
            if (np.abs(flow * (1 - flow)) > FEASIBILITY_TOLERANCE).any():
                faults.append("is not a path: some arcs are neither taken nor left out (0 or 1)")
                continue
            balance = np.zeros(self.rows * self.cols)
            np.subtract.at(balance, sources, flow)
            np.add.at(balance, targets, flow)
            balance[0] += 1
            balance[-1] -= 1
            broken = int((np.abs(balance) > FEASIBILITY_TOLERANCE).sum())
            faults.append(f"is not a path: it breaks off at {broken} nodes" if broken else "")
        return faults

    def list_decisions(self, limit: int) -> Array | None:
        moves = self.rows + self.cols - 2
        if math.comb(moves, self.rows - 1) > limit:
            return None
        paths = [
            self._path(set(down)) for down in itertools.combinations(range(moves), self.rows - 1)
        ]
        return np.array(paths)

    def _path(self, down: set[int]) -> Array:
        """The path that moves down at the given steps and right at the others."""
        path = np.zeros(self.num_costs)
        node = 0
        for step in range(self.rows + self.cols - 2):
            following = node + (self.cols if step in down else 1)
            path[self._index[node, following]] = 1.0
            node = following
        return path


def _grid_arcs(rows: int, cols: int) -> list[tuple[int, int]]:
    """Arcs as (node, node), in PyEPO's order."""
    arcs = []
    for row in range(rows):
        nodes = [row * cols + col for col in range(cols)]
        arcs += [(node, node + 1) for node in nodes[:-1]]
        if row < rows - 1:
            arcs += [(node, node + cols) for node in nodes]
    return arcs


class _Sweep:
    """Bellman's recursion over the diagonals of a grid, all rows of a batch at once.

    On the diagonal s lie the nodes (i, s - i). `down[s - 1, i]` and `right[s - 1, i]` are the arcs
    that enter (i, s - i) from above and from the left, or the number of arcs where there is none.
    """

    def __init__(self, rows: int, cols: int, index: dict[tuple[int, int], int]) -> None:
        self._rows, self._missing = rows, len(index)
        diagonals = rows + cols - 2
        self._down = np.full((diagonals, rows), self._missing)
        self._right = np.full((diagonals, rows), self._missing)
        for (source, target), arc in index.items():
            i, j = divmod(target, cols)
            entering = self._down if target - source == cols else self._right
            entering[i + j - 1, i] = arc

    def optimise(self, prices: Array) -> Array:
        """The cheapest path of each row; of two equally cheap ways in, the one from the left."""
        count = len(prices)
        padded = np.concatenate([prices, np.full((count, 1), np.inf)], axis=1).T
        down, right = padded[self._down], padded[self._right]  # (diagonals, rows, B)
        cost = np.full((self._rows + 1, count), np.inf)  # the first row stands for "outside"
        cost[1] = 0.0
        from_above: list[NDArray[np.bool_]] = []
        for above, left in zip(down, right, strict=True):
            above = above + cost[:-1]
            left = left + cost[1:]
            from_above.append(above < left)
            np.minimum(above, left, out=cost[1:])
        return self._trace_back(from_above, count)

    def _trace_back(self, from_above: list[NDArray[np.bool_]], count: int) -> Array:
        decisions = np.zeros((count, self._missing))
        batch = np.arange(count)
        i = np.full(count, self._rows - 1)
        for s in reversed(range(len(from_above))):
            up = from_above[s][i, batch]
            decisions[batch, np.where(up, self._down[s, i], self._right[s, i])] = 1.0
            i = i - up
        return decisions
