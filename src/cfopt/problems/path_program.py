"""Cheapest simple paths that meet linear conditions, by mixed-integer programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from cfopt._typing import Array, Indices
from cfopt.errors import SolverError
from cfopt.problems.arcs import Arcs, walk
from cfopt.problems.base import Problem
from cfopt.problems.conditions import Conditions
from cfopt.problems.highs import HighsModel
from cfopt.problems.linear_model import LinearModel
from cfopt.problems.sense import Sense


class PathProgram(Problem):
    """Unit flows from source to target that visit no node twice and meet conditions.

    A flow may consist of a path and circles beside it, which a condition can make worthwhile. A
    circle over the nodes S is cut off by "what enters S is at least what enters v", for each of its
    nodes v: true of every path that begins outside of S. Each solve begins without cuts: with those
    of earlier ones, another of several cheapest paths might be found. Costs may have any sign.

    Arguments:
        arcs: the arcs of the graph.
        columns: which entries of a decision an arc adds to, `(m, A)`, sparse.
        always: what every decision has besides, `(m,)`.
        conditions: conditions on decisions.
    """

    binary = True
    rowwise = True

    def __init__(self, arcs: Arcs, columns: Any, always: Array, conditions: Conditions) -> None:
        self._arcs, self._columns, self._always = arcs, columns, always
        self._conditions = conditions
        self.num_costs = len(always)
        count = len(arcs.tails)
        each = np.arange(count)
        shape = (arcs.num_nodes, count)
        into = scipy.sparse.csr_array((np.ones(count), (arcs.heads, each)), shape=shape)
        out = scipy.sparse.csr_array((np.ones(count), (arcs.tails, each)), shape=shape)
        balance = np.zeros(arcs.num_nodes)
        balance[arcs.source], balance[arcs.target] = -1.0, 1.0
        base = conditions.matrix @ always
        matrix = scipy.sparse.vstack([into - out, into, conditions.matrix @ columns])
        lower = [balance, np.zeros(arcs.num_nodes), conditions.lower - base]
        upper = [balance, np.ones(arcs.num_nodes), conditions.upper - base]
        self._model = LinearModel.of(
            matrix, np.concatenate(lower), np.concatenate(upper), 0.0, 1.0, True
        )
        self._highs: HighsModel | None = None

    @classmethod
    def of(
        cls, arcs: Arcs, columns: Any, always: Array, conditions: Conditions
    ) -> PathProgram | None:
        """The program, or None if no path meets the conditions."""
        made = cls(arcs, columns, always, conditions)
        try:
            made.optimise(np.zeros((1, made.num_costs)))
        except SolverError:
            return None
        return made

    def optimise(self, prices: Array) -> Array:
        return np.stack([self._solve(row) for row in prices])

    def faults(self, decisions: Array) -> list[str]:
        met = self._conditions.met(decisions)
        return ["" if ok else "breaks the conditions on paths" for ok in met]

    def list_decisions(self, limit: int) -> Array | None:
        paths = self._arcs.simple_paths(limit)
        if paths is None:
            return None
        taken = np.zeros((len(paths), len(self._arcs.tails)))
        for row, path in enumerate(paths):
            taken[row, path] = 1.0
        decisions: Array = np.unique((self._columns @ taken.T).T + self._always, axis=0)
        return decisions[self._conditions.met(decisions)]

    def narrowed(self, conditions: Conditions) -> PathProgram | None:
        both = Conditions.join([self._conditions, conditions])
        return PathProgram.of(self._arcs, self._columns, self._always, both)

    def _solve(self, prices: Array) -> Array:
        """One row: programs until the flow is a path, `(m,) -> (m,)`."""
        arcs, costs, model = self._arcs, prices @ self._columns, self._model
        ends = np.column_stack([arcs.tails, arcs.heads]).tolist()
        every = np.arange(len(costs), dtype=np.int32)
        if self._highs is None:
            self._highs = HighsModel(model, Sense.MIN)
        highs = self._highs
        while True:
            flow = highs.solve(every, costs).round()
            taken = np.flatnonzero(flow).tolist()
            way = walk(ends, taken, arcs.source, arcs.target, True)
            if not way.left:
                decision: Array = self._columns @ flow + self._always
                return decision
            model = model.with_rows(every, self._cuts(np.array(sorted(way.left), dtype=np.intp)))
            highs = HighsModel(model, Sense.MIN)

    def _cuts(self, left: Indices) -> Conditions:
        """What cuts off the circles that some arcs form."""
        arcs = self._arcs
        onward = {int(arcs.tails[a]): int(arcs.heads[a]) for a in left}
        rows = []
        while onward:
            circle = [next(iter(onward))]
            while circle[-1] in onward:
                circle.append(onward.pop(circle[-1]))
            inside = np.zeros(arcs.num_nodes, dtype=bool)
            inside[circle] = True
            entering = (inside[arcs.heads] & ~inside[arcs.tails]).astype(float)
            rows += [entering - (arcs.heads == node) for node in set(circle)]
        return Conditions(np.array(rows), np.zeros(len(rows)), np.full(len(rows), np.inf))

    def __getstate__(self) -> dict[str, Any]:
        # A HiGHS instance cannot be pickled; it is rebuilt where it is needed.
        return self.__dict__ | {"_highs": None}
