"""The second-best route across a map."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import dijkstra

from cfopt._typing import Array
from cfopt.errors import SolverError
from cfopt.problems.conditions import Conditions
from cfopt.problems.map_routes import MapRoutes
from cfopt.problems.milp import MILP
from cfopt.problems.solved import NO_OTHER

if TYPE_CHECKING:
    from cfopt.problems.terrain import TerrainShortestPath


class SecondRoute:
    """The cheapest route that is another one than a given route, visiting no cell twice.

    Another route than the cheapest leaves it somewhere: it shares the first cells, then takes
    another move, and is as cheap as can be from there (Yen, 1971; the second of his k paths). Where
    a cost is negative, walks are decided that may visit a cell twice; so the cheapest other walk is
    found, by a program of flows in which the visits of some cell are more or fewer.

    Arguments:
        terrain: the map.
    """

    def __init__(self, terrain: TerrainShortestPath) -> None:
        self._terrain = terrain
        tails, heads = terrain.moves()
        order = np.lexsort((heads, tails))
        self._tails, self._heads = tails[order], heads[order]
        count = terrain.num_costs
        pointers = np.searchsorted(self._tails, np.arange(count + 1))
        self._graph = scipy.sparse.csr_array(
            (np.zeros(len(order)), self._heads.astype(np.int32), pointers.astype(np.int32)),
            shape=(count, count),
        )

    def find(self, prices: Array, decision: Array) -> Array:
        """Of one row: `(m,), (m,) -> (m,)`. SolverError if there is none."""
        best: Array = self._terrain.optimise(prices[None])[0]
        if not np.array_equal(best, decision.round()):
            return best
        if (prices < 0).any():
            return self._other_walk(prices, best)
        route = self._route(decision)
        if route is not None:
            leaving = list(self._leaving(prices, route))
            if not leaving:
                raise SolverError(NO_OTHER)
            visits = min(leaving, key=lambda visits: float(prices @ visits))
            if not np.array_equal(visits, decision.round()):
                return visits
        # Whatever else: at least one cell is visited that was not, or the other way round. Every
        # route is another one than a walk that visits a cell twice.
        own = decision.round()
        least = 1 - own.sum() if own.max() <= 1 else -np.inf
        other = Conditions((1 - 2 * own)[None], np.array([least]), np.array([np.inf]))
        routes = MapRoutes.of(self._terrain, other)
        if routes is None:
            raise SolverError(NO_OTHER)
        found: Array = routes.optimise(prices[None])[0]
        return found

    def _other_walk(self, prices: Array, own: Array) -> Array:
        """The cheapest walk with other visits: `(m,), (m,) -> (m,)`.

        With a column of 0 and 1 for each cell and way to differ, of which one is 1 at the least:
        `visits_j >= (own_j + 1) more_j` and `visits_j <= most_j - (most_j - own_j + 1) fewer_j`.
        """
        flows, limits = self._terrain.flow_rows()
        n, m = len(own), flows.shape[1] - len(own)
        most = flows[n:].maximum(-flows[n:]).sum(axis=1)  # a visit for each move in, and the start
        cell, nothing = scipy.sparse.eye_array(n), scipy.sparse.csr_array((n, n))
        moves = scipy.sparse.csr_array((n, m))
        matrix = scipy.sparse.block_array(
            [
                [flows[:, :n], flows[:, n:], None, None],
                [cell, moves, scipy.sparse.diags_array(-(own + 1)), nothing],
                [cell, moves, nothing, scipy.sparse.diags_array(most - own + 1)],
                [None, None, np.ones((1, n)), np.ones((1, n))],
            ]
        )
        endless, none = np.full(n, np.inf), np.zeros(n)
        columns = n + m + 2 * n
        program = MILP(
            matrix,
            np.concatenate([limits, none, -endless, [1.0]]),
            np.concatenate([limits, endless, most, [np.inf]]),
            upper=np.concatenate([most, np.ones(m + n), (own > 0).astype(float)]),
            integer=np.ones(columns, dtype=bool),
            cost_columns=list(range(n)),
        )
        try:
            found: Array = program.optimise(prices[None])[0, :n].round()
        except SolverError as error:
            raise SolverError(NO_OTHER) from error
        return found

    def _route(self, decision: Array) -> list[int] | None:
        path = self._terrain.cached_scene.path_of(decision)
        return None if path is None else [self._terrain.number(cell) for cell in _cells(path)]

    def _leaving(self, prices: Array, route: list[int]) -> Iterator[Array]:
        """The cheapest route that leaves a given one at each of its cells, if there is one."""
        goal = route[-1]
        weights = prices[self._heads]
        for k, (here, there) in enumerate(pairwise(route)):
            open_weights = weights.copy()
            open_weights[np.isin(self._heads, route[: k + 1])] = np.inf
            open_weights[(self._tails == here) & (self._heads == there)] = np.inf
            self._graph.data = open_weights
            costs, before = dijkstra(self._graph, indices=here, return_predecessors=True)
            if not np.isfinite(costs[goal]):
                continue
            visits = np.zeros(len(prices))
            visits[route[: k + 1]] = 1.0
            at = goal
            while at != here:
                visits[at] = 1.0
                at = int(before[at])
            yield visits


def _cells(path: list[tuple[int, int] | str]) -> list[tuple[int, int]]:
    return [cell for cell in path if not isinstance(cell, str)]
