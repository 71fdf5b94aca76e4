"""The plans that grant a wish: the best of them at given prices, and the best of the others."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.problems.base import Problem
from cfopt.problems.foil import Foil
from cfopt.problems.restricted import outside
from cfopt.problems.solved import NO_OTHER, ROUNDING, Solved


class Wish:
    """A foil of a problem, with a solver of its own: one more solve at each point of a search.

    Arguments:
        problem: what is solved.
        foil: the wish; InputError if no decision grants it.
        margin: the fraction by which its best plan must win; with one, what it must win against
            are the decisions that do not grant the wish.
    """

    def __init__(self, problem: Problem, foil: Foil, margin: float = 0.0) -> None:
        self._problem = problem
        self.conditions = foil.conditions(problem)
        self.plans = problem.restricted(foil)
        self._latest: tuple[Tensor, int, Solved] | None = None
        self._others: tuple[Problem | None] | None = None
        if margin > 0:
            self._outside()  # which raises InputError where they cannot be asked for

    def exact(self) -> Wish:
        """The same, whose answers are proven."""
        problem, plans = self._problem.exact(), self.plans.exact()
        if problem is self._problem and plans is self.plans:
            return self
        other = copy(self)
        other._problem, other.plans = problem, plans
        other._latest = other._others = None
        return other

    def best(self, problem: Problem, prices: Tensor) -> Solved:
        """The best plans for turned prices: `(B, m) -> Solved`.

        Rules ask for those of one tensor again and again: the latest are kept.

        Arguments:
            problem: the problem whose deadline holds.
        """
        known = self._latest
        if known is not None and known[0] is prices and known[1] == prices._version:
            return known[2]
        solved = self.plans.until(problem.deadline).attempt(problem.sense.sign * prices)
        self._latest = prices, prices._version, solved
        return solved

    def best_outside(self, problem: Problem, prices: Tensor) -> Solved:
        """The best decisions that do not grant the wish, for turned prices: `(B, m) -> Solved`."""
        others = self._outside()
        if others is None:
            nothing = torch.full_like(prices, torch.nan)
            return Solved(nothing, dict.fromkeys(range(len(prices)), NO_OTHER))
        return others.until(problem.deadline).attempt(problem.sense.sign * prices)

    def ties(self, problem: Problem, prices: Tensor, optimum: Tensor, tolerance: float) -> Tensor:
        """Whether a decision that does not grant the wish is as good as the best plan: `(B,)`.

        Where such decisions cannot be asked for, whether the solver has returned one.
        """
        returned = torch.from_numpy(~self.conditions.met(_host(optimum))).to(prices.device)
        try:
            others = self.best_outside(problem, prices)
        except InputError:
            return returned
        terms = prices * (others.decisions.to(prices) - self.best(problem, prices).decisions)
        slack = tolerance * terms.abs().sum(1) + ROUNDING * prices.abs().amax(1)
        return returned | (terms.sum(1) <= slack)

    def _outside(self) -> Problem | None:
        """The problem of the decisions that do not grant the wish, made once; None without any."""
        if self._others is None:
            self._others = (outside(self._problem, self.conditions),)
        return self._others[0]


def _host(decisions: Tensor) -> Array:
    array: Array = decisions.detach().to("cpu", torch.float64).numpy()
    return array
