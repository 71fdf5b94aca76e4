"""Every decision of a problem, as limits on the change of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cfopt.types import Array, Quantifier

if TYPE_CHECKING:
    from cfopt.affine_task import AffineTask


class Listing:
    """The listed decisions of an affine task, with what they cost and how that changes.

    Arguments:
        model: the task.
        decisions: every decision, `(D, m)`.
    """

    def __init__(self, model: AffineTask, decisions: Array) -> None:
        self.model = model
        self.decisions = decisions
        self._slopes: Array = decisions @ model.slopes  # how values change with u, (D, p)

    def __len__(self) -> int:
        return len(self.decisions)

    def bounds(self, row: int) -> Array:
        """What it costs at least to meet the inequalities of each decision, limits apart: `(D,)`.

        The largest of the costs to reach one of their half-spaces.
        """
        model = self.model
        system = model.system(row)
        movable = system.lower < system.upper
        values = self.decisions @ model.prices0[row]
        bound: Array = np.zeros(len(self))
        for multiple in model.multiples(Quantifier.SOME):
            for end in model.ends(row):
                excess = multiple * values + end @ model.prices0[row]
                normals = (multiple * self._slopes + end @ model.slopes)[:, movable]
                bound = np.maximum(bound, model.norm.to_half_spaces(excess, normals))
        return bound

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
