"""A criterion as inequalities on prices, whatever the predictor."""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np
import torch

from cfopt._typing import Array, Flags, Indices
from cfopt.engine.rules import Rules
from cfopt.question.quantifier import Quantifier


class Inequalities:
    """The criterion of each row as a list of `<prices, d> <= 0`, in float64 on the host.

    Arguments:
        rules: those of a task whose criterion has `multiples`.
        scenarios: the number K of predictors under which it is to hold.
    """

    def __init__(self, rules: Rules, scenarios: int = 1) -> None:
        self.rules, self.scenarios = rules.on_host(), scenarios
        factual = self.rules.factual
        # Of a wish the factual decision stands for all plans, until one is chosen by `about`.
        plain = self.rules if self.rules.wish is None else self.rules.about(factual)
        self._anchor: Array = plain.criterion.anchor(factual).numpy()
        self._pivot: Array = plain.pivot.numpy()
        self._factual: Array = factual.numpy()

    def about(self, plan: Array) -> Self:
        """The same criterion about one plan in all rows, `(m,)`, or one in each, `(B, m)`."""
        twin = copy(self)
        twin.rules = self.rules.about(torch.from_numpy(plan).expand(len(self.rules), -1))
        twin._anchor = twin.rules.criterion.anchor(self.rules.factual).numpy()
        twin._pivot = twin.rules.pivot.numpy()
        return twin

    def multiples(self, quantifier: Quantifier) -> tuple[float, ...]:
        """The criterion's multiples of y, as in `Criterion.multiples`."""
        return self.rules.criterion.multiples.get(quantifier, ())

    def rules_of(self, row: int) -> Rules:
        """A row's rules, once for each predictor."""
        return self.rules[torch.full((self.scenarios,), row)]

    def choices(self, decisions: Array) -> Array:
        """What may be enough: one decision for each predictor: `(D, m) -> (D^K, K m)`."""
        each = np.indices((len(decisions),) * self.scenarios).reshape(self.scenarios, -1)
        return np.concatenate([decisions[one] for one in each], axis=1)

    def parts(self, decisions: Array) -> list[Array]:
        """What choices, or decisions for all predictors alike, are under each: `K x (D, m)`."""
        each = np.split(decisions, decisions.shape[1] // self._factual.shape[1], axis=1)
        return each * (self.scenarios // len(each))

    @property
    def pivot(self) -> Array:
        """The decisions whose values a margin is a fraction of, `(B, m)`."""
        return self._pivot

    def ends(self, row: int) -> Array:
        """What is added to the multiples of y: the anchor and, with a margin, the pivot, `(E, m)`.

        A margin, `h + margin |<theta, y>| <= 0` with the pivot y, is two inequalities, since the
        size of a number is the larger of it and its negative.
        """
        ends: Array = self.ends_of_each(np.array([row]))[0]
        return ends

    def ends_of_each(self, rows: Indices) -> Array:
        """The same of several rows: `(R,) -> (R, E, m)`."""
        anchor: Array = self._anchor[rows]
        if self.rules.margin == 0:
            return anchor[..., None, :]
        extra: Array = self.rules.margin * self._pivot[rows]
        return np.stack([anchor + extra, anchor - extra], axis=-2)

    def directions(self, row: int, quantifier: Quantifier, decisions: Array) -> Array:
        """The d of all `<prices, d> <= 0` that decisions stand for: `(K, m) -> (K C, m)`."""
        directions = self._multiplied(self.ends(row), quantifier, decisions)
        if quantifier is Quantifier.SOME:
            less = decisions[:, None] - self.passed_over(row)
            lead = decisions[:, None] - self.unseated(row)
            directions = np.concatenate([directions, less, lead], axis=1)
        return directions.reshape(-1, decisions.shape[1])

    def directions_of_each(self, rows: Indices, quantifier: Quantifier, decisions: Array) -> Array:
        """The same of one decision for each of some rows: `(R,), (R, m) -> (R, C, m)`.

        Of decisions that are enough only where no row passes over others, and without their lead.
        """
        assert quantifier is not Quantifier.SOME or not self.rules.passed_over
        return self._multiplied(self.ends_of_each(rows)[:, None], quantifier, decisions)

    def _multiplied(self, ends: Array, quantifier: Quantifier, decisions: Array) -> Array:
        """Multiples of decisions, plus ends that fit `(K, M, E, m)`: `(K, m) -> (K, M E, m)`."""
        multiples = np.array(self.multiples(quantifier))
        parts = multiples[:, None] * decisions[:, None]
        directions: Array = parts[:, :, None] + ends
        return directions.reshape(len(decisions), -1, decisions.shape[1])

    def passed_over(self, row: int) -> Array:
        """Decisions than which the one that is enough must not be worse, `(K, m)`."""
        given = self.rules.passed_over
        return given[row] if given else np.empty((0, self._factual.shape[1]))

    def unseated(self, row: int) -> Array:
        """The factual decision if it must be unseated by the one that is enough: `(1 or 0, m)`."""
        return self._factual[row : row + self.rules.criterion.unseats]

    def lead(self, row: int, quantifier: Quantifier, decisions: Array) -> Array:
        """How far below 0 each of `directions` must at least be, `(K C,)`: those of the lead."""
        factual = self.unseated(row)
        found: Array = np.zeros(
            (len(decisions), len(self.directions(row, quantifier, decisions[:1])))
        )
        if quantifier is Quantifier.SOME and len(factual) and self.rules.size is not None:
            differing = np.abs(decisions - factual).sum(axis=1)
            found[:, -1] = self.rules.lead * float(self.rules.size[row]) * differing
        return found.ravel()

    def may_suffice(self, row: int, decisions: Array) -> Flags:
        """Which decisions may be the one that is enough: `(D, m) -> (D,)`."""
        found: Flags = np.ones(len(decisions), dtype=bool)
        for one in (*self.passed_over(row), *self.unseated(row)):
            found &= (decisions != one).any(axis=1)
        return found

    def weights(self, row: int, quantifier: Quantifier, decisions: Array) -> Array:
        """By how much of each price an inequality can be about: `(K, m) -> (K C, m)`.

        What verification grants is a fraction of the terms that it compares. Where every decision
        counts these are those of the best one, which is not known here: then the largest entry of
        any decision stands for each of its own.
        """
        if quantifier is Quantifier.GIVEN:
            return np.abs(self.directions(row, quantifier, decisions))
        sizes = np.abs(decisions)
        if quantifier is Quantifier.EVERY:
            sizes = np.full_like(sizes, self.largest_entry(row, decisions))
        return self.largest_terms(row, quantifier, sizes)

    def largest_terms(self, row: int, quantifier: Quantifier, sizes: Array) -> Array:
        """The same for entries of some sizes, whatever their signs: `(K, m) -> (K C, m)`."""
        multiples = np.abs(self.multiples(quantifier))
        parts = np.full(len(multiples), multiples.max())[:, None] * sizes[:, None]
        terms: Array = parts[:, :, None] + np.abs(self.ends(row))
        flat = terms.reshape(len(sizes), -1, sizes.shape[1])
        if quantifier is Quantifier.SOME:
            others = np.concatenate([self.passed_over(row), self.unseated(row)])
            flat = np.concatenate([flat, sizes[:, None] + np.abs(others)], axis=1)
        return flat.reshape(-1, sizes.shape[1])

    def largest_entry(self, row: int, decisions: Array) -> float:
        """What stands for the largest entry of any decision, where some are known, `(K, m)`."""
        known = (decisions, self._anchor[row], self._pivot[row], self._factual[row])
        largest = max(float(np.abs(entries).max(initial=0.0)) for entries in known)
        return 1.0 if self.rules.problem.binary else 2 * largest
