"""A problem that may only decide what a wish admits, and one that may only decide the rest."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cfopt._typing import Array
from cfopt.errors import InputError, SolverError
from cfopt.problems.base import Problem
from cfopt.problems.conditions import Conditions
from cfopt.problems.finite import Finite
from cfopt.problems.foil import AllOf, Foil
from cfopt.problems.scene import Scene
from cfopt.problems.solved import Solved


class Restricted(Problem):
    """The decisions of a problem that meet conditions: the same columns, prices and names.

    Arguments:
        whole: the problem.
        conditions: what decisions must meet.
        solver: a problem over the same columns whose decisions are these.
    """

    def __init__(self, whole: Problem, conditions: Conditions, solver: Problem) -> None:
        self._whole, self._conditions, self._solver = whole, conditions, solver
        self.num_costs, self.sense, self.binary = whole.num_costs, whole.sense, whole.binary
        self.rowwise, self.tolerance = solver.rowwise, solver.tolerance
        self.deadline = whole.deadline

    @property
    def num_columns(self) -> int:
        return self._whole.num_columns

    @property
    def decision_names(self) -> tuple[str, ...] | None:
        return self._whole.decision_names

    @property
    def cost_names(self) -> tuple[str, ...] | None:
        return self._whole.cost_names

    @property
    def ranks_decisions(self) -> bool:
        return self._solver.ranks_decisions

    def scene(self) -> Scene:
        return self._whole.scene()

    def column_bounds(self) -> tuple[Array, Array]:
        return self._whole.column_bounds()

    def integer_columns(self) -> NDArray[np.bool_]:
        return self._whole.integer_columns()

    def prices(self, costs: Tensor) -> Tensor:
        return self._whole.prices(costs)

    def optimise(self, prices: Array) -> Array:
        return self._solver.optimise(prices)

    def optimise_within(self, prices: Array) -> tuple[Array, Array]:
        return self._solver.optimise_within(prices)

    def faults(self, decisions: Array) -> list[str]:
        met = self._conditions.met(decisions)
        return [
            fault or ("" if ok else "is not what is wished for")
            for fault, ok in zip(self._whole.faults(decisions), met, strict=True)
        ]

    def list_decisions(self, limit: int) -> Array | None:
        return self._solver.list_decisions(limit)

    def audit(self, decisions: Array) -> dict[int, str]:
        return self._solver.audit(decisions)

    def runner_up(self, prices: Tensor, decisions: Tensor) -> Solved:
        return self._solver.runner_up(prices, decisions)

    def has_equal(self, prices: Tensor, decisions: Tensor, tolerance: float) -> Tensor:
        return self._solver.has_equal(prices, decisions, tolerance)

    def remember(self, decisions: Array) -> None:
        self._whole.remember(decisions)

    def narrowed(self, conditions: Conditions) -> Problem | None:
        return self._solver.narrowed(conditions)

    def exact(self) -> Problem:
        proven = self._solver.exact()
        if proven is self._solver:
            return self
        other = copy(self)
        other._solver, other.tolerance = proven, proven.tolerance
        return other


class Either(Problem):
    """The decisions of any of several problems over the same columns.

    Arguments:
        problems: the problems, at least one.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = tuple(problems)
        first = self._problems[0]
        self.num_costs, self.sense, self.binary = first.num_columns, first.sense, first.binary
        self.rowwise = any(one.rowwise for one in self._problems)

    def optimise(self, prices: Array) -> Array:
        return self.optimise_within(prices)[0]

    def optimise_within(self, prices: Array) -> tuple[Array, Array]:
        """The best of what each decides; the best of all may be as good as any of their bounds."""
        solved = [one.optimise_within(prices) for one in self._problems]
        decisions = np.stack([decisions for decisions, _ in solved])
        values = self.sense.sign * (decisions * prices).sum(axis=2)
        bounds = values - np.stack([missed for _, missed in solved])
        best, each = values.argmin(axis=0), np.arange(len(prices))
        return decisions[best, each], values[best, each] - bounds.min(axis=0)

    def faults(self, decisions: Array) -> list[str]:
        every = zip(*(one.faults(decisions) for one in self._problems), strict=True)
        return ["" if "" in faults else faults[0] for faults in every]

    def exact(self) -> Problem:
        proven = [one.exact() for one in self._problems]
        same = all(a is b for a, b in zip(proven, self._problems, strict=True))
        return self if same else Either(proven)


