"""A task with an affine predictor, as geometry: changes u, half-spaces, whole numbers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.exact.affine import AffineMap, is_affine
from cfopt.exact.decision_table import DOUBT, EPS, NOISE, DecisionTable
from cfopt.exact.exact_task import ExactTask
from cfopt.exact.geometry import HalfSpaces, Leeway
from cfopt.problems.base import FEASIBILITY_TOLERANCE


class AffineTask(ExactTask):
    """A task whose prices are affine in the change u.

    Prices are `theta(u) = theta0 + V u`, and a cut `<theta, d> <= 0` is the half-space
    `(V' d) u <= -<theta0, d>`.

    Arguments:
        task: a task that `refusal` accepts.
    """

    def __init__(self, task: Task) -> None:
        found = AffineMap.of(task)
        super().__init__(task)
        self.slopes: Array = found.weight * self.scale  # V, (m, p)
        self._steepness: Array = np.abs(self.slopes)
        self._steepest: Array = self._steepness.max(axis=0)
        self.prices0: Array = self.origin @ found.weight.T + found.bias
        #: What prices are sums of, which says how exactly they are known; (B, m).
        self._weight, self._constant = np.abs(found.weight).T, np.abs(found.bias)
        self.sizes: Array = np.abs(self.origin) @ self._weight + self._constant
        self.eps = float(torch.finfo(task.space.origin.dtype).eps)
        self._listing: DecisionTable | None = None

    @staticmethod
    def refusal(task: Task) -> str:
        """Why a task cannot be treated exactly, or ""."""
        if task.space.latent is not None:
            return "codes are searched, not contexts (use LatentSequential() or MDMM())"
        if not is_affine(task.predictor):
            return (
                "the predictor is not known to be affine (use Sequential() or MDMM(), or wrap it "
                "in cfopt.Affine if it is)"
            )
        return ExactTask.limitation(task)

    def prices(self, rows: list[int], u: Array) -> Tensor:
        """Turned prices after changes: `(R, p) -> (R, m)`."""
        return torch.from_numpy(self.prices0[rows] + u @ self.slopes.T)

    def sizes_at(self, rows: list[int], u: Array) -> Array:
        """The terms that prices are sums of, after changes: `(R, p) -> (R, m)`."""
        sizes: Array = np.abs(self.origin[rows] + self.scale * u) @ self._weight + self._constant
        return sizes

    def cut(self, row: int, directions: Array, ease: float = 0.0) -> HalfSpaces:
        """The half-spaces of some directions: `(C, m) -> HalfSpaces`.

        With `ease` they may be broken by this fraction of the terms that they compare at x0.
        """
        weight = np.abs(directions)
        normals, limits = directions @ self.slopes, -directions @ self.prices0[row]
        limits += ease * (weight @ np.abs(self.prices0[row]))
        noise = NOISE * (weight @ self._steepness)
        normals[np.abs(normals) <= noise] = 0.0  # what cancels but for rounding cancels
        error = weight @ self.sizes[row]
        doubt = DOUBT * self.eps * error
        level = ~normals.any(axis=1) & (np.abs(limits) <= doubt)
        limits[level] = 0.0
        rounding = np.where(level, 0.0, DOUBT * EPS * error)
        return HalfSpaces(normals, limits, rounding, doubt, noise.max(axis=1, initial=0.0))

    def leeway(self, row: int, weights: Array) -> Leeway:
        """By how much inequalities may be broken in contexts that verification calls valid.

        It grants `TOLERANCE` of the terms, and rounding as a fraction of the largest price; and
        decisions that are not known exactly may break what they stand for: `(C, m) -> Leeway`.
        """
        granted = TOLERANCE + (0.0 if self.exact_decisions else FEASIBILITY_TOLERANCE)
        known, total = self.rules.rounding, weights.sum(axis=1)
        prices = np.abs(self.prices0[row])
        return Leeway(
            granted * (weights @ prices) + known * prices.max() * total,
            granted * (weights @ self._steepness) + known * total[:, None] * self._steepest,
        )

    def listing(self, limit: int) -> DecisionTable | None:
        """Every decision, if there are no more than `limit`."""
        if self._listing is None:
            listed = self.rules.problem.decisions(limit)
            self._listing = None if listed is None else DecisionTable(self, listed.numpy())
        return self._listing
