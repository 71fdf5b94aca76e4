"""Contexts that are off, and predictors, where some decision must do: the worst of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cfopt._typing import Array
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.geometry import HalfSpaces, Leeway, System, find_clash
from cfopt.question.quantifier import Quantifier

#: How often the value of the worst context is corrected, at most, and by what fraction at least.
_ROUNDS, _STEP = 30, 1e-13
#: What fraction of the largest value is enough.
_DEEP = 0.95
#: How much longer than the radius the worst w may be.
_LONGER = 1e-10


@dataclass(frozen=True, eq=False)
class Scenario:
    """A context that is off by some w under one predictor, and an inequality to be met there.

    Arguments:
        model: the number of the predictor.
        multiple, end: the a and e of the inequality `<prices, a y + e> <= 0`, by their numbers.
        off: w, `(p,)`.
    """

    model: int
    multiple: int
    end: int
    off: Array

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Which inequality under which predictor it is about."""
        return self.model, self.multiple, self.end

    def half_spaces(self, model: AffineTask, row: int, decisions: Array) -> HalfSpaces:
        """Where each decision meets the inequality: `(D, m) -> HalfSpaces` of D rows."""
        there = model.models[self.model].off(self.off)
        return there.cut(row, self._multiple(model) * decisions + model.ends(row)[self.end])

    def leeway(self, model: AffineTask, row: int, decisions: Array) -> Leeway:
        """By how much that may be broken in contexts that verification calls valid."""
        there = model.models[self.model].off(self.off)
        size = abs(self._multiple(model)) * np.abs(decisions) + np.abs(model.ends(row)[self.end])
        return there.own_leeway(row, size)

    def _multiple(self, model: AffineTask) -> float:
        return model.multiples(Quantifier.SOME)[self.multiple]


@dataclass(frozen=True)
class Mixture:
    """Decisions of which, in every context of the ball, one meets an inequality, or nearly.

    By duality, `max_w min_y <theta + S w, a y + e>` over the ball is the least over all mixtures z
    of decisions of `<theta, a z + e> + r |S' (a z + e)|_dual`: one decision in place of another as
    the context moves is as good as one mixture for the whole ball, and no better.

    Arguments:
        scenario: the worst context of the ball.
        direction: `a z + e`, `(m,)`.
        excess: the value of the mixture, which no context of the ball exceeds.
        depth: the same, in the units of `SomeDecision.worst`.
        heaviest: the number of the decision of which there is most.
    """

    scenario: Scenario
    direction: Array
    excess: float
    depth: float
    heaviest: int


