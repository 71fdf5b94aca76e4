"""How bad it can get: a criterion in every context of a ball and under every affine predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.failure import distance_to_failure
from cfopt.exact.geometry import Taxicab
from cfopt.problems.base import Solved
from cfopt.question.quantifier import Quantifier

#: The most decisions that are listed, and directions of the ball that are tried at first.
_LISTED, _TRIED = 100_000, 64
#: How often the worst context for the worst decision is solved again.
_ROUNDS = 5
#: The most corners of a ball, two a feature, at each of which is solved.
_CORNERS = 2000


@dataclass(frozen=True)
class WorstCase:
    """The largest h of each row, and the decision for which it is so large.

    Arguments:
        rival: that decision; for criteria about some decision, the one that comes nearest.
        excess: h, over all contexts and predictors that were looked at, `(R,)`.
        size: the terms that tolerances are a fraction of, `(R,)`.
        rounding: what rounding may add, `(R,)`.
        proved: whether no context of the ball and no predictor can have a larger one, `(R,)`.
    """

    rival: Solved
    excess: Array
    size: Array
    rounding: Array
    proved: Array

    def holds(self, tolerance: float) -> Tensor:
        """Whether the criterion holds nevertheless: `(R,)`."""
        return torch.from_numpy(self.excess <= tolerance * self.size + self.rounding)


class _Row:
    """The worst that was found for one row."""

    def __init__(self, decision: Array) -> None:
        self.decision = decision
        self.excess, self.size, self.rounding = -np.inf, 0.0, 0.0
        self.proved = True

    def offer(self, decision: Array, excess: float, size: float, rounding: float) -> None:
        """Compare with another decision."""
        if excess > self.excess:
            self.decision = decision
            self.excess, self.size, self.rounding = excess, size, rounding


def worst_case(
    model: AffineTask, rules: Rules, rows: Sequence[int], prices: Sequence[Tensor]
) -> WorstCase:
    """Look for the worst; prices have one entry for each predictor, `(R, m)`.

    About the factual decision and every decision: `<prices, d> + r |S' d|_dual`, the largest over
    the decisions, by a solve, then from the list of all decisions if there is one. Without a list,
    contexts of the ball are looked for in which another decision is best: all corners of an L1
    ball, which proves it; else some, which proves nothing unless the sum of what each entry of a
    decision can add is small enough.

    About some decision, one and the same decision may do in the whole ball. Otherwise the nearest
    context in which none does is found by cutting planes.

    Arguments:
        rules: those of these rows, with the solver that is to be asked.
        rows: their numbers in the model.
    """
    found = [_Row(rules.factual[i].numpy()) for i in range(len(rows))]
    failures: dict[int, str] = {}
    for one, theta in zip(model.models, prices, strict=True):
        rival = rules.rival(theta)
        failures |= rival.failures
        for i, row in enumerate(rows):
            if i in rival.failures:
                continue
            case = _Case(one, rules[torch.tensor([i])], row, theta[i].numpy())
            decision = rival.decisions[i].numpy()
            sure = rival.shortfall is None
            for quantifier in (Quantifier.GIVEN, Quantifier.EVERY):
                if model.multiples(quantifier):
                    case.of_every(found[i], quantifier, decision, sure)
            if model.multiples(Quantifier.SOME):
                case.of_some(found[i], decision)
    decisions = torch.from_numpy(np.stack([one.decision for one in found]))
    return WorstCase(
        Solved(decisions, failures),
        np.array([one.excess for one in found]),
        np.array([one.size for one in found]),
        np.array([one.rounding for one in found]),
        np.array([one.proved and i not in failures for i, one in enumerate(found)]),
    )


class _Case:
    """One row under one predictor.

    Arguments:
        model: the task under this predictor.
        rules: those of the row alone.
        row: its number in the model.
        prices: its prices, `(m,)`.
    """

    def __init__(self, model: AffineTask, rules: Rules, row: int, prices: Array) -> None:
        self.model, self.rules, self.row, self.prices = model, rules, row, prices
        self.largest = float(np.abs(prices).max(initial=0.0))

    def of_every(self, found: _Row, quantifier: Quantifier, rival: Array, sure: bool) -> None:
        """What every decision, or the factual one, must meet."""
        self._offer(found, quantifier, rival[None])
        if quantifier is Quantifier.GIVEN or self.model.off_by is None:
            found.proved &= sure
            return
        listing = self.model.rules.problem.decisions(_LISTED)
        if listing is not None:
            self._offer(found, quantifier, self._others(listing.numpy()))
            return
        every_corner = self._attack(found, quantifier)
        found.proved &= sure and (every_corner or self._small_parts(found))

    def of_some(self, found: _Row, optimum: Array) -> None:
        """What some decision must meet: one for the whole ball, or another for each context."""
        listing = None
        if self.model.off_by is not None:
            listing = self.model.rules.problem.decisions(_LISTED)
        decisions = optimum[None] if listing is None else listing.numpy()
        excess, size, rounding = self._values(Quantifier.SOME, decisions)
        k = int(excess.argmin())
        if excess[k] > rounding[k] and self.model.off_by is not None:
            least, _ = distance_to_failure(self.model, self.rules, self.row, self.prices)
            if least >= self.model.off_by.radius:
                excess[k] = 0.0
        found.offer(decisions[k], float(excess[k]), float(size[k]), float(rounding[k]))

    def _others(self, decisions: Array) -> Array:
        """With a margin, the alternative need not win against itself."""
        if not (self.rules.criterion.contrasts and self.rules.margin > 0):
            return decisions
        own = self.rules.pivot[0].numpy()
        others: Array = decisions[(decisions != own).any(axis=1)]
        return others

    def _values(self, quantifier: Quantifier, decisions: Array) -> tuple[Array, Array, Array]:
        """Of the worst inequality of each decision: h, its size and rounding, `(K,)` each."""
        directions = self.model.directions(self.row, quantifier, decisions)
        shift = self.model.shift(directions)
        parts = np.stack(
            [
                directions @ self.prices + shift,
                np.abs(directions) @ np.abs(self.prices) + shift,
                self.rules.rounding * self.largest * np.abs(directions).sum(axis=1),
            ]
        ).reshape(3, len(decisions), -1)
        worst = parts[0].argmax(axis=1)[None, :, None]
        values: Array = np.take_along_axis(parts, worst, axis=2)[:, :, 0]
        return values[0], values[1], values[2]

    def _offer(self, found: _Row, quantifier: Quantifier, decisions: Array) -> None:
        if not len(decisions):
            return
        values = self._values(quantifier, decisions)
        k = int(values[0].argmax())
        excess, size, rounding = (float(part[k]) for part in values)
        found.offer(decisions[k], excess, size, rounding)

    def _attack(self, found: _Row, quantifier: Quantifier) -> bool:
        """Solve in contexts of the ball; return whether these were all its corners."""
        off_by = self.model.off_by
        assert off_by is not None
        moving = np.flatnonzero(off_by.units)
        unit = np.eye(len(off_by.units))[moving]
        complete = isinstance(self.model.noise, Taxicab) and 2 * len(moving) <= _CORNERS
        if not complete:
            draws = np.random.default_rng(0).standard_normal((_TRIED // 2, len(off_by.units)))
            unit = np.concatenate([unit[: _TRIED // 2], self.model.noise.steepest(draws)])
        starts = off_by.radius * np.concatenate([unit, -unit])
        done = self._solve_at(found, quantifier, starts)
        for _ in range(_ROUNDS):
            before = found.excess
            normals = self.model.spread(
                self.model.directions(self.row, quantifier, found.decision[None])
            )
            worst = off_by.radius * self.model.noise.steepest(normals)
            done &= self._solve_at(found, quantifier, worst)
            if found.excess <= before:
                break
        return complete and done

    def _solve_at(self, found: _Row, quantifier: Quantifier, off: Array) -> bool:
        """Offer what is best in contexts that are off, `(K, p)`; return whether all were solved."""
        slopes = self.model.spread(np.eye(len(self.prices)))
        there = torch.from_numpy(self.prices + off @ slopes.T)
        rules = self.rules[torch.zeros(len(there), dtype=torch.long)]
        rival = rules.rival(there)
        if rival.failures:  # no decision is the best there, the one asked for included
            found.excess = np.inf
            return False
        self._offer(found, quantifier, np.unique(rival.decisions.numpy(), axis=0))
        return rival.shortfall is None

    def _small_parts(self, found: _Row) -> bool:
        """Whether no decision breaks the criterion even if all parts of its shift add up.

        `|S' d|_dual <= sum_j |d_j| |S_j|_dual`, which is linear in a binary decision: one solve for
        each inequality.
        """
        problem, off_by = self.rules.problem, self.model.off_by
        if not problem.binary or off_by is None:
            return False
        parts = off_by.radius * self.model.noise.dual(self.model.spread(np.eye(len(self.prices))))
        for multiple in self.model.multiples(Quantifier.EVERY):
            for end in self.model.ends(self.row):
                added = (np.abs(multiple + end) - np.abs(end)) * parts
                turned = torch.from_numpy(-multiple * self.prices - added)[None]
                solved = self.rules.optimum(turned)
                if solved.failures or solved.shortfall is not None:
                    return False
                solved = self.rules.criterion.rival(problem, turned, solved, self.rules.margin)
                if solved.failures:
                    return False
                worst = float(
                    end @ self.prices + np.abs(end) @ parts - turned[0] @ solved.decisions[0]
                )
                if worst > found.rounding + TOLERANCE * found.size:
                    return False
        return True
