"""How bad it can get: a criterion in every context of a ball and under every affine predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt._typing import Array, Indices
from cfopt.engine.rules import Rules
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.failure import distance_to_failure
from cfopt.exact.scenario import SomeDecision, constant
from cfopt.exact.unlisted import UnlistedRow
from cfopt.problems.solved import Solved
from cfopt.question.quantifier import Quantifier

#: The most decisions that are listed, and how many of their shifts are kept.
_LISTED, _KEPT = 100_000, 20_000_000
#: How many slopes, of each decision with each feature, are looked at together.
_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class WorstCase:
    """The largest h of each row, and the decision for which it is so large.

    Arguments:
        rival: that decision; for criteria about some decision, the one that comes nearest.
        excess: h, over all contexts and predictors that were looked at, `(R,)`.
        size: the terms that tolerances are a fraction of, `(R,)`.
        rounding: what rounding may add, `(R,)`.
        tried: how many contexts of the ball were looked at, where another may have a larger one;
            0 where it is proved that none has, `(R,)`.
        solved: whether the solver was asked.
    """

    rival: Solved
    excess: Array
    size: Array
    rounding: Array
    tried: NDArray[np.int64]
    solved: bool

    def holds(self, tolerance: float) -> Tensor:
        """Whether the criterion holds nevertheless: `(R,)`."""
        return torch.from_numpy(self.excess <= tolerance * self.size + self.rounding)


class _Found:
    """The worst that was found for each of R rows."""

    def __init__(self, decisions: Array) -> None:
        count = len(decisions)
        self.decisions = decisions.copy()
        self.excess: Array = np.full(count, -np.inf)
        self.size: Array = np.zeros(count)
        self.rounding: Array = np.zeros(count)
        self.tried = np.zeros(count, dtype=np.int64)

    def offer(self, at: Indices, decisions: Array, values: Array) -> None:
        """Compare with another decision of some rows: `(K,), (K, m), (3, K)`."""
        worse = values[0] > self.excess[at]
        rows = at[worse]
        self.decisions[rows] = decisions[worse]
        self.excess[rows], self.size[rows], self.rounding[rows] = values[:, worse]


class WorstCases:
    """Looks for the worst of an affine task, for batches of its rows.

    About the factual decision and every decision: `<prices, d> + r |S' d|_dual`, the largest over
    the decisions, from the list of all of them if contexts may be off and there is one, else by a
    solve. Without a list, contexts of the ball are looked for in which another decision is best
    (`UnlistedRow`), which proves it for L1 balls and for small ones.

    About some decision, one and the same decision may do in the whole ball. Otherwise decisions may
    take turns, of which a mixture of listed ones tells (`Mixture`); without a list, the nearest
    context in which none does is found by cutting planes.

    What a decision may add, `r |S' d|_dual`, is the same wherever a row is, and is kept.

    Arguments:
        model: the task.
    """

    def __init__(self, model: AffineTask) -> None:
        self._model = model
        self._parts = [_OneModel(one) for one in model.models]

    def of(self, rules: Rules, rows: Sequence[int], prices: Sequence[Tensor]) -> WorstCase:
        """The worst of some rows; prices have one entry for each predictor, `(R, m)`.

        Arguments:
            rules: those of these rows, with the solver that is to be asked.
            rows: their numbers in the model.
        """
        found = _Found(rules.factual.numpy())
        failures: dict[int, str] = {}
        solved = False
        for part, theta in zip(self._parts, prices, strict=True):
            rival = None
            if not part.listed:
                rival = rules.rival(theta)
                solved |= rules.calls_solver
                failures |= rival.failures
            part.judge(found, rules, list(rows), theta.numpy(), rival)
        return WorstCase(
            Solved(torch.from_numpy(found.decisions), failures),
            found.excess,
            found.size,
            found.rounding,
            found.tried,
            solved,
        )


class _OneModel:
    """The rows of a task under one predictor."""

    def __init__(self, model: AffineTask) -> None:
        self._model = model
        listing = None
        if model.off_by is not None and not model.multiples(Quantifier.GIVEN):
            listing = model.rules.problem.decisions(_LISTED)
        self._decisions: Array | None = None if listing is None else listing.numpy()
        if self._decisions is not None:
            self._spread = model.spread(self._decisions)  # (D, p)
        self._shifts: dict[int, Array] = {}

    @property
    def listed(self) -> bool:
        """Whether contexts may be off, and all decisions are known."""
        return self._decisions is not None

    def judge(
        self, found: _Found, rules: Rules, rows: list[int], prices: Array, rival: Solved | None
    ) -> None:
        """Offer the worst of each row; the rival is the solver's, if it was asked."""
        lost = set() if rival is None else set(rival.failures)
        at: Indices = np.array([i for i in range(len(rows)) if i not in lost], dtype=np.intp)
        if not len(at):
            return
        case = _Batch(self._model, rules, [rows[i] for i in at], prices[at])
        if self._model.multiples(Quantifier.GIVEN):
            factual = rules.factual.numpy()[at]
            found.offer(at, factual, case.values(Quantifier.GIVEN, factual))
        if self._model.multiples(Quantifier.EVERY):
            self._of_every(found, case, at, rival)
        if self._model.multiples(Quantifier.SOME):
            self._of_some(found, case, at, rival)

    def _of_every(self, found: _Found, case: _Batch, at: Indices, rival: Solved | None) -> None:
        """What every decision must meet."""
        if self._decisions is not None:
            worst = self._listed(case).argmax(axis=1)
            decisions = self._decisions[worst]
            values = case.values(Quantifier.EVERY, decisions)
            if case.skips_own:
                # With a margin, the alternative need not win against itself.
                values[0, (decisions == case.pivot).all(axis=1)] = -np.inf
            found.offer(at, decisions, values)
            return
        assert rival is not None
        decisions = rival.decisions.numpy()[at]
        found.offer(at, decisions, case.values(Quantifier.EVERY, decisions))
        if rival.shortfall is not None:
            found.tried[at] += 1
        if self._model.off_by is None:
            return
        for k in range(len(at)):
            self._of_ball(found, case, k, at[k : k + 1])

    def _of_ball(self, found: _Found, case: _Batch, k: int, at: Indices) -> None:
        """Look for worse decisions in the ball of one row: of its number in the batch, and `(1,)`.

        Where a decision fails to be found, none is the best there, the one asked for included.
        """
        row = int(at[0])
        rules = case.rules[torch.tensor([row])]
        lone = UnlistedRow(self._model, rules, case.rows[k], case.prices[k])

        def offer(others: Array) -> None:
            values = case.row(k, len(others)).values(Quantifier.EVERY, others)
            most = int(values[0].argmax())
            found.offer(at, others[most : most + 1], values[:, most : most + 1])

        def worst() -> Array:
            decision: Array = found.decisions[at]
            return decision

        if not lone.attack(offer, worst):
            granted = float(found.rounding[row]), float(found.size[row])
            if lone.failed or not lone.small_parts(*granted):
                found.tried[row] += lone.tried
        if lone.failed:
            found.excess[row] = np.inf

    def _of_some(self, found: _Found, case: _Batch, at: Indices, rival: Solved | None) -> None:
        """What some decision must meet: one for the whole ball, or another for each context."""
        if self._decisions is not None:
            best = [
                own[(own @ prices).argmin()]
                for own, prices in zip(map(self._candidates, case.rows), case.prices, strict=True)
            ]
            decisions = np.stack(best)
        else:
            assert rival is not None
            decisions = rival.decisions.numpy()[at]
        values = case.values(Quantifier.SOME, decisions)
        if self._decisions is not None:
            for k in np.flatnonzero(values[0] > values[2]):
                values[:, k] = self._of_mixtures(case, int(k), values[:, k])
        elif self._model.off_by is not None:
            for k in np.flatnonzero(values[0] > values[2]):
                lone = case.rules[torch.tensor([int(at[k])])]
                least, _ = distance_to_failure(self._model, lone, case.rows[k], case.prices[k])
                if least >= self._model.off_by.radius:
                    values[0, k] = 0.0
        rules = case.rules[torch.from_numpy(at)]
        beaten = rules.unseats(torch.from_numpy(case.prices), torch.from_numpy(decisions))
        values[0, ~beaten.numpy()] = np.inf
        found.offer(at, decisions, values)

    def _candidates(self, row: int) -> Array:
        """The decisions that may be the one that is enough, `(D, m)`."""
        assert self._decisions is not None
        return self._decisions[self._model.may_suffice(row, self._decisions)]

    def _of_mixtures(self, case: _Batch, k: int, single: Array) -> Array:
        """The same of one row if decisions take turns, and that is better: h, size, rounding."""
        row, prices = case.rows[k], case.prices[k]
        # Other predictors have their own turn, with their own prices.
        own = SomeDecision.every(self._model, row, self._candidates(row), predictors=1)
        turns = [one.worst(prices) for one in own]
        directions = np.stack([*(one.direction for one in turns), *constant(self._model, row)])
        values = case.of_directions(k, directions)
        worst: Array = values[:, values[0].argmax()]
        return worst if worst[0] < single[0] else single

    def _listed(self, case: _Batch) -> Array:
        """The worst h of each listed decision, if every one must be beaten: `(R, D)`."""
        assert self._decisions is not None
        values = case.prices @ self._decisions.T
        worst: Array | None = None
        shifts = self._shifts_of(case)
        number = 0
        for multiple in self._model.multiples(Quantifier.EVERY):
            for end in case.ends:
                level = (end * case.prices).sum(axis=1, keepdims=True)
                excess = multiple * values + level + shifts[number]
                worst = excess if worst is None else np.maximum(worst, excess)
                number += 1
        assert worst is not None
        return worst

    def _shifts_of(self, case: _Batch) -> Array:
        """What each decision may add in the inequalities of all rows: `(C, R, D)`."""
        assert self._decisions is not None
        new = [k for k, row in enumerate(case.rows) if row not in self._shifts]
        step = max(1, _AT_ONCE // max(self._spread.size, 1))
        fresh: dict[int, Array] = {}
        for start in range(0, len(new), step):
            some = new[start : start + step]
            fresh |= zip(some, self._shift(case, some).swapaxes(0, 1), strict=True)
        shifts = [fresh[k] if k in fresh else self._shifts[row] for k, row in enumerate(case.rows)]
        for k, shift in fresh.items():
            if (len(self._shifts) + 1) * shift.size <= _KEPT:
                self._shifts[case.rows[k]] = shift
        return np.stack(shifts, axis=1)

    def _shift(self, case: _Batch, some: list[int]) -> Array:
        """The same of some rows, by their numbers in the batch: `(C, R, D)`."""
        assert self._decisions is not None
        parts = [
            self._model.spreading(multiple * self._spread + self._model.spread(end[some])[:, None])
            for multiple in self._model.multiples(Quantifier.EVERY)
            for end in case.ends
        ]
        shift = np.stack(parts)
        if case.skips_own:
            own = (self._decisions == case.pivot[some][:, None]).all(axis=2)
            shift[:, own] = -np.inf
        return shift


class _Batch:
    """Some rows at some prices, under one predictor."""

    def __init__(self, model: AffineTask, rules: Rules, rows: list[int], prices: Array) -> None:
        self.model, self.rules, self.rows, self.prices = model, rules, rows, prices
        #: What is added to the multiples of y, `(E, R, m)`.
        self.ends: Array = model.ends_of_each(np.array(rows)).swapaxes(0, 1)
        self.skips_own = rules.criterion.contrasts and rules.margin > 0

    @property
    def pivot(self) -> Array:
        """The decisions that a margin is about, `(R, m)`."""
        pivot: Array = self.model.pivot[self.rows]
        return pivot

    def row(self, k: int, count: int) -> _Batch:
        """One of the rows, repeated."""
        prices = np.repeat(self.prices[k : k + 1], count, axis=0)
        return _Batch(self.model, self.rules, [self.rows[k]] * count, prices)

    def values(self, quantifier: Quantifier, decisions: Array) -> Array:
        """Of the worst inequality of a decision of each row: h, its size and rounding, `(3, R)`."""
        multiples = np.array(self.model.multiples(quantifier))[:, None, None, None]
        directions = (multiples * decisions + self.ends).reshape(-1, *decisions.shape)  # (C, R, m)
        parts = self._parts(directions, self.prices)
        worst = parts[0].argmax(axis=0)[None, None]
        values: Array = np.take_along_axis(parts, worst, axis=1)[:, 0]
        return values

    def of_directions(self, k: int, directions: Array) -> Array:
        """The same of some directions of one row: `(C, m) -> (3, C)`."""
        return self._parts(directions[:, None], self.prices[k : k + 1])[:, :, 0]

    def _parts(self, directions: Array, prices: Array) -> Array:
        """h, its size and rounding: `(C, R, m), (R, m) -> (3, C, R)`."""
        flat = directions.reshape(-1, directions.shape[2])
        shift = self.model.shift(flat).reshape(directions.shape[:2])
        largest = np.abs(prices).max(axis=1, initial=0.0)
        weight = np.abs(directions)
        return np.stack(
            [
                (directions * prices).sum(axis=2) + shift,
                (weight * np.abs(prices)).sum(axis=2) + shift,
                self.rules.rounding * largest * weight.sum(axis=2),
            ]
        )
