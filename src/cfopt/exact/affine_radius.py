"""How far a context may be off behind an affine predictor, for whole batches of rows."""

from __future__ import annotations

import numpy as np
import torch

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.failure import distance_to_failure
from cfopt.exact.geometry import Euclidean
from cfopt.question.quantifier import Quantifier

#: The most decisions that are listed, and how often a bound is improved by another decision.
_LISTED, _ROUNDS = 100_000, 50
#: The most slopes that are in memory at once.
_AT_ONCE = 1_000_000
#: By what fraction of its terms an inequality may have a slope that is none but for rounding.
_CANCELLED = 1e-13
#: By what fraction of its terms an inequality may miss 0 and be level.
_LEVEL = 1e-9


class AffineRadius:
    """The distance of the nearest context in which the criterion does not hold.

    The least `-h / |S' d|` over all decisions: exact if they can be listed, or if the criterion
    asks for some decision; otherwise a proved lower bound for binary decisions.

    Arguments:
        model: the task, in which contexts may be off by 1.
        rules: its own, with a solver whose answers are proven.
        prices: those of all rows, `(B, m)`.
    """

    def __init__(self, model: AffineTask, rules: Rules, prices: Array) -> None:
        self._model, self._rules, self._prices = model, rules, prices

    @staticmethod
    def is_quick(rules: Rules) -> bool:
        """Whether it takes no more than a few solves for all rows together."""
        return Quantifier.EVERY not in rules.criterion.multiples or (
            rules.problem.decisions(_LISTED) is not None
        )

    def measured(self) -> tuple[Array, Array]:
        """The lengths, NaN where nothing is proved, and whether they are exact: `(B,)` each."""
        length: Array = np.full(len(self._prices), np.inf)
        exact = np.ones(len(self._prices), dtype=bool)
        for quantifier, of in (
            (Quantifier.GIVEN, self._of_factual),
            (Quantifier.EVERY, self._of_every),
            (Quantifier.SOME, self._of_some),
        ):
            if self._model.multiples(quantifier):
                found, sure = of()
                length, exact = np.minimum(length, found), exact & sure
        return length, exact

    def _of_factual(self) -> tuple[Array, Array]:
        factual = self._rules.factual.numpy()
        least = [
            self._ratios(row, Quantifier.GIVEN, factual[row : row + 1]).min()
            for row in range(len(self._prices))
        ]
        return np.array(least), np.ones(len(least), dtype=bool)

    def _of_every(self) -> tuple[Array, Array]:
        count = len(self._prices)
        listed = self._rules.problem.decisions(_LISTED)
        if listed is not None:
            return self._of_listed(listed.numpy()), np.ones(count, dtype=bool)
        if self._rules.problem.binary:
            return np.array([self._by_parts(row) for row in range(count)]), np.zeros(count, bool)
        return np.full(count, np.nan), np.zeros(count, bool)

    def _of_listed(self, decisions: Array) -> Array:
        """The least ratio of any decision of a list, for some rows at a time: `(D, m) -> (B,)`."""
        model, count = self._model, len(self._prices)
        spread, sizes = model.spread(decisions), model.steepness_of_each(np.abs(decisions))
        largest, least = sizes.max(axis=1, initial=0.0), np.full(count, np.inf)
        step = max(1, _AT_ONCE // max(spread.size, 1))
        for start in range(0, count, step):
            rows = np.arange(start, min(start + step, count))
            prices, values = self._prices[rows], self._prices[rows] @ decisions.T
            for multiple in model.multiples(Quantifier.EVERY):
                for end in model.ends_of_each(rows).swapaxes(0, 1):
                    slack = -multiple * values - (end * prices).sum(axis=1)[:, None]
                    slopes = multiple * spread + model.spread(end)[:, None]  # (R, D, p)
                    steepness = model.spreading(slopes)
                    # What cancels but for rounding cannot be broken.
                    ends = model.steepness_of_each(np.abs(end))
                    most = np.abs(multiple) * largest + ends.max(axis=1, initial=0.0)[:, None]
                    sloping = steepness > _CANCELLED * most
                    # Few are not steeper than the largest terms of either side: look more closely.
                    row, k = np.nonzero(~sloping)
                    terms = (np.abs(multiple) * sizes[k] + ends[row]).max(axis=1, initial=0.0)
                    sloping[row, k] = steepness[row, k] > _CANCELLED * terms
                    ratio = np.full(slack.shape, np.inf)
                    np.divide(np.maximum(slack, 0.0), steepness, where=sloping, out=ratio)
                    least[rows] = np.minimum(least[rows], ratio.min(axis=1, initial=np.inf))
        return least

    def _ratios(self, row: int, quantifier: Quantifier, decisions: Array) -> Array:
        """How far each inequality of a decision is from being broken: `(K, m) -> (C, K)`."""
        model, prices = self._model, self._prices[row]
        spread, values = model.spread(decisions), decisions @ prices
        ratios = []
        for multiple in model.multiples(quantifier):
            for end in model.ends(row):
                slack = np.maximum(-multiple * values - end @ prices, 0.0)
                steepness = model.spreading(multiple * spread + model.spread(end[None]))
                # What cancels but for rounding cannot be broken.
                terms = np.abs(multiple) * np.abs(decisions) + np.abs(end)
                steepness[steepness <= _CANCELLED * model.steepness(terms)] = 0.0
                ratio = np.full(len(decisions), np.inf)
                ratios.append(np.divide(slack, steepness, where=steepness > 0, out=ratio))
        return np.stack(ratios)

    def _by_parts(self, row: int) -> float:
        """A lower bound: the least `-h / s`, where `s = sum_j |d_j| |S_j|` is at least `|S' d|`.

        Both are linear in a binary decision, so that the solver finds the decision with the largest
        `h + r s`; r is lowered to its ratio until none is above 0 (Dinkelbach).
        """
        model, prices = self._model, self._prices[row]
        rules = self._rules[torch.tensor([row])]
        parts = Euclidean().dual(model.spread(np.eye(len(prices))))
        least = np.inf
        for multiple in model.multiples(Quantifier.EVERY):
            for end in model.ends(row):
                added = (np.abs(multiple + end) - np.abs(end)) * parts
                radius = 1e6
                for _ in range(_ROUNDS):
                    turned = torch.from_numpy(-multiple * prices - radius * added)[None]
                    solved = rules.optimum(turned)
                    if solved.failures or solved.shortfall is not None:
                        return np.nan
                    direction = multiple * solved.decisions[0].numpy() + end
                    h, s = float(direction @ prices), float(np.abs(direction) @ parts)
                    if s == 0 or h + radius * s <= TOLERANCE * radius * s:
                        break
                    radius = max(0.0, -h / s)
                else:
                    return np.nan
                least = min(least, radius)
        return (1 - 2 * TOLERANCE) * least

    def _of_some(self) -> tuple[Array, Array]:
        """One decision does up to the nearest of its own limits; then another one may.

        If no other does at that very point, it is as far as that. Else cutting planes tell.
        """
        count = len(self._prices)
        length, sure = np.zeros(count), np.ones(count, dtype=bool)
        solved = self._rules.optimum(torch.from_numpy(self._prices))
        decisions = solved.decisions.numpy()
        doubtful = solved.shortfall is not None
        there = self._prices.copy()
        first = np.zeros(count, dtype=np.intp)
        for row in range(count):
            if row in solved.failures:
                continue
            ratios = self._ratios(row, Quantifier.SOME, decisions[row : row + 1])[:, 0]
            first[row], length[row] = int(ratios.argmin()), float(ratios.min())
            if 0 < length[row] < np.inf:
                direction = self._model.directions(row, Quantifier.SOME, decisions[row : row + 1])[
                    first[row]
                ]
                slope = self._model.spread(direction[None])
                there[row] += self._model.moved(length[row] * self._model.noise.steepest(slope))[0]
        moved = np.flatnonzero((length > 0) & (length < np.inf))
        again = self._rules[torch.from_numpy(moved)].optimum(torch.from_numpy(there[moved]))
        taken = dict(zip(moved.tolist(), again.decisions.numpy(), strict=True))
        for row in range(count):
            ended = row in taken and self._level(row, taken[row], int(first[row]), there[row])
            if not doubtful and row not in solved.failures and (length[row] == 0 or ended):
                continue
            alone = self._rules[torch.tensor([row])]
            far, sure[row] = distance_to_failure(self._model, alone, row, self._prices[row])
            length[row] = max(length[row], far)
        return length, sure

    def _level(self, row: int, decision: Array, number: int, prices: Array) -> bool:
        """Whether even the best decision at some prices only just meets one of its inequalities."""
        direction = self._model.directions(row, Quantifier.SOME, decision[None])[number]
        terms = direction * prices
        return bool(terms.sum() >= -_LEVEL * np.abs(terms).sum())
