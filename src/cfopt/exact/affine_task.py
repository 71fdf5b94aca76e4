"""A task with an affine predictor, as geometry: changes u, half-spaces, whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array, Indices
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy
from cfopt.exact.affine import AffineMap, is_affine
from cfopt.exact.certificate import Cut, cut_directions, cut_leads
from cfopt.exact.decision_table import DOUBT, EPS, NOISE, DecisionTable
from cfopt.exact.exact_task import NORMS, ExactTask
from cfopt.exact.geometry import HalfSpaces, Leeway, Norm
from cfopt.problems.solved import FEASIBILITY_TOLERANCE


class AffineTask(ExactTask):
    """A task whose prices are affine in the change u.

    Prices are `theta(u) = theta0 + V u`, and a cut `<theta, d> <= 0` is the half-space
    `(V' d) u <= -<theta0, d>`. Where contexts may be off by any w with `|w| <= r`, it must hold for
    each of them, and

        max_w <theta(u) + S w, d> = <theta(u), d> + r |S' d|_dual

    moves the half-space by a constant, with S the prices' slopes in the units of w. Where there are
    several predictors, each has its half-spaces.

    Arguments:
        task: a task that `refusal` accepts.

    Attributes:
        others: the same task under each of the further predictors.
    """

    def __init__(self, task: Task) -> None:
        found = AffineMap.of(task)
        super().__init__(task)
        self.others: tuple[AffineTask, ...] = ()
        self._off_by: OffBy | None = None
        self._as_they_change = False  # whether contexts are off in the norm in which they change
        if (variation := task.variation) is not None:
            alone = replace(task, variation=variation.of_one_model())
            self.others = tuple(
                AffineTask(replace(alone, predictor=other)) for other in variation.predictors
            )
            self._off_by = variation.off_by
        if self._off_by is not None:
            self._spread: Array = found.weight * self._off_by.units  # S, (m, p)
            self._noise: Norm = NORMS[type(self._off_by.norm)]
            units: Array = self._off_by.units / self.scale
            ratio = self._noise.least_ratio(self.norm, len(self.scale))
            self._reach = self._off_by.radius * ratio * float(units.min())
            self._as_they_change = type(self._noise) is type(self.norm) and bool(np.ptp(units) == 0)
        self.slopes: Array = found.weight * self.scale  # V, (m, p)
        self._steepness: Array = np.abs(self.slopes)
        self._steepest: Array = self._steepness.max(axis=0)
        self.prices0: Array = self.origin @ found.weight.T + found.bias
        #: What prices are sums of, which says how exactly they are known; (B, m).
        self._weight, self._constant = np.abs(found.weight).T, np.abs(found.bias)
        self.sizes: Array = np.abs(self.origin) @ self._weight + self._constant
        self.eps = float(torch.finfo(task.space.origin.dtype).eps)
        self._decision_table: DecisionTable | None = None
        self._nominal: AffineTask | None = None

    @staticmethod
    def refusal(task: Task) -> str:
        """Why a task cannot be treated exactly, or ""."""
        if task.space.latent is not None:
            return "codes are searched, not contexts (use LatentSequential() or MDMM())"
        further = () if task.variation is None else task.variation.predictors
        if not all(is_affine(predictor) for predictor in (task.predictor, *further)):
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

    @property
    def models(self) -> tuple[AffineTask, ...]:
        """The task under each predictor, K of them, its own first."""
        return (self, *self.others)

    def about(self, plan: Array) -> Self:
        """The same criterion about a plan in all rows, under each predictor: `(m,)` or `(B, m)`."""
        twin = super().about(plan)
        twin.others = tuple(other.about(plan) for other in self.others)
        twin._nominal = None
        return twin

    @property
    def nominal(self) -> AffineTask:
        """The task of its own predictor alone, in contexts just as they are."""
        if self._nominal is None:
            self._nominal = self._alone()
        return self._nominal

    def _alone(self) -> AffineTask:
        plain = copy(self)
        plain.others, plain._off_by, plain._decision_table = (), None, None
        plain._as_they_change = False
        return plain

    def off(self, by: Array) -> AffineTask:
        """The task of its own predictor alone, in contexts that are off by just this w, `(p,)`."""
        plain = self._alone()
        if self._off_by is not None:
            plain.prices0 = self.prices0 + self._spread @ by
            plain.sizes = self.sizes + np.abs(self._spread) @ np.abs(by)
        return plain

    @property
    def off_by(self) -> OffBy | None:
        """How far contexts may be off, if they may."""
        return self._off_by

    @property
    def varied(self) -> bool:
        """Whether answers have to stand up to contexts that are off, or to other predictors."""
        return self._off_by is not None or bool(self.others)

    def farther(self, costs: Array) -> Array:
        """What answers cost at least if none of the plain task costs less than this: `(C,)` each.

        The allowed contexts on the way from x0 to the answer are valid from r before its end on:
        the answer is at least r farther away than the nearest plain one. In units of the proximity,
        r is `r min |u| / |w|` over the directions of the way.
        """
        domain = self.space.domain
        if self._off_by is None or (domain and domain.discrete):
            return costs  # or whole numbers, between which there is nothing
        power = self.norm.power
        return np.where(costs > 0, (costs ** (1 / power) + self._reach) ** power, costs)

    @property
    def only_farther(self) -> bool:
        """Whether half-spaces move by just what `farther` adds: contexts are off as they change."""
        return self._as_they_change and not self.others and self.space.domain is None

    def spread(self, directions: Array) -> Array:
        """How `<prices, d>` changes with the w by which a context is off: `(C, m) -> (C, p)`."""
        return directions @ self._spread

    def steepness(self, sizes: Array) -> Array:
        """What the slopes of `spread` are sums of, for entries of some sizes: `(C, m) -> (C,)`."""
        total: Array = self.steepness_of_each(sizes).max(axis=1, initial=0.0)
        return total

    def steepness_of_each(self, sizes: Array) -> Array:
        """The same for each of the slopes: `(C, m) -> (C, p)`."""
        sums: Array = sizes @ np.abs(self._spread)
        return sums

    def moved(self, off: Array) -> Array:
        """What prices change by where contexts are off by w: `(R, p) -> (R, m)`."""
        change: Array = off @ self._spread.T
        return change

    @property
    def noise(self) -> Norm:
        """How the length of w is measured."""
        return self._noise

    def shift(self, directions: Array) -> Array:
        """By how much `<prices, d>` may be larger where the context is off: `(C, m) -> (C,)`."""
        if self._off_by is None:
            return np.zeros(len(directions))
        return self.spreading(directions @ self._spread)

    def spreading(self, slopes: Array) -> Array:
        """The same of slopes that `spread` returned: `(C, p) -> (C,)`."""
        assert self._off_by is not None
        return self._off_by.radius * self._noise.dual(slopes)

    def cut(self, row: int | Indices, directions: Array, ease: float | Array = 0.0) -> HalfSpaces:
        """The half-spaces of some directions, one for each predictor: `(C, m)` gives C times K.

        Arguments:
            row: the row whose they are, or that of each of them, `(C,)`.
            directions: `(C, m)`.
            ease: by what fraction of the terms that they compare at x0 they may be broken.
        """
        if not self.others:
            return self._cut(row, directions, ease)
        return HalfSpaces.interleaved([one._cut(row, directions, ease) for one in self.models])

    def cuts(
        self, row: int, cuts: Sequence[Cut], ease: float = 0.0, leads: float = 1.0
    ) -> HalfSpaces:
        """The same of cuts, with leads over the factual decision times so much."""
        found = self.cut(row, cut_directions(cuts, self, row), ease)
        lead = leads * cut_leads(cuts, self, row).repeat(len(self.models))
        return found._replace(limits=found.limits - lead)

    def _cut(self, row: int | Indices, directions: Array, ease: float | Array) -> HalfSpaces:
        weight, prices = np.abs(directions), self.prices0[row]
        normals, limits = directions @ self.slopes, -_dot(directions, prices)
        limits += ease * _dot(weight, np.abs(prices)) - self.shift(directions)
        noise = NOISE * (weight @ self._steepness)
        normals[np.abs(normals) <= noise] = 0.0  # what cancels but for rounding cancels
        error = _dot(weight, self.sizes[row])
        doubt = DOUBT * self.eps * error
        level = ~normals.any(axis=1) & (np.abs(limits) <= doubt)
        limits[level] = 0.0
        rounding = np.where(level, 0.0, DOUBT * EPS * error)
        return HalfSpaces(normals, limits, rounding, doubt, noise.max(axis=1, initial=0.0))

    def leeway(self, row: int, weights: Array) -> Leeway:
        """By how much inequalities may be broken in contexts that verification calls valid.

        It grants `TOLERANCE` of the terms, and rounding as a fraction of the largest price; and
        decisions that are not known exactly may break what they stand for: `(C, m)` gives C times
        K.
        """
        if not self.others:
            return self.own_leeway(row, weights)
        return Leeway.interleaved([one.own_leeway(row, weights) for one in self.models])

    def own_leeway(self, row: int, weights: Array) -> Leeway:
        """The same for its own predictor alone: `(C, m) -> Leeway` of C rows."""
        granted = TOLERANCE + (0.0 if self.exact_decisions else FEASIBILITY_TOLERANCE)
        known, total = self.rules.rounding, weights.sum(axis=1)
        prices = np.abs(self.prices0[row])
        largest = weights @ prices
        if self._off_by is not None:
            largest += self._off_by.radius * self._noise.dual(weights @ np.abs(self._spread))
        return Leeway(
            granted * largest + known * prices.max() * total,
            granted * (weights @ self._steepness) + known * total[:, None] * self._steepest,
        )

    def decision_table(self, limit: int) -> DecisionTable | None:
        """Every decision, if there are no more than `limit`."""
        if self._decision_table is None:
            listed = self.rules.problem.decisions(limit)
            self._decision_table = None if listed is None else DecisionTable(self, listed.numpy())
        return self._decision_table


def _dot(left: Array, right: Array) -> Array:
    """Sums of products with one row for all, `(C, m), (m,) -> (C,)`, or one each, `(C, m)`."""
    total: Array = left @ right if right.ndim == 1 else np.einsum("cm,cm->c", left, right)
    return total