class ByPrices(Problem):
    """Decisions of a binary problem with some columns taken and others not, by their prices.

    A price that outweighs all others rewards what must be taken, and another forbids what must not
    be: every decision that obeys is paid the same, so that one which obeys and is best for these
    prices is the best of those. An answer that does not obey is refused.

    Arguments:
        whole: the problem.
        conditions: conditions that single columns are 1, or 0.
    """

    binary = True

    def __init__(self, whole: Problem, conditions: Conditions) -> None:
        forced, forbidden, _ = conditions.split()
        self._whole, self._conditions = whole, conditions
        self.num_costs, self.sense, self.rowwise = whole.num_columns, whole.sense, whole.rowwise
        self._push: Array = np.zeros(whole.num_columns)
        self._push[forbidden] += 1.0
        self._push[[int(group[0]) for group in forced]] -= 1.0

    def optimise(self, prices: Array) -> Array:
        return self.optimise_within(prices)[0]

    def optimise_within(self, prices: Array) -> tuple[Array, Array]:
        weight = 2 * np.abs(prices).sum(axis=1, keepdims=True) + 1.0
        pushed = prices + self.sense.sign * weight * self._push
        decisions, shortfall = self._whole.optimise_within(pushed)
        if not self._conditions.met(decisions).all():
            raise SolverError("the solver does not return what is wished for")
        return decisions, shortfall

    def faults(self, decisions: Array) -> list[str]:
        return self._whole.faults(decisions)

    def exact(self) -> Problem:
        proven = self._whole.exact()
        return self if proven is self._whole else ByPrices(proven, self._conditions)


def restrict(problem: Problem, foil: Foil) -> Problem:
    """The problem whose decisions are those of a foil; InputError if there are none."""
    conditions = foil.conditions(problem)
    solver = problem.narrowed(conditions)
    if solver is not None:
        return Restricted(problem, conditions, solver)
    scene, parts = problem.cached_scene, foil.parts
    for part in foil.parts:  # leave out what is not to blame
        others = tuple(other for other in parts if other is not part)
        if others and problem.narrowed(AllOf(others).conditions(problem)) is None:
            parts = others
    raise InputError(
        f"A wish needs at least one {scene.noun} that grants it, but there is no {scene.noun} "
        f"{AllOf(parts).on(problem).phrase}. Ask for less."
    )


def outside(problem: Problem, conditions: Conditions) -> Problem | None:
    """The problem whose decisions break some of the conditions; None if there are none.

    Raises InputError where they are not a closed set.
    """
    listed = problem.decisions()
    if listed is not None:
        rest = listed.numpy()[~conditions.met(listed.numpy())]
        return Restricted(problem, conditions, Finite(rest, problem.sense)) if len(rest) else None
    negations = conditions.negations(problem.integer_columns())
    if negations is None:
        raise InputError(
            f"A margin on a wish needs conditions on whole numbers with whole coefficients, so "
            f"that what breaks them does so by 1, or decisions that can be listed, which those of "
            f"{type(problem).__name__} are not. Use margin=0."
        )
    found = [problem.narrowed(negation) for negation in negations]
    known = [one for one in found if one is not None]
    return Either(known) if known else None


def narrow(problem: Problem, conditions: Conditions) -> Problem | None:
    """What `Problem.narrowed` does for any problem: by a list of its decisions, or by prices."""
    listed = problem.decisions()
    if listed is not None:
        return Finite(listed.numpy(), problem.sense).narrowed(conditions)
    forced, _, rest = conditions.split()
    if problem.binary and not len(rest) and all(len(group) == 1 for group in forced):
        pushed = ByPrices(problem, conditions)
        try:
            pushed.optimise(np.zeros((1, problem.num_columns)))
        except SolverError:
            return None
        return pushed
    raise InputError(
        f"A wish needs decisions that can be listed, or that are 0 or 1 if it only says which "
        f"entries are taken and which are not; those of {type(problem).__name__} are not known to "
        "be. State the problem as a MILP, Finite, Knapsack or ShortestPath, or pass binary=True."
    )
