"""Every decision of a problem, as limits on the change of a context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

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
_SHARPENED = 64
#: All decisions.
_ALL = slice(None)

#: An inequality of decisions, `normals @ u <= -excess`, and the task of the predictor that it is
#: about.
HalfSpace: TypeAlias = "tuple[AffineTask, Array, Array]"
#: By how much of each price inequalities of some decisions can be about.
Weights: TypeAlias = "Callable[[AffineTask, Indices], Array]"


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

        The largest of the costs to reach one of their half-spaces, and of the least of all to reach
        any two; inf where nothing that can move brings one nearer, and what verification grants is
        far too little.
        """

        def weights(model: AffineTask, some: Indices) -> Array:
            each = model.weights(row, Quantifier.SOME, self.decisions[some])
            return each[:: len(each) // len(some)]

        better = np.concatenate([self.model.passed_over(row), self.model.unseated(row)])

        def further(some: Indices) -> Iterator[HalfSpace]:
            return self._half_spaces(row, (1.0,), -better, some)

        multiples, ends = self.model.multiples(Quantifier.SOME), self.model.ends(row)
        half_spaces = list(self._half_spaces(row, multiples, ends))
        system = self.model.system(row)
        bounds = self._bounds(row, system, half_spaces, weights)
        bounds[~self.model.may_suffice(row, self.decisions)] = np.inf
        if len(half_spaces) + len(better) > 1:
            self._sharpen(bounds, row, system, half_spaces, weights, further)
        return bounds

    def bounds_against(self, row: int, rivals: Array) -> tuple[Array, Array, Array]:
        """What it costs at least to let each decision beat each rival, limits apart: `(D,)`.

        With a margin, `<theta, y> + margin |<theta, y>| <= <theta, rival>`. And the half-spaces
        `normals @ u <= -excess` from which that follows, those of the first rival first: `(C, D)`
        and `(C, D, p)`.

        Arguments:
            rivals: `(K, m)`.
        """
        margin = self.model.rules.margin
        multiples = (1.0 + margin, 1.0 - margin) if margin > 0 else (1.0,)
        system = self.model.system(row)

        def weights(model: AffineTask, some: Indices) -> Array:
            largest = max(
                self.model.largest_entry(row, rivals),
                float(np.abs(self.decisions).max(initial=0.0)),
            )
            found: Array = multiples[0] * np.abs(self.decisions[some]) + largest
            return found

        if len(multiples) * len(self.model.models) == 1:
            # Each rival has one half-space: these are looked at together.
            (model,), size = self.model.models, len(rivals) * len(self)
            excess, normals = self._arrays(row, 0, 1.0, -rivals)
            flat = [(model, excess.reshape(size), normals.reshape(size, -1))]
            numbers = np.tile(np.arange(len(self)), len(rivals))
            found = self._bounds(row, system, flat, weights, numbers)
            return found.reshape(len(rivals), -1).max(axis=0, initial=0.0), excess, normals
        bounds: Array = np.zeros(len(self))
        each: list[HalfSpace] = []
        for rival in rivals:
            own = list(self._half_spaces(row, multiples, -rival[None]))
            alone = self._bounds(row, system, own, weights)
            self._sharpen(alone, row, system, own, weights)
            bounds, each = np.maximum(bounds, alone), each + own
        return bounds, np.stack([one for _, one, _ in each]), np.stack([one for *_, one in each])

    def _bounds(
        self,
        row: int,
        system: System,
        half_spaces: Sequence[HalfSpace],
        weights: Weights,
        some: Indices | None = None,
    ) -> Array:
        """The largest of the costs to reach one half-space of each decision, or of some of them."""
        norm = self.model.norm
        movable = system.lower < system.upper
        support = system.support
        bound: Array = np.zeros(len(self) if some is None else len(some))
        for model, excess, normals in half_spaces:
            cost = norm.to_half_spaces(excess, normals * movable, support)
            stuck = np.flatnonzero(cost == np.inf)
            if len(stuck):
                which = stuck if some is None else some[stuck]
                leeway = model.own_leeway(row, weights(model, which))
                near = excess[stuck] <= FAR * leeway.constant
                granted = norm.to_half_spaces(
                    excess[stuck] - leeway.constant, leeway.growth * movable, support
                )
                cost[stuck] = np.where(near, granted, np.inf)
            bound = np.maximum(bound, cost)
        return bound

    def _sharpen(
        self,
        bound: Array,
        row: int,
        system: System,
        half_spaces: Sequence[HalfSpace],
        weights: Weights,
        further: Callable[[Indices], Iterator[HalfSpace]] = lambda some: iter(()),
    ) -> None:
        """Raise bounds by further half-spaces and by pairs, until the least is such a one."""
        sharp = np.zeros(len(self), dtype=bool)
        while not sharp[least := int(bound.argmin())] and bound[least] < np.inf:
            some = np.argsort(np.where(sharp, np.inf, bound), kind="stable")[:_SHARPENED]
            more = list(further(some))
            part = [(excess[some], normals[some]) for _, excess, normals in half_spaces]
            part += [(excess, normals) for _, excess, normals in more]
            bound[some] = np.maximum(bound[some], self._bounds(row, system, more, weights, some))
            by_case = _by_case(system, self.model.norm, part)
            if by_case is not None:
                bound[some] = np.maximum(bound[some], by_case.min(axis=1))
            elif not more:
                break
            sharp[some] = True

    def promising(self, row: int, k: int) -> list[int]:
        """The units to hold for the case in which a decision seems nearest; none without a choice.

        What is not held obeys the limits on how many may change, and which.
        """
        system = self.model.system(row)
        support = system.support
        if support is None or support.cases is None:
            return []
        one = slice(k, k + 1)
        seen = [(excess, normals) for _, excess, normals in self._toppling(row, one)]
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

    def _held(self, row: int, half_spaces: Iterable[HalfSpace]) -> list[int]:
        system = self.model.system(row)
        held = system.lower == system.upper
        found = np.zeros_like(held)
        for _, excess, normals in half_spaces:
            stuck = (excess > 0) & ~normals[:, ~held].any(axis=1)
            found |= held & normals[stuck].any(axis=0)
        return [int(j) for j in np.flatnonzero(found)]

    def _toppling(self, row: int, some: slice = _ALL) -> Iterator[HalfSpace]:
        """What a decision must meet to be the one that is enough."""
        multiples, ends = self.model.multiples(Quantifier.SOME), self.model.ends(row)
        yield from self._half_spaces(row, multiples, ends, some)
        yield from self._half_spaces(row, (1.0,), -self.model.passed_over(row), some)

    def _half_spaces(
        self,
        row: int,
        multiples: Sequence[float],
        ends: Array,
        some: Indices | slice = _ALL,
    ) -> Iterator[HalfSpace]:
        """Each inequality for all decisions, or some: `(D,)` and `(D, p)`.

        With the task of the predictor that it is about.
        """
        for number, model in enumerate(self.model.models):
            for multiple in multiples:
                found = self._arrays(row, number, multiple, ends, some)
                for one in zip(*found, strict=True):
                    yield model, *one

    def _arrays(
        self,
        row: int,
        number: int,
        multiple: float,
        ends: Array,
        some: Indices | slice = _ALL,
    ) -> tuple[Array, Array]:
        """The inequalities of one predictor, by its number, and of one multiple of decisions.

        With each end: `(E, D)` and `(E, D, p)`.
        """
        model, decisions = self.model.models[number], self.decisions[some]
        slopes, sizes = self._slopes[number][some], self._sizes[number][some]
        excess = multiple * (decisions @ model.prices0[row]) + (ends @ model.prices0[row])[:, None]
        excess += self._shift(number, multiple, ends, some)
        normals = multiple * slopes + (ends @ model.slopes)[:, None]
        noise = abs(multiple) * sizes + (np.abs(ends) @ np.abs(model.slopes))[:, None]
        normals[np.abs(normals) <= NOISE * noise] = 0.0
        # Constant, and broken by no more than rounding: not broken.
        flat = ~normals.any(axis=2)
        if flat.any():
            size = abs(multiple) * (np.abs(decisions) @ model.sizes[row])
            size = size + (np.abs(ends) @ model.sizes[row])[:, None]
            excess[flat & (excess <= DOUBT * model.eps * size)] = 0.0
        return excess, normals

    def _shift(
        self, number: int, multiple: float, ends: Array, some: Indices | slice = _ALL
    ) -> Array | float:
        """What decisions may add where contexts are off, under one of the predictors: `(E, D)`."""
        if self._spread is None:
            return 0.0
        model = self.model.models[number]
        slopes = multiple * self._spread[number][some] + model.spread(ends)[:, None]
        return model.spreading(slopes)

    def unseats(self, row: int, u: Array) -> bool:
        """Whether some decision unseats the factual one after a change, under each predictor."""
        rules = self.model.rules[torch.tensor([row])]
        if not rules.criterion.unseats:
            return True
        x = self.model.contexts([row], u[None]).flatten(1).double().cpu().numpy()
        change = (x - self.model.origin[[row]]) / self.model.scale
        each = [one.prices([row], change) for one in self.model.models]
        best = [self.decisions[(self.decisions @ one[0].numpy()).argmin()] for one in each]
        pairs = zip(each, best, strict=True)
        return all(bool(rules.unseats(one, torch.from_numpy(y[None]))) for one, y in pairs)

    def most_violated(self, row: int, u: Array, tolerance: float) -> int | None:
        """The decision that breaks what every one must meet the most after a change; or None."""
        worst: int | None = None
        largest = 0.0
        for number, model in enumerate(self.model.models):
            prices = model.prices0[row] + model.slopes @ u
            values, sizes = self.decisions @ prices, np.abs(self.decisions) @ np.abs(prices)
            for multiple in model.multiples(Quantifier.EVERY):
                ends = model.ends(row)
                shifts = np.broadcast_to(
                    self._shift(number, multiple, ends), (len(ends), len(values))
                )
                for end, shift in zip(ends, shifts, strict=True):
                    excess = multiple * values + end @ prices + shift
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
    count = len(half_spaces)
    pairs = list(combinations(range(count), 2)) if count > 1 else [(0, 0)]
    excess, normals = (np.stack(part)[np.array(pairs).T] for part in zip(*half_spaces, strict=True))
    flat, _ = norm.to_both(excess.reshape(2, -1), normals.reshape(2, -1, normals.shape[-1]), cases)
    cost: Array = flat.reshape(len(pairs), -1, len(cases)).max(axis=0)
    return cost
