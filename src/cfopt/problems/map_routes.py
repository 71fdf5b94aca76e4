"""Cheapest routes across a map through some cells and not through others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.errors import SolverError
from cfopt.problems.arcs import Arcs
from cfopt.problems.base import Problem
from cfopt.problems.conditions import Conditions
from cfopt.problems.path_program import PathProgram

if TYPE_CHECKING:
    from cfopt.problems.terrain import TerrainShortestPath


class MapRoutes(Problem):
    """The routes of a map that meet conditions and visit no cell twice.

    Where costs are >= 0, closed cells are priced out of a sweep, and a route through one cell is
    a cheapest way to it and a cheapest way on: where the two do not cross, no route through it is
    cheaper. Whatever that does not settle is solved as a program of flows.

    Arguments:
        terrain: the map.
        conditions: conditions on visits of its cells.
    """

    binary = True

    def __init__(self, terrain: TerrainShortestPath, conditions: Conditions) -> None:
        self._terrain, self._conditions = terrain, conditions
        self.num_costs = terrain.num_costs
        ends = {terrain.number(terrain.start), terrain.number(terrain.goal)}
        forced, closed, rest = conditions.split()
        stops = {tuple(group.tolist()) for group in forced if not ends & set(group.tolist())}
        self._closed = np.array(closed, dtype=np.intp)
        #: The one cell to go through, if there is one; and whether sweeps can settle anything.
        self._by = next(iter(stops))[0] if stops else None
        self._swept = len(stops) <= 1 and all(len(stop) == 1 for stop in stops) and not len(rest)
        self._program: PathProgram | None = None

    @classmethod
    def of(cls, terrain: TerrainShortestPath, conditions: Conditions) -> MapRoutes | None:
        """The routes, or None if no route meets the conditions."""
        made = cls(terrain, conditions)
        try:
            made.optimise(np.ones((1, terrain.num_costs)))
        except SolverError:
            return None
        return made

    def optimise(self, prices: Array) -> Array:
        decisions, known = np.empty_like(prices), np.zeros(len(prices), dtype=bool)
        if self._swept:
            known = np.asarray((prices >= 0).all(axis=1))
            decisions[known] = self._sweep(prices[known])
            known[known] = self._are_routes(decisions[known])
        if not known.all():
            decisions[~known] = self._flows().optimise(prices[~known])
        return decisions

    def faults(self, decisions: Array) -> list[str]:
        met = self._conditions.met(decisions)
        return ["" if ok else "breaks the conditions on routes" for ok in met]

    def list_decisions(self, limit: int) -> Array | None:
        return self._flows().list_decisions(limit)

    def narrowed(self, conditions: Conditions) -> Problem | None:
        return MapRoutes.of(self._terrain, Conditions.join([self._conditions, conditions]))

    def _sweep(self, prices: Array) -> Array:
        """Cheapest ways that may cross themselves, by way of the one cell: `(B, m) -> (B, m)`."""
        if not len(prices):
            return prices
        high = prices.copy()
        high[:, self._closed] += 2 * prices.sum(axis=1, keepdims=True) + 1.0
        terrain = self._terrain
        if self._by is None:
            return terrain.sweep(high)
        by = divmod(self._by, terrain.cols)
        there, on = terrain.between(terrain.start, by), terrain.between(by, terrain.goal)
        decisions = there.sweep(high) + on.sweep(high)
        decisions[:, self._by] -= 1.0
        return decisions

    def _are_routes(self, decisions: Array) -> NDArray[np.bool_]:
        once = decisions.max(axis=1, initial=0.0) <= 1
        return np.asarray(self._conditions.met(decisions) & once)

    def _flows(self) -> PathProgram:
        if self._program is None:
            arcs, columns, always = route_graph(self._terrain)
            self._program = PathProgram(arcs, columns, always, self._conditions)
        return self._program


def route_graph(terrain: TerrainShortestPath) -> tuple[Arcs, scipy.sparse.csr_array, Array]:
    """The moves of a map as arcs, which cells a move visits, and what is visited in any case."""
    tails, heads = terrain.moves()
    count = terrain.num_costs
    start, goal = terrain.number(terrain.start), terrain.number(terrain.goal)
    arcs = Arcs(tails, heads, heads, count, start, goal).useful()
    each = np.arange(len(arcs.tails))
    columns = scipy.sparse.csr_array(
        (np.ones(len(each)), (arcs.heads, each)), shape=(count, len(each))
    )
    always = np.zeros(count)
    always[start] = 1.0
    return arcs, columns, always
