"""Shortest paths over cells that cost something to visit, as on a map."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array, Indices
from cfopt.errors import InputError, SolverError
from cfopt.problems.base import Problem
from cfopt.problems.cells import Cells
from cfopt.problems.conditions import Conditions
from cfopt.problems.land import checked_land
from cfopt.problems.lattice import Cell, cell_names
from cfopt.problems.map_routes import MapRoutes
from cfopt.problems.milp import MILP
from cfopt.problems.second_route import SecondRoute
from cfopt.problems.solved import Solved

_SIDES = [(-1, 0), (0, -1), (0, 1), (1, 0)]
_CORNERS = [(-1, -1), (-1, 1), (1, -1), (1, 1)]
#: Costs that are swept at once: what fits a processor's cache.
_NUMBERS_AT_ONCE = 16_384


@registry.problems.register
class TerrainShortestPath(Problem):
    """The cheapest way across a map, where each visit of a cell costs what the cell costs.

    Y holds the visit counts of a unit-capacity flow from start to goal: each move between two
    neighbouring cells is made at most once in each direction. Where all costs are >= 0 the best of
    them is a simple path, found for the whole batch at once; a row with a negative cost, for which
    going in circles may pay, is solved as the linear program that the paper solves.

    Arguments:
        rows, cols: the cells of the map; decisions list them row by row.
        neighbours: 8 (with diagonals) or 4.
        start, goal: cells as (row, column); opposite corners by default.
        land: names of the kinds of land with their colours, as in `{"grass": "#6e9e48"}`, so that
            answers about images are described in these words.
    """

    def __init__(
        self,
        rows: int,
        cols: int,
        neighbours: int = 8,
        start: Cell = (0, 0),
        goal: Cell | None = None,
        land: Mapping[str, str] | None = None,
    ) -> None:
        if rows < 1 or cols < 1 or rows * cols < 2:
            raise InputError(f"A map needs at least two cells, got {rows} x {cols}.")
        if neighbours not in (4, 8):
            raise InputError(f"neighbours needs to be 4 or 8, got {neighbours}.")
        start = (int(start[0]), int(start[1]))
        goal = (int(goal[0]), int(goal[1])) if goal is not None else (rows - 1, cols - 1)
        for name, cell in (("start", start), ("goal", goal)):
            if not (0 <= cell[0] < rows and 0 <= cell[1] < cols):
                raise InputError(f"{name} {cell} lies outside the {rows} x {cols} map.")
        if start == goal:
            raise InputError(f"start and goal need to differ, got {start} for both.")
        self.rows, self.cols, self.neighbours = rows, cols, neighbours
        self.start, self.goal = start, goal
        self.land = checked_land(land)
        self.num_costs = rows * cols
        self._offsets = np.array(sorted(_SIDES + (_CORNERS if neighbours == 8 else [])))
        self._flow: MILP | None = None

    def optimise(self, prices: Array) -> Array:
        """A sweep where no cost is negative, the flow program for the other rows."""
        negative = (prices < 0).any(axis=1)
        if not negative.any():
            return self.sweep(prices)
        decisions = np.empty_like(prices)
        if not negative.all():
            decisions[~negative] = self.sweep(prices[~negative])
        decisions[negative] = self._flow_program().optimise(prices[negative])
        return decisions

    def faults(self, decisions: Array) -> list[str]:
        """A decision is feasible if some unit-capacity flow visits the cells that often."""
        whole = np.abs(decisions - decisions.round()).max(axis=1) < 1e-6
        return [
            self._fault(decision) if ok else "is not a path: visits are whole numbers"
            for ok, decision in zip(whole, decisions, strict=True)
        ]

    def _fault(self, decision: Array) -> str:
        # A simple path needs no program.
        if decision.min() > -0.5 and self.cached_scene.path_of(decision) is not None:
            return ""
        flow = self._flow_program().faults(decision[None])[0]
        return "is not a path from start to goal" if flow else ""

    def column_bounds(self) -> tuple[Array, Array]:
        return np.zeros(self.num_costs), np.full(self.num_costs, np.inf)

    def integer_columns(self) -> NDArray[np.bool_]:
        return np.ones(self.num_costs, dtype=bool)

    def scene(self) -> Cells:
        places = cell_names(self.rows, self.cols)
        start, goal = (row * self.cols + col for row, col in (self.start, self.goal))
        return Cells(
            entries=self.entries(places),
            places=places,
            start=start,
            goal=goal,
            lattice=(self.rows, self.cols),
            neighbours=self.neighbours,
            land=self.land,
        )

    def number(self, cell: Cell) -> int:
        """The entry of a decision that stands for a cell."""
        return cell[0] * self.cols + cell[1]

    def moves(self) -> tuple[Indices, Indices]:
        """From which cell to which one can move, by their numbers, `(A,)` twice."""
        cells = np.arange(self.num_costs).reshape(self.rows, self.cols)
        pairs = [
            (cells[i, j], cells[i + down, j + right])
            for i in range(self.rows)
            for j in range(self.cols)
            for down, right in self._offsets
            if 0 <= i + down < self.rows and 0 <= j + right < self.cols
        ]
        sources, targets = np.array(pairs).T
        return sources, targets

    def between(self, start: Cell, goal: Cell) -> TerrainShortestPath:
        """The same map with other ends."""
        return TerrainShortestPath(
            self.rows, self.cols, self.neighbours, start, goal, dict(self.land)
        )

    def narrowed(self, conditions: Conditions) -> Problem | None:
        """Routes that visit no cell twice: a walk that crosses itself is not a plan."""
        return MapRoutes.of(self, conditions)

    @property
    def ranks_decisions(self) -> bool:
        """Routes can be ranked, though visits are not limited to 0 and 1."""
        return True

    def runner_up(self, prices: Tensor, decisions: Tensor) -> Solved:
        """The second-best route; where a cost is negative, the second-best walk, as one is decided.

        Where no cost is negative, walks that cross themselves are left out.
        """
        host, own = (part.detach().to("cpu", torch.float64).numpy() for part in (prices, decisions))
        second, failures = SecondRoute(self), {}
        others = np.full(host.shape, np.nan)
        for row in range(len(host)):
            try:
                others[row] = second.find(host[row], own[row])
            except SolverError as error:
                failures[row] = str(error)
        return Solved(torch.from_numpy(others).to(prices.device, prices.dtype), failures)

    def sweep(self, prices: Array) -> Array:
        """Cheapest paths where no cost is negative, of as many maps at once as a cache holds."""
        at_once = max(1, _NUMBERS_AT_ONCE // self.num_costs)
        parts = [self._paths(prices[k : k + at_once]) for k in range(0, len(prices), at_once)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _paths(self, prices: Array) -> Array:
        """What each cell costs to reach, then the way back from the goal."""
        # Maps lie along the last axis and in a frame: neighbours are shifts of one long array.
        costs = np.zeros((self.rows + 2, self.cols + 2, len(prices)))
        costs[1:-1, 1:-1] = prices.T.reshape(self.rows, self.cols, -1)
        decisions, tied = self._walk_back(self._reach(costs), costs)
        if len(tied):
            decisions[tied] = self._settle_ties(prices[tied])
        return decisions

    def _reach(self, framed: Array) -> Array:
        """What reaching each cell costs, inf in the frame: `(rows + 2, cols + 2, B)`, as framed.

        Each round of Bellman and Ford's recursion offers every cell the cheapest way through its
        neighbours, or through itself, which is never better where costs are >= 0.
        """
        framed_reach = np.full(framed.shape, np.inf)
        reach, costs = framed_reach[1:-1, 1:-1], framed[1:-1, 1:-1]
        reach[self.start] = costs[self.start]
        columns, offered = np.empty_like(framed_reach[1:-1]), np.empty_like(costs)
        along = columns if self.neighbours == 8 else framed_reach[1:-1]
        while True:
            np.minimum(framed_reach[:-2], framed_reach[2:], out=columns)
            np.minimum(columns, framed_reach[1:-1], out=columns)
            np.minimum(along[:, :-2], along[:, 2:], out=offered)
            np.minimum(offered, columns[:, 1:-1], out=offered)
            offered += costs
            if not (offered < reach).any():
                return framed_reach
            np.minimum(reach, offered, out=reach)

    def _walk_back(self, reach: Array, costs: Array) -> tuple[Array, Indices]:
        """Decisions, and the rows that have none yet: several cells lead to one on the way back.

        Where only one leads to each, no rule for ties could have chosen another path.
        """
        count = reach.shape[2]
        reach, costs = reach.reshape(-1), costs.reshape(-1)
        width = (self.cols + 2) * count
        steps = self._offsets @ [width, count]
        visits = np.zeros(len(reach))
        start, goal = ((i + 1) * width + (j + 1) * count for i, j in (self.start, self.goal))
        at = np.arange(goal, goal + count)
        ties = []
        while True:
            visits[at] = 1.0
            at = at[(at < start) | (at >= start + count)]
            if not len(at):
                break
            leads_here = reach[at + steps[:, None]] + costs[at] == reach[at]
            unique = leads_here.sum(axis=0) == 1
            if not unique.all():
                ties.append(at[~unique] % count)
                at, leads_here = at[unique], leads_here[:, unique]
            at = at + steps[leads_here.argmax(axis=0)]
        inner = visits.reshape(self.rows + 2, self.cols + 2, count)[1:-1, 1:-1]
        decisions = np.ascontiguousarray(inner.reshape(self.num_costs, count).T)
        return decisions, np.concatenate(ties) if ties else np.empty(0, dtype=np.intp)

    def _settle_ties(self, prices: Array) -> Array:
        """The paths of fewest moves among the cheapest: the same recursion, with its history.

        Predecessors are recorded at strict improvement only: where costs are >= 0 they cannot form
        a circle, not even through cells that cost nothing.
        """
        shape = (len(prices), self.rows, self.cols)
        costs = prices.reshape(shape)
        framed = np.full((shape[0], self.rows + 2, self.cols + 2), np.inf)
        reach = framed[:, 1:-1, 1:-1]
        reach[:, *self.start] = costs[:, *self.start]
        came_from = np.zeros(shape, dtype=np.int8)
        while True:
            nearest, move = self._best_neighbour(framed)
            offered = nearest + costs
            better = offered < reach
            if not better.any():
                return self._trace_back(came_from)
            reach[better] = offered[better]
            came_from[better] = move[better]

    def _best_neighbour(self, framed: Array) -> tuple[Array, NDArray[np.int8]]:
        """The cheapest neighbour of each cell, and which of the offsets leads to it."""
        nearest = np.full((len(framed), self.rows, self.cols), np.inf)
        move = np.zeros(nearest.shape, dtype=np.int8)
        for k, (down, right) in enumerate(self._offsets):
            row, col = 1 + down, 1 + right
            neighbour = framed[:, row : row + self.rows, col : col + self.cols]
            move[neighbour < nearest] = k
            np.minimum(nearest, neighbour, out=nearest)
        return nearest, move

    def _trace_back(self, came_from: NDArray[np.int8]) -> Array:
        count = len(came_from)
        decisions = np.zeros((count, self.rows, self.cols))
        batch = np.arange(count)
        row, col = np.full(count, self.goal[0]), np.full(count, self.goal[1])
        decisions[:, *self.goal] = 1.0
        while len(batch):
            step = self._offsets[came_from[batch, row, col]]
            row, col = row + step[:, 0], col + step[:, 1]
            decisions[batch, row, col] = 1.0
            walking = (row != self.start[0]) | (col != self.start[1])
            batch, row, col = batch[walking], row[walking], col[walking]
        return decisions.reshape(count, -1)

    def flow_rows(self) -> tuple[scipy.sparse.csr_array, Array]:
        """The equations of walks that make each move at most once: `A (visits, moves) = b`.

        Visits first, then one column for each move: `visits = moves in (+ 1 at the start)`.
        """
        sources, targets = self.moves()
        n, m = self.num_costs, len(sources)
        moving = np.arange(m)
        into = scipy.sparse.csr_array((np.ones(m), (targets, moving)), shape=(n, m))
        out = scipy.sparse.csr_array((np.ones(m), (sources, moving)), shape=(n, m))
        balance, visits = np.zeros(n), np.zeros(n)
        balance[self.number(self.start)], balance[self.number(self.goal)] = -1.0, 1.0
        visits[self.number(self.start)] = 1.0
        matrix = scipy.sparse.block_array([[None, into - out], [scipy.sparse.eye_array(n), -into]])
        return scipy.sparse.csr_array(matrix), np.concatenate([balance, visits])

    def _flow_program(self) -> MILP:
        if self._flow is None:
            matrix, limits = self.flow_rows()
            n = self.num_costs
            upper = np.concatenate([np.full(n, np.inf), np.ones(matrix.shape[1] - n)])
            self._flow = MILP(matrix, limits, limits, upper=upper, cost_columns=list(range(n)))
        return self._flow
