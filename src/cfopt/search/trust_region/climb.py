"""Trust-region climbs: first to a valid point, then back towards the factual one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array, Indices
from cfopt.engine.progress import Moving
from cfopt.search.trust_region.evaluator import Evaluator, ScaledEvaluation

#: How the trust region shrinks and grows.
_SHRINK, _GROW = 0.4, 2.0
#: A radius shrinks, or grows, after steps that gain less, or more, than these fractions of what was
#: expected; a step that gains less than the fraction between them says that the model is poor.
_POOR, _FAIR, _GOOD = 0.1, 0.3, 0.7
#: A loss that is lower by this fraction is a worthwhile gain.
_WORTHWHILE = 0.002
#: The penalty of climbs that begin at a valid point, as a multiple of the loss there: no cut that
#: they would break is known yet.
_CAUTION = 30.0
#: How far above its multiplier the penalty is kept.
_ABOVE = 1.5


class Positions(NamedTuple):
    """Where climbs are, one row each.

    Arguments:
        at: the changes, `(R, p)`.
        loss: what is minimised there, `(R,)`.
        radius: the radius of the trust region, a box, `(R,)`.
        one_suffices: whether one decision is enough to meet the criterion nearby, `(R,)`.
    """

    at: Array
    loss: Array
    radius: Array
    one_suffices: NDArray[np.bool_]


class StepPlan(NamedTuple):
    """Where a model leads, and what it expects there, one row each.

    Arguments:
        target: the changes to look at, `(R, p)`.
        loss, miss: what is expected there; inf where no step problem was solved, `(R,)`.
        price: what missing the criterion by a unit more would save; 0 if it cannot be met, `(R,)`.
        fresh: whether the model is true to first order at the present points, `(R,)`.
    """

    target: Array
    loss: Array
    miss: Array
    price: Array
    fresh: NDArray[np.bool_]

    @classmethod
    def nothing(cls, at: Array) -> StepPlan:
        """To stay, with no expectations."""
        count = len(at)
        loss, miss = np.full((2, count), np.inf)
        return cls(at.copy(), loss, miss, np.zeros(count), np.ones(count, dtype=bool))

    def improve(
        self,
        which: Indices | int,
        target: Array,
        loss: Array | float,
        miss: Array | float,
        price: Array | float,
        elastic: Array | float,
    ) -> NDArray[np.bool_]:
        """Take other steps for some rows where they promise more, `loss + elastic * miss`."""
        before = self.loss[which] + elastic * self.miss[which]
        better = np.asarray(loss + elastic * miss < before)
        self.target[which] = np.where(better[..., None], target, self.target[which])
        for mine, other in ((self.loss, loss), (self.miss, miss), (self.price, price)):
            mine[which] = np.where(better, other, mine[which])
        return better

    def reset(self, which: int, at: Array) -> None:
        """Let one row stay, with no expectations."""
        self.target[which], self.price[which] = at, 0.0
        self.loss[which] = self.miss[which] = np.inf


class Outcome(NamedTuple):
    """What became of a planned step, one row each.

    Arguments:
        move: the move from where the climb was, `(R, p)`.
        there: what a look showed.
        taken: whether the climb has moved, `(R,)`.
        poor: whether much less was gained than expected, `(R,)`.
    """

    move: Array
    there: ScaledEvaluation
    taken: NDArray[np.bool_]
    poor: NDArray[np.bool_]


class Model(Protocol):
    """What climbs know of their task near their points."""

    def plan(self, rows: Indices, here: Positions) -> StepPlan:
        """Where to go from here, for some rows."""

    def learn(self, rows: Indices, outcome: Outcome) -> NDArray[np.bool_]:
        """Take notice of what was seen; for which rows the decision there is a new one."""


class Precision(NamedTuple):
    """When a climb has come to rest.

    Arguments:
        radius: below this radius of the trust region.
        gain: where a model that is true hopes for less than this fraction of the merit.
        patience: after so many steps without a worthwhile gain, once something valid is known.
    """

    radius: float
    gain: float
    patience: int


class Climb:
    """Trust-region steps on a model of the task, one climb for each of its rows.

    While nothing valid is known, a step is taken if the criterion is missed by less; from then on
    if the merit falls,

        loss + penalty * miss

    with a penalty above the multipliers of the step problems. A radius shrinks after a poor step,
    unless the model was not true, or the step has revealed a new decision: then the model improves
    without it. The best valid point is kept by the evaluator.

    Arguments:
        evaluator: the evaluator of the task.
        model: the model of the same task.
        radius: the radius of the first trust region.
        precision: when to end.
    """

    def __init__(
        self, evaluator: Evaluator, model: Model, radius: float, precision: Precision
    ) -> None:
        self.evaluator, self.model, self._precision = evaluator, model, precision
        count, first = len(evaluator.start), evaluator.first
        self._at = evaluator.start.copy()
        self._loss, self._miss = first.loss.copy(), first.miss.copy()
        self._one_suffices = first.one_suffices.copy()
        self._radius = np.full(count, radius)
        self._penalty = np.where(first.holds, _CAUTION * first.loss, 0.0)
        self._best = np.where(first.holds, first.loss, np.inf)
        self._idle = np.zeros(count, dtype=np.int64)
        self.steps = np.zeros(count, dtype=np.int64)
        self.running = np.flatnonzero(np.isfinite(first.miss))

    def run(self, max_steps: int) -> Iterator[Moving]:
        """Take steps until every row has come to rest; yields where the others are."""
        for _ in range(max_steps):
            if not len(self.running) or self.evaluator.task.late:
                return
            self._advance()
            points = self.evaluator.points(self.running, self._at[self.running])
            yield Moving(self.evaluator.index(self.running), points)

    def _advance(self) -> None:
        """One step of all rows that are still running."""
        rows, end = self.running, self._precision
        self.steps[rows] += 1
        known = self.evaluator.found[rows]
        radius, at = self._radius[rows], self._at[rows]
        plan = self.model.plan(
            rows, Positions(at, self._loss[rows], radius, self._one_suffices[rows])
        )
        there = self.evaluator.look(rows, plan.target)
        needed = np.where(known, _ABOVE * plan.price, 0.0)
        self._penalty[rows] = np.maximum(self._penalty[rows], needed)
        now = self._merit(rows, known, self._loss[rows], self._miss[rows])
        hoped = now - self._merit(rows, known, plan.loss, plan.miss)
        gained = now - self._merit(rows, known, there.loss, there.miss)
        taken = (gained > 0) | (there.holds & ~known)
        move = plan.target - at
        new = self.model.learn(rows, Outcome(move, there, taken, gained < _FAIR * hoped))

        moved = rows[taken]
        self._at[moved] = plan.target[taken]
        self._loss[moved], self._miss[moved] = there.loss[taken], there.miss[taken]
        self._one_suffices[moved] = there.one_suffices[taken]
        length = np.abs(move).max(axis=1)
        bounded = length > 0.9 * radius
        shrink = ~(taken & (gained >= _POOR * hoped)) & plan.fresh & ~new
        grow = taken & bounded & (gained > _GOOD * hoped)
        shorter = _SHRINK * np.where(length > 0, np.minimum(length, radius), radius)
        self._radius[rows] = np.where(shrink, shorter, np.where(grow, _GROW * radius, radius))
        self._wait(rows, there)
        settled = known & plan.fresh & ~bounded & ~new & (hoped <= end.gain * now)
        moving = (self._radius[rows] > end.radius) & np.isfinite(there.miss) & ~settled
        self.running = rows[moving & (self._idle[rows] < end.patience)]

    def _merit(self, rows: Indices, known: NDArray[np.bool_], loss: Array, miss: Array) -> Array:
        """The miss alone while nothing valid is known; then the loss, with what is missed."""
        with np.errstate(invalid="ignore"):  # no price yet, and no context that is allowed
            merit = np.where(known, loss + self._penalty[rows] * miss, miss)
        return np.where(np.isfinite(merit), merit, np.inf)

    def _wait(self, rows: Indices, there: ScaledEvaluation) -> None:
        """Count the steps since a valid loss was lower by a worthwhile fraction."""
        best = self._best[rows]
        much = there.holds & ~(there.loss > (1 - _WORTHWHILE) * best)
        self._idle[rows] = np.where(much | np.isinf(best), 0, self._idle[rows] + 1)
        self._best[rows] = np.where(there.holds, np.fmin(there.loss, best), best)
