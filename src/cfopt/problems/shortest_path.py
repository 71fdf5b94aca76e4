"""Shortest paths on a grid whose arcs have costs: moves right and down."""

from __future__ import annotations

from cfopt import registry
from cfopt.errors import InputError
from cfopt.problems.lattice import node_names
from cfopt.problems.network import ShortestPath
from cfopt.problems.network_scene import Network


@registry.problems.register
class GridShortestPath(ShortestPath):
    """The cheapest path from the upper left to the lower right node of a grid.

    Moves go right or down, so that costs may have any sign. Arcs are in PyEPO's order: row by row,
    the arcs to the right first, then those down.

    Arguments:
        rows, cols: the nodes of the grid.
    """

    def __init__(self, rows: int, cols: int) -> None:
        if rows < 1 or cols < 1 or rows * cols < 2:
            raise InputError(f"A grid needs at least two nodes, got {rows} x {cols}.")
        self.rows, self.cols = rows, cols
        self.arcs: list[tuple[int, int]] = []
        for row in range(rows):
            nodes = range(row * cols, (row + 1) * cols)
            self.arcs += [(node, node + 1) for node in nodes[:-1]]
            self.arcs += [(node, node + cols) for node in nodes if row < rows - 1]
        places = node_names(rows, cols)
        super().__init__([(places[a], places[b]) for a, b in self.arcs], places[0], places[-1])

    @property
    def decision_names(self) -> tuple[str, ...] | None:
        """None unless they are given: arcs go by their numbers in files, as in PyEPO."""
        return self._decision_names

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
