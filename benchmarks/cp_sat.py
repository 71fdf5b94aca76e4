"""The nearest absolute explanation behind a random forest by CP-SAT, read off scikit-learn's trees.

It shares the thresholds' precision with the library, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
import torch
from ortools.sat.python import cp_model

from cfopt.problems import Problem
from cfopt.trees.ensemble import at_single_precision

#: Whole numbers that stand for 1, in losses and in cuts.
_LOSSES, _CUTS = 10**9, 10**9
#: What verification grants, as a fraction of the terms of a cut.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Nearest:
    """What CP-SAT found.

    Arguments:
        loss: the squared distance, inf if there is none.
        proved: whether nothing nearer exists.
        cuts: the decisions that were cut with.
        seconds: the seconds of one core, for everything.
        last: the seconds of one core, for the last solve, which has all cuts.
    """

    loss: float
    proved: bool
    cuts: int
    seconds: float
    last: float


class ForestModel:
    """A forest as leaves of which each tree has one, and comparisons that lead to them.

    Arguments:
        forest: a fitted RandomForestRegressor.
    """

    def __init__(self, forest: Any) -> None:
        self._forest = forest
        self._trees = [one.tree_ for one in forest.estimators_]
        self._edges = [
            np.unique(
                np.concatenate(
                    [at_single_precision(t.threshold[t.feature == f]) for t in self._trees]
                )
            )
            for f in range(forest.n_features_in_)
        ]

    def nearest(
        self,
        x0: np.ndarray,
        wanted: np.ndarray,
        factual: np.ndarray,
        problem: Problem,
        limit: float,
    ) -> Nearest:
        """The nearest context whose best decision is the wanted one.

        Costs need to be positive, as those of the grid are.

        Arguments:
            x0: the factual context, `(p,)`.
            wanted, factual: decisions, `(m,)`.
            problem: what is asked for the best decision.
            limit: seconds for all rounds.
        """
        began = process_time()
        model = cp_model.CpModel()
        below = [[model.new_bool_var("") for _ in edges] for edges in self._edges]
        for literals in below:
            for lower, upper in pairwise(literals):
                model.add_implication(lower, upper)
        leaves, values = self._leaves(model, below)
        values = values / len(self._trees)
        model.minimize(sum(self._losses(x0, below)))
        cut, cuts = factual, 0
        while True:
            direction = wanted - cut
            weights = values @ (direction - _TOLERANCE * np.abs(direction))
            whole = np.rint(_CUTS * weights).astype(np.int64)
            model.add(cp_model.LinearExpr.weighted_sum(leaves, whole.tolist()) <= 0)
            cuts += 1
            start = process_time()
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.max_time_in_seconds = max(1.0, limit - (start - began))
            status = solver.solve(model)
            last = process_time() - start
            proved = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
            if status != cp_model.OPTIMAL:
                return Nearest(np.inf, proved, cuts, process_time() - began, last)
            x = self._context(x0, [[solver.value(one) for one in each] for each in below])
            costs = self._forest.predict(x[None])
            best = problem.solve(torch.from_numpy(costs))[0].numpy()
            terms = costs[0] * (wanted - best)
            if terms.sum() <= _TOLERANCE * np.abs(terms).sum():
                loss = float(((x - x0) ** 2).sum())
                return Nearest(loss, proved, cuts, process_time() - began, last)
            cut = best

    def _leaves(self, model: cp_model.CpModel, below: list[list[Any]]) -> tuple[list[Any], Any]:
        """A literal for each leaf, of which one of each tree is true; what leaves add, `(L, n)`."""
        found, values = [], []
        for tree in self._trees:
            own = []
            edges = at_single_precision(tree.threshold)
            open_nodes: list[tuple[int, list[Any]]] = [(0, [])]
            while open_nodes:
                node, path = open_nodes.pop()
                f = int(tree.feature[node])
                if f < 0:
                    leaf = model.new_bool_var("")
                    for literal in path:
                        model.add_implication(leaf, literal)
                    own.append(leaf)
                    values.append(tree.value[node, :, 0])
                    continue
                lower = below[f][int(np.searchsorted(self._edges[f], edges[node]))]
                open_nodes.append((int(tree.children_left[node]), [*path, lower]))
                open_nodes.append((int(tree.children_right[node]), [*path, ~lower]))
            model.add_exactly_one(own)
            found += own
        return found, np.array(values)

    def _losses(self, x0: np.ndarray, below: list[list[Any]]) -> list[Any]:
        """What the loss grows by at each threshold that is between x0 and x."""
        terms = []
        for f, edges in enumerate(self._edges):
            squares = np.rint(_LOSSES * (edges - x0[f]) ** 2).astype(np.int64)
            home = int(np.searchsorted(edges, x0[f]))
            for k in range(home, len(edges)):  # above
                step = squares[k] - (squares[k - 1] if k > home else 0)
                terms.append(int(step) * (1 - below[f][k]))
            for k in range(home):  # at or below
                step = squares[k] - (squares[k + 1] if k + 1 < home else 0)
                terms.append(int(step) * below[f][k])
        return terms

    def _context(self, x0: np.ndarray, below: list[list[int]]) -> np.ndarray:
        """The context of a cell that is nearest to x0, `(p,)`."""
        x = x0.copy()
        for f, edges in enumerate(self._edges):
            j = len(edges) - sum(below[f])  # cell j is edges[j - 1] < x <= edges[j]
            if j > 0:
                x[f] = max(x[f], np.nextafter(edges[j - 1], np.inf))
            if j < len(edges):
                x[f] = min(x[f], edges[j])
        return x