class SomeDecision:
    """One inequality of every decision, of one row and under one predictor.

    Arguments:
        model: the task, under all predictors.
        row: the number of the row.
        decisions: every decision, `(D, m)`.
        numbers: those of predictor, multiple and end.
    """

    def __init__(
        self, model: AffineTask, row: int, decisions: Array, numbers: tuple[int, int, int]
    ) -> None:
        self.numbers = numbers
        self._own = model.models[numbers[0]]
        multiple = model.multiples(Quantifier.SOME)[numbers[1]]
        self._directions: Array = multiple * decisions + model.ends(row)[numbers[2]]

    @classmethod
    def every(
        cls, model: AffineTask, row: int, decisions: Array, predictors: int | None = None
    ) -> list[SomeDecision]:
        """All of a row, under the first so many predictors or every one.

        What does not depend on the decision is in `constant` instead.
        """
        return [
            cls(model, row, decisions, (k, number, end))
            for k in range(len(model.models) if predictors is None else predictors)
            for number, multiple in enumerate(model.multiples(Quantifier.SOME))
            for end in range(len(model.ends(row)))
            if multiple != 0
        ]

    @cached_property
    def slopes(self) -> Array:
        """How the values change with u, `(D, p)`."""
        slopes: Array = self._directions @ self._own.slopes
        return slopes

    def across(self, way: Array, least: float) -> Array:
        """How the values change across a way at most, or a fraction of what they do at all.

        `|g - (g way) way / |way|^2|`, for each decision: `(p,) -> (D,)`.
        """
        slopes, length = np.square(self.slopes).sum(axis=1), float(way @ way)
        if length > 0:
            along = np.square(self.slopes @ way) / length
            found = np.sqrt(np.maximum(slopes - along, least**2 * slopes))
        else:
            found = np.sqrt(slopes)
        flat: Array = np.where(found > 0, found, 1.0)
        return flat

    @cached_property
    def _spread(self) -> Array:
        return self._own.spread(self._directions)

    @cached_property
    def _shift(self) -> Array:
        return self._own.spreading(self._spread)

    def worst(self, prices: Array, units: Array | None = None) -> Mixture:
        """The context of the ball at whose best decision the value is largest.

        Where `min |w|` with `values + spread w >= t` reaches the radius is found by Newton's
        method: it is convex in t, and its multipliers make the next mixture.

        Arguments:
            prices: those of the context itself, `(m,)`.
            units: what values are divided by before they are compared, `(D,)`.
        """
        off_by, values = self._own.off_by, self._directions @ prices
        units = np.ones(len(values)) if units is None else units
        if off_by is None:
            k = int((values / units).argmin())
            return self._mixture(values, np.eye(1, len(values), k)[0], units, np.zeros(0))
        bounds = (values + self._shift) / units
        k = int(bounds.argmin())
        depth, weights = float(bounds[k]), np.eye(1, len(values), k)[0]
        off = off_by.radius * self._own.noise.steepest(self._spread[k])
        # No other decision is the best one anywhere where the value is as large as that.
        near = np.flatnonzero((values - self._shift) / units <= depth)
        parts, spread = values[near] / units[near], self._spread[near] / units[near, None]
        steepness = np.sqrt(np.square(spread).sum(axis=1))
        box = System.box(*(np.full(spread.shape[1], end) for end in (-np.inf, np.inf)))
        none = np.zeros(len(near))
        for _ in range(_ROUNDS if depth > 0 else 0):
            system = box.with_cuts(HalfSpaces(-spread, parts - depth, none, none, none))
            found = self._own.noise.nearest(system)
            if isinstance(found, tuple):
                off, multipliers = found[0].values, found[0].multipliers
                length = self._own.noise(off) ** (1 / self._own.noise.power)
                if length <= off_by.radius * (1 + _LONGER):
                    break
                off = off * (off_by.radius / length)
                if (parts + spread @ off).min() >= _DEEP * depth:
                    break
            else:  # no context at all has values as large as that
                clash = find_clash(system) if found is None else found.multipliers
                if clash is None:
                    break
                multipliers = clash
            mixed = np.maximum(multipliers, 0.0)
            mixed = np.divide(mixed, steepness, where=steepness > 0, out=np.zeros_like(mixed))
            if not mixed.any():
                break
            mixed /= mixed.sum()
            lower = float(mixed @ parts + self._own.spreading(mixed @ spread))
            if not lower < depth - _STEP * abs(depth):
                break
            depth, weights = lower, np.zeros(len(values))
            weights[near] = mixed
            if depth <= 0:
                break
        return self._mixture(values, weights, units, off)

    def _mixture(self, values: Array, weights: Array, units: Array, off: Array) -> Mixture:
        """That of some weights of values in their units, `(D,)`."""
        weights = weights / units
        total = weights.sum()
        direction = weights @ self._directions / total
        excess = float(weights @ values / total + self._own.shift(direction[None])[0])
        scenario = Scenario(*self.numbers, off)
        return Mixture(scenario, direction, excess, excess * total, int(weights.argmax()))


def constant(model: AffineTask, row: int) -> Array:
    """Directions that must be met in the whole ball, whatever the decision: `(C, m)`.

    Those of a multiple that is 0, such as `(1 - eps) y - y0` for eps = 1.
    """
    if 0 not in model.multiples(Quantifier.SOME):
        return np.empty((0, model.pivot.shape[1]))
    return model.ends(row)
