"""What climbs among codes know of their tasks: measured once, then refreshed where it counts."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt._typing import Array, Indices
from cfopt.engine.task import Task
from cfopt.search.trust_region.climb import Outcome
from cfopt.search.trust_region.evaluator import Evaluator, host
from cfopt.search.trust_region.jacobian import Linearised, linearise, slopes
from cfopt.search.trust_region.step import strict

#: Sums of prices whose remainder beyond the others is smaller than this, squared, are rounding.
_DEPENDENT = 1e-9
#: How many steps a surrogate that does well is kept.
_OLD = 1


class Surrogate:
    """The linearised task at the code of each row, and how it is kept up to date.

    A measurement takes a forward pass for each entry of a code. But a step depends on the few cuts
    that bind, and a backward pass gives the slope of one of them. So a surrogate that has become
    stale is refreshed: with the slopes G of the binding cuts D, the nearest Jacobian that agrees
    with them is

        J + D' (D D')^-1 (G - D J)

    which is nearer to the true one in every direction. The slope of the loss is exact after this,
    and the curvature that of the last measurement, but for the plausibility.

    Arguments:
        evaluator: the evaluator of a task in a latent space.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        first, (count, size) = evaluator.first, evaluator.home.shape
        prices = host(first.prices)
        self._evaluator = evaluator
        self.state = Linearised(
            prices=prices.copy(),
            jacobian=np.zeros((*prices.shape, size)),
            loss=first.loss.copy(),
            slope=np.zeros((count, size)),
            curvature=np.zeros((count, size, size)),
        )
        #: What the loss would fall to without the criterion, by the first measurement, `(R,)`.
        self.floor = np.full(count, np.nan)
        #: Which rows are to be refreshed, and how many steps the others took since they were.
        self.stale = np.ones(count, dtype=bool)
        self._age = np.zeros(count, dtype=np.int64)
        self._measured = np.zeros((count, size, size))
        # The cuts `(c, m)` whose slopes `(c, n)` at the present codes are known, with these.
        self._nothing = np.zeros((0, prices.shape[1])), np.zeros((0, size))
        self._known: list[tuple[Array, Array]] = [self._nothing] * count

    @property
    def fresh(self) -> NDArray[np.bool_]:
        """Which rows were measured or refreshed at their present codes, `(R,)`."""
        fresh: NDArray[np.bool_] = ~self.stale & (self._age == 0)
        return fresh

    def measure(self, rows: Indices, z: Tensor) -> None:
        """Linearise the task at codes `(R, n)` of some rows."""
        if not len(rows):
            return
        task = self._evaluator.part(rows)
        found = linearise(task, z)
        for mine, other in zip(self.state, found, strict=True):
            mine[rows] = other
        self._measured[rows] = found.curvature
        self.state.curvature[rows] += _plausible(task, z)
        self._evaluator.passes[rows] += 1 + z.shape[1]
        self._renew(rows)
        for i in np.flatnonzero(np.isnan(self.floor[rows])).tolist():
            slope = found.slope[i]
            curvature = strict(self.state.curvature[rows[i]])
            gain = 0.5 * slope @ np.linalg.solve(curvature, slope)
            self.floor[rows[i]] = found.loss[i] - gain

    def forget(self, rows: Indices) -> None:
        """Drop the slopes of cuts that were measured at earlier codes."""
        for row in rows.tolist():
            self._known[row] = self._nothing

    def unseen(self, row: int, cuts: Array) -> Array:
        """Those of some cuts `(c, m)` whose slopes at the present code are not known."""
        known, _ = self._known[row]
        new: Array = cuts[~(cuts[:, None] == known[None]).all(axis=2).any(axis=1)]
        return new

    def refresh(self, rows: Indices, z: Tensor, cuts: Array) -> None:
        """Make the surrogate agree with the slopes of some cuts at codes: `(R, n), (R, c, m)`."""
        # The curvature of absolute values changes too much to be kept.
        if self._evaluator.task.space.proximity.measure.power != 2:
            self.measure(rows, z)
            return
        task, state = self._evaluator.part(rows), self.state
        found, state.slope[rows], passes = slopes(task, z, torch.from_numpy(cuts).to(z))
        self._evaluator.passes[rows] += passes
        state.curvature[rows] = self._measured[rows] + _plausible(task, z)
        for i, row in enumerate(rows.tolist()):
            before, at_these = self._known[row]
            known, true = np.concatenate([before, cuts[i]]), np.concatenate([at_these, found[i]])
            self._known[row] = known, true
            wrong = true - known @ state.jacobian[row]
            weights = np.linalg.lstsq(known @ known.T, wrong, rcond=_DEPENDENT)[0]
            state.jacobian[row] += known.T @ weights
        self._renew(rows)

    def learn(self, rows: Indices, outcome: Outcome) -> None:
        """Agree with what was seen, by Broyden's update, and go along with steps taken."""
        (move, there, taken, poor), state = outcome, self.state
        prices = host(there.prices)
        size = np.square(move).sum(axis=1) + 1e-12
        wrong = prices - state.prices[rows] - np.einsum("rmn,rn->rm", state.jacobian[rows], move)
        state.jacobian[rows] += wrong[:, :, None] * (move / size[:, None])[:, None, :]
        moved = rows[taken]
        state.prices[moved] = prices[taken]
        state.slope[moved] += np.einsum("rij,rj->ri", state.curvature[moved], move[taken])
        self._age[moved] += 1
        age = self._age[rows]
        self.stale[rows] = (age > 0) & (~taken | poor | (age > _OLD))

    def _renew(self, rows: Indices) -> None:
        self._age[rows], self.stale[rows] = 0, False


def _plausible(task: Task, z: Tensor) -> Array:
    """The curvature of the plausibility at codes: `(R, n) -> (R, n, n)`."""
    assert task.space.latent is not None
    return host(task.space.latent.curvature(z))
