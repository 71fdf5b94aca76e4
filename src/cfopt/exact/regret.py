"""What all decisions lack in a box of cells: a bound by one solve, without a list of them.

A criterion that some decision is to meet, `<p(x), a y + e> <= 0`, is refuted in a box where the
least over all contexts and all decisions is above 0. With the prices r of one context and the best
decision z there,

    <p, a y + e> = <p, a z + e> + a <p, y - z>,    p = s r + rest,    <r, y - z> >= 0,

the first term is bounded as the cut of z is, the second by the least s and by the least and the
greatest rest of each price: a function that is linear in y, whose minimum is a solve.

A wish is of this kind, too: it is granted only where some plan y of those that grant it is no worse
than each of some rivals, `<p(x), y - rival> <= 0`; the solves are then those under the wish. With a
margin, `(1 + margin) y` and `(1 - margin) y` stand for y, of which one has the larger value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from cfopt._typing import Array, Indices
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.exact.tree_task import SUMS, TreeTask
from cfopt.problems.base import Problem
from cfopt.problems.solved import FEASIBILITY_TOLERANCE
from cfopt.question.quantifier import Quantifier
from cfopt.trees.arrays import Spreads

#: By what fraction of its terms a bound must exceed 0, so that sums in another order agree.
_MARGIN = 1e-10
#: The same where only the factual decision is to be told from a better one, by a small number.
_LEAST = 1e-13


class References(NamedTuple):
    """Contexts, one for each box, that bounds refer to.

    Arguments:
        prices, best: the prices there and the best decision, `(B, m)` each.
        shortfall: how far it may fall short of the best, `(B,)`; inf where there is none.
        which: the number of the inequality that is broken most there, `(B,)`.
        excess: by how much, less what verification grants, `(B,)`.
        directions, weights: the direction of that inequality, `(B, m)`, and its costs, `(B, n)`.
    """

    prices: Array
    best: Array
    shortfall: Array
    which: Indices
    excess: Array
    directions: Array
    weights: Array


class RegretBounds:
    """Bounds for one row of a task that `refusal` accepts.

    Arguments:
        model, row: the row.
        rivals: for a wish, decisions that its plans must not be worse than, `(K, m)`, or that they
            must beat by the margin.
    """

    def __init__(self, model: TreeTask, row: int, rivals: Array | None = None) -> None:
        self._model, self._problem = model, model.rules.problem
        self.least, self.most = self._problem.column_bounds()
        entry = np.maximum(np.abs(self.least), np.abs(self.most))
        if (wish := model.rules.wish) is None:
            multiples, ends = np.array(model.multiples(Quantifier.SOME)), model.ends(row)
            against = np.abs(ends)
        else:
            assert rivals is not None
            margin = model.rules.margin
            # Of each sign that a plan's value may have; the bound needs multiples >= 0.
            wins = {1 + margin, 1 - margin}
            multiples = np.array(sorted((one for one in wins if one >= 0), reverse=True))
            self._problem, ends = wish.plans, -rivals
            against = np.broadcast_to(entry, ends.shape)  # whichever rival verification meets
        self._multiples: Array = np.repeat(multiples, len(ends))
        self._ends: Array = np.tile(ends, (len(multiples), 1))
        against = np.tile(against, (len(multiples), 1))
        # What verification grants is a fraction of terms that are linear in decisions >= 0.
        largest = np.abs(multiples).max()
        self._eased: Array = np.tile(TOLERANCE * largest * model.sizes, (len(against), 1))
        terms = largest * entry + against
        size = terms @ model.sizes
        self._granted: Array = TOLERANCE * against @ model.sizes
        self._granted += (SUMS * model.ensemble.precision + _MARGIN) * size
        self._granted += model.rules.rounding * model.largest[row] * terms.sum(axis=1)
        if not model.rules.problem.ranks_decisions:
            self._granted += FEASIBILITY_TOLERANCE * size
        if (self.least < 0).any():
            self._granted += self._eased @ entry
            self._eased = np.zeros_like(self._eased)
        if model.rules.wish is None:
            self._ask_for_lead(model, row, entry)

    def _ask_for_lead(self, model: TreeTask, row: int, entry: Array) -> None:
        """Add that a decision must unseat the factual one, where two differ by 1 at the least."""
        rules, factual = model.rules, model.unseated(row)
        whole = rules.problem.ranks_decisions and rules.problem.integer_columns().all()
        if not len(factual) or not whole or rules.size is None:
            return
        rounding = (_LEAST + SUMS * model.ensemble.precision) * (
            (entry + np.abs(factual)) @ model.sizes
        )
        self._multiples = np.append(self._multiples, 1.0)
        self._ends = np.concatenate([self._ends, -factual])
        self._eased = np.concatenate([self._eased, np.zeros_like(factual)])
        self._granted = np.append(self._granted, rounding - rules.lead * float(rules.size[row]))

    @staticmethod
    def refusal(task: Task) -> str:
        """Why decisions that are not listed cannot be bounded, or ""."""
        problem, name = task.rules.problem, type(task.rules.problem).__name__
        if task.variation is not None:
            return "one of them has to be enough under each of several predictors"
        if not all(np.isfinite(ends).all() for ends in problem.column_bounds()):
            return f"entries of decisions of {name} have no bounds that are known"
        if task.rules.wish is None and Quantifier.EVERY in task.rules.criterion.multiples:
            return f"{type(task.rules.criterion).__name__} is about every decision as well"
        return ""

    @property
    def count(self) -> int:
        """How many inequalities the criterion is made of."""
        return len(self._multiples)

    def direction(self, decision: Array, which: int) -> Array:
        """The d of one of the inequalities for a decision: `(m,) -> (m,)`."""
        found: Array = self._multiples[which] * decision + self._ends[which]
        return found

    def references(self, costs: Array, which: Indices | None = None) -> References:
        """Contexts with some costs, `(B, n)`, and the best decisions there.

        With the inequalities that bounds are to be about, `(B,)`, by default those broken most.
        """
        model = self._model
        prices = model.rules.turned(torch.from_numpy(costs)).numpy()
        best, shortfall = self._solve(prices)
        best = np.clip(best, self.least, self.most)
        directions = self._multiples[:, None] * best[:, None] + self._ends
        values = (directions * prices[:, None]).sum(axis=2) - self._granted
        values -= best @ self._eased.T
        which = values.argmax(axis=1) if which is None else which
        rows = np.arange(len(best))
        chosen = directions[rows, which]
        weights = chosen @ model.per_cost.T
        return References(prices, best, shortfall, which, values[rows, which], chosen, weights)

    def excess(self, at: References, spreads: Spreads) -> tuple[Array, Array]:
        """What the criterion is broken by at least in boxes, and the decisions that come nearest.

        `(B,)` and `(B, m)`: where it is above 0, no decision meets the criterion in the box.

        Arguments:
            at: what the bounds refer to.
            spreads: how much costs differ in the boxes, with `at.weights`.
        """
        model, a = self._model, self._multiples[at.which][:, None]
        s, t = spreads.share[:, :1], spreads.share[:, 1:]
        up, down = np.maximum(model.per_cost, 0.0), np.maximum(-model.per_cost, 0.0)
        low = spreads.rest[:, 0] @ up - spreads.rest[:, 1] @ down
        high = spreads.rest[:, 1] @ up - spreads.rest[:, 0] @ down
        # What is fixed about prices does not grow with s.
        low += np.minimum((1 - s) * model.fixed, (1 - t) * model.fixed)
        high += np.maximum((1 - s) * model.fixed, (1 - t) * model.fixed)
        width = np.where(self.most > self.least, self.most - self.least, 1.0)
        before, after = at.best - self.least, self.most - at.best
        chord = np.where(self.most > self.least, (low * after + high * before) / width, 0.0)
        slope = a * (s * at.prices + chord)
        constant = spreads.least + at.weights @ model.ensemble.base + at.directions @ model.fixed
        at_best = s * at.prices * at.best + high * before + chord * self.least
        constant = constant - (a * at_best).sum(axis=1)
        constant -= self._granted[at.which]
        most = np.abs(spreads.share).max(axis=1)
        constant -= np.where(most > 0, 2 * a[:, 0] * most * at.shortfall, 0.0)
        eased = slope - self._eased[at.which]
        # Solvers of problems with prices >= 0 may rely on that.
        raised = np.where((slope >= 0) & (eased < 0), -eased, 0.0)
        constant -= raised @ np.maximum(self.most, 0.0)
        slope = eased + raised
        worst, short = self._solve(slope)
        found = constant + (slope * worst).sum(axis=1) - short
        return np.where(np.isnan(found), -np.inf, found), worst

    def _solve(self, prices: Array) -> tuple[Array, Array]:
        """The best decisions for turned prices; a shortfall of inf where there is none."""
        problem: Problem = self._problem
        solved = problem.attempt(problem.sense.sign * torch.from_numpy(prices))
        decisions = solved.decisions.numpy()
        short = np.zeros(len(prices)) if solved.shortfall is None else solved.shortfall.numpy()
        lost = list(solved.failures)
        decisions[lost], short[lost] = np.clip(0.0, self.least, self.most), np.inf
        return decisions, short
