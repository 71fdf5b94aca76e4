"""The sweep's own brute force: all decisions listed, other solvers, NumPy in float64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import quadprog
import scipy.optimize
import torch

from benchmarks.sweep_tasks import Array, Solvable, SweepTask

#: What every answer is granted, as a fraction of the terms that its criterion compares.
_GRANTED = 1e-6


@dataclass(frozen=True)
class Truth:
    """What is true of one row, whatever cfopt says of it.

    Arguments:
        task: the task to which it belongs.
        row: its number.
        factual: the decision that was taken, `(m,)`.
    """

    task: SweepTask
    row: int
    factual: Array

    @property
    def x0(self) -> Array:
        return self.task.x0[self.row].double().numpy()

    def prices(self, x: torch.Tensor) -> Array:
        """Prices as deployed, turned so that less is better: `(p,) -> (m,)`."""
        given = self.task.given
        with torch.no_grad():
            costs = self.task.pipeline.predictor(x[None])[0].double().numpy()
        return turned(given, costs)

    def same_but_for_noise(self) -> bool:
        """Whether a relative question compares a decision with itself, noise apart."""
        if self.task.kind != "relative" or not self.task.given.noise:
            return False
        return bool(np.abs(self.task.wanted[self.row] - self.factual).max() < 1e-5)

    def holds(self, x: torch.Tensor) -> bool:
        """Whether a context is allowed and valid, from scratch: `(p,) -> bool`."""
        return self.allowed(x.double().numpy()) and self._valid(self.prices(x))

    def allowed(self, x: Array) -> bool:
        limits = self.task.limits
        slack = 1e-6 * np.maximum(1.0, np.abs(x)) + 1e-9
        whole = x[limits.integer + limits.group]
        held = x[limits.immutable] - self.x0[limits.immutable]
        return bool(
            (x >= limits.lower - slack).all()
            and (x <= limits.upper + slack).all()
            and (np.abs(whole - whole.round()) <= 1e-6).all()
            and (np.abs(held) <= slack[limits.immutable]).all()
            and (not limits.group or abs(x[limits.group].sum() - 1) <= 2e-6)
            and x.sum() <= limits.total + 1e-6 * max(1.0, np.abs(x).sum())
        )

    def _valid(self, prices: Array) -> bool:
        """`h <= 1e-6 sum_j |price_j d_j|`, plus rounding, and what noise in decisions can cost."""
        task = self.task
        others = task.given.listed
        wanted = None if task.wanted is None else task.wanted[self.row]
        if task.kind == "absolute" and task.margin > 0:
            others = others[np.abs(others - wanted).max(axis=1) > 1e-9]
            if not len(others):
                return False
        best = others[(others @ prices).argmin()]
        # How many answers of the solver are compared: each may cost its noise.
        rivals, pivot = 2.0, self.factual if wanted is None else wanted
        if task.kind == "relative":
            direction = wanted - self.factual
        elif task.kind == "absolute":
            direction = wanted - best
        else:
            rivals = 2 + task.criterion.epsilon
            sign = np.sign(prices @ best)
            direction = (1 + sign * task.criterion.epsilon) * best - self.factual
            if not prices @ (self.factual - best) > 1e-9 * np.abs(prices).max():
                return False  # it is as good as ever
        direction = direction + task.margin * np.sign(prices @ pivot) * pivot
        terms = prices * direction
        # A network sums a row alone in another order than in a batch: as much again may be lost.
        known = 8 * float(torch.finfo(task.x0.dtype).eps)
        at_start = np.abs(self.prices(task.x0[self.row])).max()
        size = max(np.abs(prices).max(), at_start)
        rounding = max(1e-12, known) * size * np.abs(direction).sum()
        off = task.given.noise
        if off:  # such decisions are not on the list, and keep what their dtype has rounded
            off += float(torch.finfo(task.x0.dtype).eps) * np.abs(self.factual).max()
        noise = rivals * off * np.abs(prices).sum()
        return bool(terms.sum() <= _GRANTED * np.abs(terms).sum() + rounding + noise)

    # The closest explanation, where the predictor is affine.

    def nearest(self) -> tuple[float, Array | None]:
        """The least loss of an explanation, and where it is; inf and None if there is none."""
        best, where = np.inf, None
        for x in self._candidates():
            if x is not None:
                loss = self.loss(x)
                if loss < best:
                    best, where = loss, x
        return best, where

    def loss(self, x: Array) -> float:
        return float((np.abs((x - self.x0) / self.task.scale) ** self.task.power).sum())

    def _candidates(self) -> Iterator[Array | None]:
        """The nearest context for each choice of whole numbers and each branch of the union."""
        branches = list(self._branches())
        for start in self._choices():
            best = np.inf
            fixed = self.loss(start)
            for directions in branches:
                g, h = self._cuts(start, directions)
                # A branch whose own half-spaces are already farther away cannot be the nearest.
                if self.task.power == 2 and fixed + _alone(g, h) >= best:
                    continue
                u = self._nearest(start, g, h)
                if u is not None:
                    x = start + u
                    best = min(best, self.loss(x))
                    yield x

    def _choices(self) -> Iterator[Array]:
        """The context with every choice of whole numbers in turn."""
        limits, x0 = self.task.limits, self.x0
        ranges = [np.arange(limits.lower[j], limits.upper[j] + 1) for j in limits.integer]
        for whole in itertools.product(*ranges):
            for group in np.eye(3) if limits.group else [None]:
                start = x0.copy()
                start[limits.integer] = whole
                if group is not None:
                    start[limits.group] = group
                yield start

    def _branches(self) -> Iterator[Array]:
        """Directions d of which all must have `<prices, d> <= 0`, for each branch of a union."""
        task, listed = self.task, self.task.given.listed
        signs = (1.0, -1.0) if task.margin > 0 else (0.0,)
        if task.wanted is not None:
            wanted = task.wanted[self.row]
            rivals = self.factual[None] if task.kind == "relative" else listed
            if task.kind == "absolute" and task.margin > 0:
                rivals = rivals[np.abs(rivals - wanted).max(axis=1) > 1e-9]
            yield np.concatenate([wanted - rivals + s * task.margin * wanted for s in signs])
            return
        more, less = 1 + task.criterion.epsilon, 1 - task.criterion.epsilon
        for y in listed[np.abs(listed - self.factual).max(axis=1) > 1e-5]:
            # The minimum is reached by some y; a negative multiple of it bounds every y.
            every = y[None] if less >= 0 else listed
            both = np.concatenate([more * y[None], less * every]) - self.factual
            yield np.concatenate([both + s * task.margin * self.factual for s in signs])

    def _cuts(self, start: Array, directions: Array) -> tuple[Array, Array]:
        """`<prices(start + u), d> <= 0` as `g u <= h`."""
        given, layer = self.task.given, self.task.pipeline.predictor
        weight, bias = (p.detach().double().numpy() for p in (layer.weight, layer.bias))
        slopes = given.problem.sense.sign * directions[:, given.columns] @ weight
        return slopes, -directions @ turned(given, weight @ start + bias)

    def _nearest(self, start: Array, g: Array, h: Array) -> Array | None:
        """The least change of what is free from a start, within the limits; None if there is none.

        In units of the scale; whole numbers stay as they are.
        """
        limits, scale = self.task.limits, self.task.scale
        stuck = {*limits.integer, *limits.group, *limits.immutable}
        free = [j for j in range(len(start)) if j not in stuck]
        eye = np.eye(len(start))
        rows = np.concatenate([g, eye, -eye, np.ones((1, len(start)))])
        slack = np.concatenate(
            [h, limits.upper - start, start - limits.lower, [limits.total - start.sum()]]
        )
        rows, slack = rows[np.isfinite(slack)], slack[np.isfinite(slack)]
        slopes = rows[:, free] * scale[free]
        length = np.linalg.norm(slopes, axis=1)
        size = np.maximum(1.0, np.abs(slack))
        flat = length <= 1e-10
        if (slack[flat] < -1e-9 * size[flat]).any():
            return None
        slopes, slack = slopes[~flat] / length[~flat, None], slack[~flat] / length[~flat]
        found = _by_norm(self.task.power, slopes, slack)
        if found is None:
            return None
        u = np.zeros(len(start))
        u[free] = found * scale[free]
        return u


def turned(given: Solvable, costs: Array) -> Array:
    """Predicted costs and fixed ones as prices of which less is better: `(n,) -> (m,)`."""
    prices = given.fixed.copy()
    prices[given.columns] += costs
    return given.problem.sense.sign * prices


def _alone(g: Array, h: Array) -> float:
    """The squared distance of the farthest of some half-spaces, in units that never exceed ours."""
    length = np.linalg.norm(g, axis=1) * 2.0  # scales are at most 2
    ok = length > 1e-10
    return float((np.maximum(0.0, -h[ok]) / length[ok]).max(initial=0.0) ** 2)


def _by_norm(power: int, g: Array, h: Array) -> Array | None:
    """`min |u|^2` or `|u|_1` subject to `g u <= h`."""
    size = g.shape[1]
    if not len(g) or (h >= 0).all():
        return np.zeros(size)
    if power == 2:
        try:
            return quadprog.solve_qp(2 * np.eye(size), np.zeros(size), -g.T, -h)[0]
        except ValueError:  # none, or it gives up
            pass
    split = np.hstack([g, -g])
    found = scipy.optimize.linprog(np.ones(2 * size), split, h, method="highs")
    return found.x[:size] - found.x[size:] if found.status == 0 else None
