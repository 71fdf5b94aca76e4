"""What climbs among codes know of their tasks: measured once, then corrected where it counts."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt.proximity import L1, Latent
from cfopt.search.code_step import gain
from cfopt.search.linearised import Linearised, linearise, slopes
from cfopt.search.survey import Rows
from cfopt.task import Task
from cfopt.types import Array

#: Sums of prices whose part beyond the others is smaller than this, squared, add only rounding.
_DEPENDENT = 1e-9


class CodeModel:
    """The linearised task at the code of each row, and how it is kept up to date.

    A measurement takes a forward pass for each entry of a code. But a step depends on the few cuts
    that bind, and a backward pass gives the slope of one of them. So an old model is corrected:
    with the slopes G of the binding cuts D, the nearest Jacobian that agrees with them is

        J + D' (D D')^-1 (G - D J)

    which is nearer to the true one in every direction. The slope of the loss is exact after this,
    and the curvature that of the last measurement.

    Arguments:
        task: a task in a latent space.
        prices: the prices at the start of each row, `(R, m)`.
        loss: the loss there, `(R,)`.
    """

    def __init__(self, task: Task, prices: Array, loss: Array) -> None:
        count, size = task.home.shape
        self.task = task
        self.state = Linearised(
            prices=prices.copy(),
            jacobian=np.zeros((*prices.shape, size)),
            loss=loss.copy(),
            slope=np.zeros((count, size)),
            curvature=np.zeros((count, size, size)),
        )
        self.passes = np.zeros(count, dtype=np.int64)
        #: How many steps each row has taken since its model was true; -1 if it is to be corrected.
        self.age = np.full(count, -1)
        #: Which rows are to be measured in full.
        self.unknown = np.ones(count, dtype=bool)
        #: What the loss would fall to without the criterion, by the first model of it.
        self.floor = np.full(count, np.nan)
        self._plausible = np.zeros((count, size, size))
        # The cuts whose slopes at the present codes are known, with these.
        self._cuts: list[Array] = [np.zeros((0, prices.shape[1]))] * count
        self._slopes: list[Array] = [np.zeros((0, size))] * count

    def measure(self, rows: Rows, z: Tensor) -> None:
        """Linearise the task at codes `(R, n)` of some rows."""
        if not len(rows):
            return
        task = self._part(rows)
        found = linearise(task, z)
        for name in (field.name for field in fields(found)):
            getattr(self.state, name)[rows] = getattr(found, name)
        self._plausible[rows] = _plausible(task, z)
        self.passes[rows] += 1 + z.shape[1]
        self.age[rows] = 0
        self.unknown[rows] = False
        for i in np.flatnonzero(np.isnan(self.floor[rows])).tolist():
            self.floor[rows[i]] = found.loss[i] - gain(found.curvature[i], found.slope[i])

    def forget(self, rows: Rows) -> None:
        """Drop the slopes of cuts measured at earlier codes."""
        for row in rows.tolist():
            self._cuts[row], self._slopes[row] = self._cuts[row][:0], self._slopes[row][:0]

    def unseen(self, row: int, cuts: Array) -> Array:
        """Those of some cuts `(c, m)` whose slopes at the present code are not known."""
        known = self._cuts[row]
        new: Array = cuts[~(cuts[:, None] == known[None]).all(axis=2).any(axis=1)]
        return new

    def mend(self, rows: Rows, z: Tensor, cuts: Array) -> None:
        """Make the model agree with the slopes of some cuts at codes: `(R, n), (R, c, m)`."""
        task, state = self._part(rows), self.state
        proximity = task.proximity.of if isinstance(task.proximity, Latent) else task.proximity
        # The curvature of absolute values changes too much to be kept.
        if isinstance(proximity, L1):
            self.measure(rows, z)
            return
        found = slopes(task, z, torch.from_numpy(cuts).to(z))
        self.passes[rows] += found.passes
        state.slope[rows] = found.loss
        plausible = _plausible(task, z)
        state.curvature[rows] += plausible - self._plausible[rows]
        self._plausible[rows] = plausible
        for i, row in enumerate(rows.tolist()):
            self._cuts[row] = known = np.concatenate([self._cuts[row], cuts[i]])
            self._slopes[row] = np.concatenate([self._slopes[row], found.prices[i]])
            wrong = self._slopes[row] - known @ state.jacobian[row]
            weights = np.linalg.lstsq(known @ known.T, wrong, rcond=_DEPENDENT)[0]
            state.jacobian[row] += known.T @ weights
        self.age[rows] = 0

    def learn(self, rows: Rows, move: Array, prices: Array, nearer: NDArray[np.bool_]) -> None:
        """Let the model agree with what was seen, by Broyden's update, and go with taken steps."""
        state = self.state
        size = np.square(move).sum(axis=1) + 1e-12
        wrong = prices - state.prices[rows] - np.einsum("rmn,rn->rm", state.jacobian[rows], move)
        state.jacobian[rows] += wrong[:, :, None] * (move / size[:, None])[:, None, :]
        taken, step = rows[nearer], move[nearer]
        state.prices[taken] = prices[nearer]
        state.slope[taken] += np.einsum("rij,rj->ri", state.curvature[taken], step)

    def _part(self, rows: Rows) -> Task:
        return self.task[torch.from_numpy(rows).to(self.task.home.device)]


def _plausible(task: Task, z: Tensor) -> Array:
    """The curvature of the plausibility at codes: `(R, n) -> (R, n, n)`."""
    assert task.latent is not None
    if task.latent.plausibility is None:
        return np.zeros((*z.shape, z.shape[1]))
    curvature: Array = task.latent.plausibility.curvature(z).double().cpu().numpy()
    return curvature
