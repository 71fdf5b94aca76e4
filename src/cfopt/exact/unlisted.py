"""Decisions that cannot be listed: looking for one that is best somewhere in a ball."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.geometry import Taxicab
from cfopt.question.quantifier import Quantifier

#: Directions of the ball that are tried at first.
_TRIED = 64
#: How often the worst context for the worst decision is solved again.
_ROUNDS = 5
#: The most corners of a ball, two a feature, at each of which is solved.
_CORNERS = 2000


class UnlistedRow:
    """One row under one predictor, about every decision.

    Contexts of the ball are looked for in which another decision is best: all corners of an L1
    ball, which proves what they show; else some, which proves nothing unless the sum of what each
    entry of a decision can add is small enough.

    Arguments:
        model: the task under this predictor; contexts may be off.
        rules: those of the row alone.
        row: its number in the model.
        prices: its prices, `(m,)`.

    Attributes:
        failed: whether the solver failed in a context of the ball.
        tried: in how many contexts it was asked.
    """

    def __init__(self, model: AffineTask, rules: Rules, row: int, prices: Array) -> None:
        self._model, self._rules, self._row, self._prices = model, rules, row, prices
        self.failed, self.tried = False, 0

    def attack(self, offer: Callable[[Array], None], worst: Callable[[], Array]) -> bool:
        """Solve in contexts of the ball; return whether these were all its corners.

        Arguments:
            offer: takes decisions, `(K, m)`, of which the worst is kept.
            worst: the worst so far, `(1, m)`.
        """
        off_by = self._model.off_by
        assert off_by is not None
        moving = np.flatnonzero(off_by.units)
        unit = np.eye(len(off_by.units))[moving]
        complete = isinstance(self._model.noise, Taxicab) and 2 * len(moving) <= _CORNERS
        if not complete:
            draws = np.random.default_rng(0).standard_normal((_TRIED // 2, len(off_by.units)))
            unit = np.concatenate([unit[: _TRIED // 2], self._model.noise.steepest(draws)])
        done = self._solve_at(off_by.radius * np.concatenate([unit, -unit]), offer)
        for _ in range(_ROUNDS):
            before = worst().tobytes()
            directions = self._model.directions(self._row, Quantifier.EVERY, worst())
            normals = self._model.spread(directions)
            done &= self._solve_at(off_by.radius * self._model.noise.steepest(normals), offer)
            if worst().tobytes() == before:
                break
        return complete and done

    def _solve_at(self, off: Array, offer: Callable[[Array], None]) -> bool:
        """Offer what is best in contexts that are off, `(K, p)`; return whether all were solved."""
        slopes = self._model.spread(np.eye(len(self._prices)))
        there = torch.from_numpy(self._prices + off @ slopes.T)
        rules = self._rules[torch.zeros(len(there), dtype=torch.long)]
        rival = rules.rival(there)
        self.tried += len(there)
        if rival.failures:
            self.failed = True
            return False
        offer(np.unique(rival.decisions.numpy(), axis=0))
        return rival.shortfall is None

    def small_parts(self, rounding: float, size: float) -> bool:
        """Whether no decision breaks the criterion even if all parts of its shift add up.

        `|S' d|_dual <= sum_j |d_j| |S_j|_dual`, which is linear in a binary decision: one solve for
        each inequality.

        Arguments:
            rounding, size: what is granted.
        """
        problem, off_by, model = self._rules.problem, self._model.off_by, self._model
        if not problem.binary or off_by is None:
            return False
        parts = off_by.radius * model.noise.dual(model.spread(np.eye(len(self._prices))))
        for multiple in model.multiples(Quantifier.EVERY):
            for end in model.ends(self._row):
                added = (np.abs(multiple + end) - np.abs(end)) * parts
                turned = torch.from_numpy(-multiple * self._prices - added)[None]
                solved = self._rules.optimum(turned)
                if solved.failures or solved.shortfall is not None:
                    return False
                solved = self._rules.criterion.rival(problem, turned, solved, self._rules.margin)
                if solved.failures:
                    return False
                worst = float(
                    end @ self._prices + np.abs(end) @ parts - turned[0] @ solved.decisions[0]
                )
                if worst > rounding + TOLERANCE * size:
                    return False
        return True
