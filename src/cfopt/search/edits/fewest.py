"""How few edits can be enough, where their effects add up: proved by counting."""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array, Indices
from cfopt.engine.rules import TOLERANCE
from cfopt.exact.inequalities import Inequalities
from cfopt.question.quantifier import Quantifier

#: How many decisions are listed at most, where the criterion asks for one of them.
_LISTED = 20_000


def fewest(
    asked: Inequalities, prices: Array, effect: Array, place: Indices, met: Array, size: float
) -> float:
    """The number of edits below which the criterion cannot hold; inf if no number is enough.

    With effects that add up, an inequality `<prices + sum of effects, d> <= 0` needs at least as
    many edits as it takes of those that lower it most, the best of each place, until it is met.
    What must hold for every decision needs the largest of these numbers, of whatever decisions are
    known; what must hold for some decision needs the smallest, of all that there are. What
    verification grants counts as met.

    Arguments:
        asked: the criterion of one row.
        prices: without edits, `(m,)`.
        effect: what each edit adds to them, `(E, m)`.
        place: where it is, in ascending order, `(E,)`; one edit at a place.
        met: decisions that are known to be feasible, `(K, m)`.
        size: how large the terms are whose sums are prices: these, and so effects, which are their
            differences, are known as exactly as rounding of such terms allows.
    """
    problem = asked.rules.problem
    needed = [0.0]
    for quantifier in asked.rules.criterion.multiples:
        decisions = met
        if quantifier is Quantifier.GIVEN:
            decisions = asked.rules.factual.numpy()
        elif quantifier is Quantifier.SOME:
            listed = problem.decisions(_LISTED)
            if listed is None:
                continue
            decisions = listed.numpy()
        if not len(decisions):
            continue
        directions = asked.directions(0, quantifier, decisions)
        weights = asked.weights(0, quantifier, decisions)
        excess = prices @ directions.T - _granted(asked, prices[None], size, weights)[0]
        relief = _granted(asked, effect, size, weights) - effect @ directions.T
        counts = _counts(excess, relief.T, place).reshape(len(decisions), -1).max(axis=1)
        if quantifier is Quantifier.SOME:
            counts[~asked.may_suffice(0, decisions)] = np.inf
        needed.append(float(counts.min() if quantifier is Quantifier.SOME else counts.max()))
    return max(needed)


def _granted(asked: Inequalities, terms: Array, size: float, weights: Array) -> Array:
    """What verification and rounding may forgive of inequalities: `(N, m) -> (N, C)`.

    Of a sum of prices and effects, no more than the sum of what they forgive of each term.

    Arguments:
        asked: the criterion.
        terms: prices, or effects on them.
        size: how large the terms of a price are.
        weights: how much of each price inequalities can be about, `(C, m)`.
    """
    largest = size + np.abs(terms).max(axis=1, keepdims=True)
    rounding = asked.rules.rounding * largest * weights.sum(axis=1)
    granted: Array = 2 * (TOLERANCE * (np.abs(terms) @ weights.T) + rounding)
    return granted


def _counts(excess: Array, relief: Array, place: Indices) -> Array:
    """Edits that bring each excess to 0 at the least: `(C,), (C, E) -> (C,)`, inf if none do."""
    if not len(place):
        return np.where(excess > 0, np.inf, 0.0)
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    best = np.maximum(np.maximum.reduceat(relief, starts, axis=1), 0.0)
    reached = np.cumsum(-np.sort(-best, axis=1), axis=1)
    short = (reached < excess[:, None]).sum(axis=1)
    counts: Array = np.where(excess > 0, short + 1.0, 0.0)
    return np.where(counts > len(starts), np.inf, counts)
