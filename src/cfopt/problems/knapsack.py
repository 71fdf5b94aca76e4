"""Which items to pack: the multi-dimensional binary knapsack."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.problems.base import Problem
from cfopt.problems.conditions import Conditions
from cfopt.problems.finite import Finite
from cfopt.problems.milp import MILP
from cfopt.problems.scene import Items
from cfopt.problems.sense import Sense
from cfopt.problems.solved import FEASIBILITY_TOLERANCE, Solved

#: Up to this many feasible sets, scoring them all beats a MIP solve a row.
_LISTED_SETS = 100_000


@registry.problems.register
class Knapsack(Problem):
    """The most valuable set of items that respects every capacity; values may have any sign.

    Where few sets are feasible all of them are scored in one matrix product; otherwise HiGHS
    solves a MIP for each row.

    Arguments:
        weights: what each item takes of each resource, >= 0, `(resources, items)`.
        capacities: what there is of each resource, >= 0, `(resources,)`.
        time_limit: seconds for one MIP solve.
    """

    sense = Sense.MAX
    binary = True

    def __init__(
        self, weights: ArrayLike, capacities: ArrayLike, time_limit: float | None = None
    ) -> None:
        self.weights = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        self.capacities = np.atleast_1d(np.asarray(capacities, dtype=np.float64))
        resources, self.num_costs = self.weights.shape
        if self.capacities.shape != (resources,) or self.num_costs == 0:
            raise InputError(
                "Knapsack needs weights of shape (resources, items) and one capacity for each "
                f"resource; got {self.weights.shape} and {self.capacities.shape}."
            )
        for name, values in (("weights", self.weights), ("capacities", self.capacities)):
            if not (np.isfinite(values).all() and (values >= 0).all()):
                raise InputError(f"Knapsack needs {name} that are finite and >= 0.")
        listed = self.list_decisions(_LISTED_SETS)
        self._solver: Finite | MILP = (
            Finite(listed, self.sense)
            if listed is not None
            else MILP(
                self.weights,
                -np.inf,
                self.capacities,
                upper=1.0,
                integer=True,
                sense=self.sense,
                time_limit=time_limit,
            )
        )

    def optimise(self, prices: Array) -> Array:
        """Every feasible set scored where they are few, else a MIP a row."""
        return self._solver.optimise(prices)

    def runner_up(self, prices: Tensor, decisions: Tensor) -> Solved:
        return self._solver.runner_up(prices, decisions)

    def has_equal(self, prices: Tensor, decisions: Tensor, tolerance: float) -> Tensor:
        return self._solver.has_equal(prices, decisions, tolerance)

    def narrowed(self, conditions: Conditions) -> Problem | None:
        return self._solver.narrowed(conditions)

    def scene(self) -> Items:
        named = self.decision_names is not None
        return Items(
            entries=self.entries(None if named else [f"item {j}" for j in range(self.num_costs)]),
            noun="selection",
            nouns="selections",
            unit="" if named else "item",
            weights=tuple(map(tuple, self.weights.tolist())),
            capacities=tuple(self.capacities.tolist()),
        )

    def faults(self, decisions: Array) -> list[str]:
        faults = []
        for items in decisions:
            over = self.weights @ items - self.capacities
            broken = over > FEASIBILITY_TOLERANCE * np.maximum(1.0, self.capacities)
            if (np.abs(items * (1 - items)) > FEASIBILITY_TOLERANCE).any():
                faults.append("is not a set of items: entries need to be 0 or 1")
            elif broken.any():
                count, largest = broken.sum(), over.max()
                faults.append(
                    f"breaks {count} constraints of the knapsack (largest: {largest:.3g} over)"
                )
            else:
                faults.append("")
        return faults

    def list_decisions(self, limit: int) -> Array | None:
        """Every feasible set, the empty one first."""
        sets = np.zeros((1, self.num_costs), dtype=bool)  # an eighth of the memory of floats
        loads = np.zeros((1, len(self.capacities)))
        slack = FEASIBILITY_TOLERANCE * np.maximum(1.0, self.capacities)
        for item, weight in enumerate(self.weights.T):
            fits = (loads + weight <= self.capacities + slack).all(axis=1)
            if len(sets) + fits.sum() > limit:
                return None
            grown = sets[fits]
            grown[:, item] = True
            sets = np.concatenate([sets, grown])
            loads = np.concatenate([loads, loads[fits] + weight])
        return sets.astype(np.float64)
