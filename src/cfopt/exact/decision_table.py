"""Every decision of a problem, as limits on the change of a context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry import FAR
from cfopt.question.quantifier import Quantifier

if TYPE_CHECKING:
    from cfopt.exact.affine_task import AffineTask

EPS = float(np.finfo(np.float64).eps)
#: Entries of a normal below this fraction of their terms are rounding.
NOISE = 64 * EPS
#: How many roundings of its terms a price may be off by.
DOUBT = 16


class DecisionTable:
    """The listed decisions of an affine task, with what they cost and how that changes.

    Arguments:
        model: the task.
        decisions: every decision, `(D, m)`.
    """

    def __init__(self, model: AffineTask, decisions: Array) -> None:
        self.model = model
        self.decisions = decisions
        self._slopes: Array = decisions @ model.slopes  # how values change with u, (D, p)
        self._sizes: Array = np.abs(decisions) @ np.abs(model.slopes)

    def __len__(self) -> int:
        return len(self.decisions)

    def bounds(self, row: int) -> Array:
        """What it costs at least to meet the inequalities of each decision, limits apart: `(D,)`.

        The largest of the costs to reach one of their half-spaces; inf where nothing that can
        move brings one nearer, and what verification grants is far too little.
        """
        system, norm = self.model.system(row), self.model.norm
        movable = system.lower < system.upper
        bound: Array = np.zeros(len(self))
        for excess, normals in self._half_spaces(row):
            cost = norm.to_half_spaces(excess, normals[:, movable])
            stuck = np.flatnonzero(cost == np.inf)
            if len(stuck):
                weights = self.model.weights(row, Quantifier.SOME, self.decisions[stuck])
                leeway = self.model.leeway(row, weights[:: len(weights) // len(stuck)])
                near = excess[stuck] <= FAR * leeway.constant
                granted = norm.to_half_spaces(
                    excess[stuck] - leeway.constant, leeway.growth[:, movable]
                )
                cost[stuck] = np.where(near, granted, np.inf)
            bound = np.maximum(bound, cost)
        return bound

    def held(self, row: int) -> list[int]:
        """Features that are held in place and alone would bring some half-space nearer."""
        system = self.model.system(row)
        held = system.lower == system.upper
        found = np.zeros_like(held)
        for excess, normals in self._half_spaces(row):
            stuck = (excess > 0) & ~normals[:, ~held].any(axis=1)
            found |= held & normals[stuck].any(axis=0)
        return [int(j) for j in np.flatnonzero(found)]

    def _half_spaces(self, row: int) -> Iterator[tuple[Array, Array]]:
        """Each inequality for all decisions: `normals @ u <= -excess`, `(D,)` and `(D, p)`."""
        model = self.model
        values = self.decisions @ model.prices0[row]
        for multiple in model.multiples(Quantifier.SOME):
            for end in model.ends(row):
                excess = multiple * values + end @ model.prices0[row]
                normals = multiple * self._slopes + end @ model.slopes
                noise = abs(multiple) * self._sizes + np.abs(end) @ np.abs(model.slopes)
                normals[np.abs(normals) <= NOISE * noise] = 0.0
                # Constant, and broken by no more than rounding: not broken.
                size = abs(multiple) * (np.abs(self.decisions) @ model.sizes[row])
                size += np.abs(end) @ model.sizes[row]
                level = ~normals.any(axis=1) & (excess <= DOUBT * model.eps * size)
                excess[level] = 0.0
                yield excess, normals

    def most_violated(self, row: int, u: Array, tolerance: float) -> int | None:
        """The decision that breaks what every one must meet the most after a change; or None."""
        model = self.model
        prices = model.prices0[row] + model.slopes @ u
        values, sizes = self.decisions @ prices, np.abs(self.decisions) @ np.abs(prices)
        worst: int | None = None
        largest = 0.0
        for multiple in model.multiples(Quantifier.EVERY):
            for end in model.ends(row):
                excess = multiple * values + end @ prices
                slack = tolerance * (abs(multiple) * sizes + np.abs(end) @ np.abs(prices))
                broken = np.where(excess > slack, excess, 0.0)
                k = int(broken.argmax())
                if broken[k] > largest:
                    worst, largest = k, float(broken[k])
        return worst
