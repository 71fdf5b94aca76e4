"""Every decision of a problem, as limits on the change of a context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from cfopt._typing import Array, Indices
from cfopt.exact.geometry import FAR, Norm, System
from cfopt.question.quantifier import Quantifier

if TYPE_CHECKING:
    from cfopt.exact.affine_task import AffineTask

EPS = float(np.finfo(np.float64).eps)
#: Entries of a normal below this fraction of their terms are rounding.
NOISE = 64 * EPS
#: How many roundings of its terms a price may be off by.
DOUBT = 16
#: How many bounds are sharpened at a time.
_SHARPENED = 128


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
        self._spread: list[Array] | None = None
        if model.off_by is not None:
            self._spread = [one.spread(decisions) for one in model.models]

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

        bounds = self._bounds(row, self._toppling(row), weights)
        for decision in self.model.passed_over(row):
            bounds[(self.decisions == decision).all(axis=1)] = np.inf
        return bounds

    def bounds_against(self, row: int, rival: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        """What it costs at least to let each decision beat a rival, limits apart: `(D,)`.

        With a margin, `<theta, y> + margin |<theta, y>| <= <theta, rival>`. And the half-spaces
        `normals @ u <= -excess` from which that follows, `(D,)` and `(D, p)` each.
        """
        margin = self.model.rules.margin
        multiples = (1.0 + margin, 1.0 - margin) if margin > 0 else (1.0,)

        def weights(model: AffineTask, some: Indices) -> Array:
            largest = max(
                self.model.largest_entry(row, rival[None]),
                float(np.abs(self.decisions).max(initial=0.0)),
            )
            found: Array = multiples[0] * np.abs(self.decisions[some]) + largest
            return found

        half_spaces = list(self._half_spaces(row, multiples, -rival[None]))
        bounds = self._bounds(row, half_spaces, weights)
        return bounds, [(excess, normals) for _, excess, normals in half_spaces]

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
        seen: list[tuple[Array, Array]] = []
        for model, excess, normals in half_spaces:
            seen.append((excess, normals))
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
        return self._sharpened(bound, system, seen) if len(seen) > 1 else bound

    def _sharpened(
        self, bound: Array, system: System, half_spaces: list[tuple[Array, Array]]
    ) -> Array:
        """Bounds by pairs of half-spaces, where they are least, until the least is such a one."""
        sharp = np.zeros(len(self), dtype=bool)
        while not sharp[least := int(bound.argmin())] and bound[least] < np.inf:
            some = np.argsort(np.where(sharp, np.inf, bound), kind="stable")[:_SHARPENED]
            part = [(excess[some], normals[some]) for excess, normals in half_spaces]
            by_case = _by_case(system, self.model.norm, part)
            if by_case is None:
                break
            bound[some] = np.maximum(bound[some], by_case.min(axis=1))
            sharp[some] = True
        return bound

    def promising(self, row: int, k: int) -> list[int]:
        """The units to hold for the case in which a decision seems nearest; none without a choice.

        What is not held obeys the limits on how many may change, and which.
        """
        system = self.model.system(row)
        support = system.support
        if support is None or support.cases is None:
            return []
        one = slice(k, k + 1)
        seen = [(excess[one], normals[one]) for _, excess, normals in self._toppling(row)]
        cost = _by_case(system, self.model.norm, seen)
        if cost is None or not cost.any():
            return []
        chosen = support.cases[int(cost.argmin())] > 0
        held = np.ones(len(support.open), dtype=bool)
        held[support.unit[chosen]] = False
        return [int(unit) for unit in np.flatnonzero(held & support.open)]

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
        yield from self._half_spaces(row, multiples, ends)
        yield from self._half_spaces(row, (1.0,), -self.model.passed_over(row))

    def _half_spaces(
        self, row: int, multiples: Sequence[float], ends: Array
    ) -> Iterator[tuple[AffineTask, Array, Array]]:
        """Each inequality for all decisions: `normals @ u <= -excess`, `(D,)` and `(D, p)`.

        With the task of the predictor that it is about.
        """
        every = (self.model.models, self._slopes, self._sizes)
        for number, (model, slopes, sizes) in enumerate(zip(*every, strict=True)):
            values = self.decisions @ model.prices0[row]
            for multiple in multiples:
                for end in ends:
                    excess = multiple * values + end @ model.prices0[row]
                    excess += self._shift(number, multiple, end)
                    normals = multiple * slopes + end @ model.slopes
                    noise = abs(multiple) * sizes + np.abs(end) @ np.abs(model.slopes)
                    normals[np.abs(normals) <= NOISE * noise] = 0.0
                    # Constant, and broken by no more than rounding: not broken.
                    size = abs(multiple) * (np.abs(self.decisions) @ model.sizes[row])
                    size += np.abs(end) @ model.sizes[row]
                    level = ~normals.any(axis=1) & (excess <= DOUBT * model.eps * size)
                    excess[level] = 0.0
                    yield model, excess, normals

    def _shift(self, number: int, multiple: float, end: Array) -> Array | float:
        """What decisions may add where contexts are off, under one of the predictors: `(D,)`."""
        if self._spread is None:
            return 0.0
        model = self.model.models[number]
        return model.spreading(multiple * self._spread[number] + model.spread(end[None]))

    def most_violated(self, row: int, u: Array, tolerance: float) -> int | None:
        """The decision that breaks what every one must meet the most after a change; or None."""
        worst: int | None = None
        largest = 0.0
        for number, model in enumerate(self.model.models):
            prices = model.prices0[row] + model.slopes @ u
            values, sizes = self.decisions @ prices, np.abs(self.decisions) @ np.abs(prices)
            for multiple in model.multiples(Quantifier.EVERY):
                for end in model.ends(row):
                    excess = multiple * values + end @ prices
                    excess += self._shift(number, multiple, end)
                    slack = tolerance * (abs(multiple) * sizes + np.abs(end) @ np.abs(prices))
                    broken = np.where(excess > slack, excess, 0.0)
                    k = int(broken.argmax())
                    if broken[k] > largest:
                        worst, largest = k, float(broken[k])
        return worst


def _by_case(system: System, norm: Norm, half_spaces: list[tuple[Array, Array]]) -> Array | None:
    """What it costs at least to reach any two half-spaces of each decision, for each case.

    Of a support, whose cases are H; without one there is one. `(D, H)`; None where the cases are
    too many to list.

    Arguments:
        half_spaces: excess and normals of all decisions, `(D,)` and `(D, p)`.
    """
    cases = np.ones((1, len(system.lower)))
    if system.support is not None:
        if system.support.cases is None:
            return None
        cases = system.support.cases
    cases = cases * (system.lower < system.upper)
    cost: Array = np.zeros((len(half_spaces[0][0]), len(cases)))
    for pair in combinations(half_spaces, 2) if len(half_spaces) > 1 else [half_spaces * 2]:
        excess, normals = (np.stack(part) for part in zip(*pair, strict=True))
        cost = np.maximum(cost, norm.to_both(excess, normals, cases))
    return cost
