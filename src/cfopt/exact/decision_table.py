"""Every decision of a problem, as limits on the change of a context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cfopt._typing import Array, Indices
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
        # How values change with u under each predictor, and what that is a sum of: (D, p) each.
        self._slopes: list[Array] = [decisions @ one.slopes for one in model.models]
        self._sizes: list[Array] = [np.abs(decisions) @ np.abs(one.slopes) for one in model.models]

    def __len__(self) -> int:
        return len(self.decisions)

    def bounds(self, row: int) -> Array:
        """What it costs at least to meet the inequalities of each decision, limits apart: `(D,)`.

        The largest of the costs to reach one of their half-spaces; inf where nothing that can
        move brings one nearer, and what verification grants is far too little.
        """

        def weights(model: AffineTask, some: Indices) -> Array:
            each = model.weights(row, Quantifier.SOME, self.decisions[some])
            return each[:: len(each) // len(some)]

        return self._bounds(row, self._toppling(row), weights)

    def bounds_against(self, row: int, rival: Array) -> Array:
        """What it costs at least to let each decision beat a rival, limits apart: `(D,)`.

        With a margin, `<theta, y> + margin |<theta, y>| <= <theta, rival>`.
        """
        margin = self.model.rules.margin
        multiples = (1.0 + margin, 1.0 - margin) if margin > 0 else (1.0,)
        largest = max(
            self.model.largest_entry(row, rival[None]),
            float(np.abs(self.decisions).max(initial=0.0)),
        )

        def weights(model: AffineTask, some: Indices) -> Array:
            found: Array = multiples[0] * np.abs(self.decisions[some]) + largest
            return found

        return self._bounds(row, self._half_spaces(row, multiples, -rival[None]), weights)

    def _bounds(
        self,
        row: int,
        half_spaces: Iterable[tuple[AffineTask, Array, Array]],
        weights: Callable[[AffineTask, Indices], Array],
    ) -> Array:
        system, norm = self.model.system(row), self.model.norm
        movable = system.lower < system.upper
        support = system.support
        bound: Array = np.zeros(len(self))
        for model, excess, normals in half_spaces:
            cost = norm.to_half_spaces(excess, normals * movable, support)
            stuck = np.flatnonzero(cost == np.inf)
            if len(stuck):
                leeway = model.own_leeway(row, weights(model, stuck))
                near = excess[stuck] <= FAR * leeway.constant
                granted = norm.to_half_spaces(
                    excess[stuck] - leeway.constant, leeway.growth * movable, support
                )
                cost[stuck] = np.where(near, granted, np.inf)
            bound = np.maximum(bound, cost)
        return bound

    def held(self, row: int) -> list[int]:
        """Features that are held in place and alone would bring some half-space nearer."""
        return self._held(row, self._toppling(row))

    def held_against(self, row: int, rivals: Array) -> list[int]:
        """The same of the half-spaces in which decisions beat rivals, `(K, m)`."""
        return self._held(row, self._half_spaces(row, (1.0,), -rivals))

    def _held(self, row: int, half_spaces: Iterable[tuple[AffineTask, Array, Array]]) -> list[int]:
        system = self.model.system(row)
        held = system.lower == system.upper
        found = np.zeros_like(held)
        for _, excess, normals in half_spaces:
            stuck = (excess > 0) & ~normals[:, ~held].any(axis=1)
            found |= held & normals[stuck].any(axis=0)
        return [int(j) for j in np.flatnonzero(found)]

    def _toppling(self, row: int) -> Iterator[tuple[AffineTask, Array, Array]]:
        """What a decision must meet to be the one that is enough."""
        multiples, ends = self.model.multiples(Quantifier.SOME), self.model.ends(row)
        return self._half_spaces(row, multiples, ends)

    def _half_spaces(
        self, row: int, multiples: Sequence[float], ends: Array
    ) -> Iterator[tuple[AffineTask, Array, Array]]:
        """Each inequality for all decisions: `normals @ u <= -excess`, `(D,)` and `(D, p)`.

        With the task of the predictor that it is about.
        """
        every = (self.model.models, self._slopes, self._sizes)
        for model, slopes, sizes in zip(*every, strict=True):
            values = self.decisions @ model.prices0[row]
            for multiple in multiples:
                for end in ends:
                    excess = multiple * values + end @ model.prices0[row]
                    excess += model.shift(multiple * self.decisions + end)
                    normals = multiple * slopes + end @ model.slopes
                    noise = abs(multiple) * sizes + np.abs(end) @ np.abs(model.slopes)
                    normals[np.abs(normals) <= NOISE * noise] = 0.0
                    # Constant, and broken by no more than rounding: not broken.
                    size = abs(multiple) * (np.abs(self.decisions) @ model.sizes[row])
                    size += np.abs(end) @ model.sizes[row]
                    level = ~normals.any(axis=1) & (excess <= DOUBT * model.eps * size)
                    excess[level] = 0.0
                    yield model, excess, normals

    def most_violated(self, row: int, u: Array, tolerance: float) -> int | None:
        """The decision that breaks what every one must meet the most after a change; or None."""
        worst: int | None = None
        largest = 0.0
        for model in self.model.models:
            prices = model.prices0[row] + model.slopes @ u
            values, sizes = self.decisions @ prices, np.abs(self.decisions) @ np.abs(prices)
            for multiple in model.multiples(Quantifier.EVERY):
                for end in model.ends(row):
                    excess = multiple * values + end @ prices
                    excess += model.shift(multiple * self.decisions + end)
                    slack = tolerance * (abs(multiple) * sizes + np.abs(end) @ np.abs(prices))
                    broken = np.where(excess > slack, excess, 0.0)
                    k = int(broken.argmax())
                    if broken[k] > largest:
                        worst, largest = k, float(broken[k])
        return worst
