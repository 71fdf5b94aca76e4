"""Many trust-region climbs at once: each from its own start towards the nearest valid context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt.proximity import L1
from cfopt.search.step import StepProblem, nearest_in_box
from cfopt.task import TOLERANCE, Look, Task
from cfopt.types import Array, Quantifier

Rows: TypeAlias = NDArray[np.intp]

#: A step is good if the merit falls by this part of what was predicted; very good by that.
_GOOD, _VERY_GOOD = 0.1, 0.7
#: How the trust region shrinks and grows.
_SHRINK, _GROW = 0.4, 2.5
#: The radius at which a climb has come to rest.
_AT_REST = 1e-5
#: A predicted improvement below this part of the merit is none.
_NO_MORE = 1e-7
#: What a unit of excess (a part 1 of the prices) costs where cuts cannot be met, beside the loss.
_ELASTIC = 100.0
#: How far above its multiplier the penalty is kept.
_ABOVE = 1.5
#: How many single decisions are tried for a step, where one of them is enough.
_TRIED = 3


@dataclass(frozen=True)
class Climbed:
    """Where climbs ended, one row each.

    Arguments:
        x: the best valid context seen, or the least violating one, `(R, ...)`.
        loss: its proximity; inf where nothing valid was seen, `(R,)`.
        solves, passes: what it took, `(R,)`.
        failures: why the solver failed on the way, by row.
    """

    x: Tensor
    loss: Tensor
    solves: Tensor
    passes: Tensor
    failures: dict[int, str]


class Climb:
    """Sequential linearisation of a task, one climb for each of its rows.

    The decisions that were best at recent points are kept as a bundle: with the newest alone the
    steps zigzag. At each point the criterion is linearised for all of them,
    `c_k + g_k (u - u_now) <= 0`; a step problem finds the nearest change that meets these within
    the trust region, and a fresh solve says what it is worth, by the merit

        f(u) + penalty * max(0, h(u))

    Where some decision is enough, a step is made for one of the bundle, the nearest.

    Arguments:
        task: with the start of each climb.
        length: the size of a typical change of each row, in units of the features' scales, `(R,)`;
            u is measured in it, so that nothing depends on the units of x.
        bundle: how many decisions to keep.
        radius: of the first trust region.
    """

    def __init__(self, task: Task, length: Array, bundle: int, radius: float) -> None:
        self.task = task
        self.origin: Array = task.origin.flatten(1).double().cpu().numpy()
        count, size = self.origin.shape
        scale = task.proximity.scale
        self.scale: Array = length[:, None] * (
            np.ones(size)
            if scale is None
            else torch.as_tensor(scale).flatten().double().cpu().numpy()
        )
        self.power = 1 if isinstance(task.proximity, L1) else 2
        self.length = length
        self.lower, self.upper, self.problems = self._limits()
        # Then a step towards one cut has a simple form.
        self.simple = not self.problems[0].taxicab and not len(self.problems[0].matrix)
        self.radius = np.full(count, radius)
        self.penalty = np.ones(count)
        self.solves = np.zeros(count, dtype=np.int64)
        self.passes = np.zeros(count, dtype=np.int64)
        self.failures: dict[int, str] = {}
        start = (task.origin if task.start is None else task.start).detach()
        flat = start.flatten(1).double().cpu().numpy()
        self.u: Array = (flat - self.origin) / self.scale
        self.best_x = start.clone()
        self.best_loss = np.full(count, np.inf)
        self.least_h = np.full(count, np.inf)
        width = task.factual.shape[1]
        self.bundle = task.factual.new_zeros((count, bundle, width))
        self.seen = np.zeros(count, dtype=np.intp)  # how many decisions were put into the bundle
        self.unit = np.zeros(count)
        every = np.arange(count)
        first = self._look(every, self.u)
        self.f, self.h, self.some = first.f, first.h, first.some
        self.running = every[np.isfinite(self.h)]

    def _limits(self) -> tuple[Array, Array, list[StepProblem]]:
        """Bounds of each climb's change, and step problems with its limits on sums."""
        domain, (count, size) = self.task.domain, self.origin.shape
        taxicab = isinstance(self.task.proximity, L1)
        if domain is None:
            free = StepProblem(taxicab, np.empty((0, size)), np.empty(0), np.empty(0))
            return np.full((1, size), -np.inf), np.full((1, size), np.inf), [free]
        lower = (domain.lower.double().cpu().numpy() - self.origin) / self.scale
        upper = (domain.upper.double().cpu().numpy() - self.origin) / self.scale
        matrix, least, most = domain.sums()
        here = self.origin @ matrix.T
        problems = [
            StepProblem(taxicab, matrix * self.scale[row], least - here[row], most - here[row])
            for row in range(count if len(matrix) else 1)
        ]
        return lower, upper, problems

    def run(self, max_steps: int) -> Climbed:
        """Climb until every row has come to rest."""
        for _ in range(max_steps):
            if not len(self.running):
                break
            self._advance()
        device = self.best_x.device
        return Climbed(
            x=self.best_x,
            loss=torch.from_numpy(self.best_loss).to(device),
            solves=torch.from_numpy(self.solves).to(device),
            passes=torch.from_numpy(self.passes).to(device),
            failures=self.failures,
        )

    def _advance(self) -> None:
        """One step of all rows that are still running."""
        rows = self.running
        value, slope = self._linearise(rows)
        target, expected = self._aim(rows, value, slope)
        now = self._merit(rows, self.f[rows], self.h[rows])
        predicted = now - expected
        there = self._look(rows, target)
        gained = now - self._merit(rows, there.f, there.h)
        length = np.abs(target - self.u[rows]).max(axis=1)
        accepted = gained > 0
        self.u[rows[accepted]] = target[accepted]
        for name in ("f", "h", "some"):
            getattr(self, name)[rows[accepted]] = getattr(there, name)[accepted]
        good = gained > _GOOD * predicted
        wide = (gained > _VERY_GOOD * predicted) & (length > 0.9 * self.radius[rows])
        # A decision that was not in the bundle improves the model without a smaller radius.
        shrink = ~good & ~there.new
        radius = np.where(
            shrink, np.minimum(self.radius[rows], length) * _SHRINK, self.radius[rows]
        )
        self.radius[rows] = np.where(good & wide, radius * _GROW, radius)
        moving = (self.radius[rows] > _AT_REST) & np.isfinite(there.h)
        promising = (predicted > _NO_MORE * (now + 1e-3)) | there.new
        self.running = rows[moving & promising]

    def _aim(self, rows: Rows, value: Array, slope: Array) -> tuple[Array, Array]:
        """Where the step problems lead, and the merit that they expect there: `(R, p), (R,)`."""
        u = self.u[rows]
        limits = np.einsum("rkp,rp->rk", slope, u) - value
        radius = self.radius[rows, None]
        own = slice(None) if len(self.lower) == 1 else rows
        lower = np.maximum(self.lower[own], u - radius)
        upper = np.minimum(self.upper[own], u + radius)
        known = np.minimum(self.seen[rows], self.bundle.shape[1])
        elastic = np.maximum(self.penalty[rows], _ELASTIC * (1.0 + self.f[rows]))
        target, expected = u.copy(), np.full(len(rows), np.inf)
        single = self.some[rows] & self.simple
        if single.any():
            part = np.flatnonzero(single)
            box = (lower[part], upper[part], elastic[part])
            target[part], expected[part] = self._aim_at_one(
                rows[part], slope[part], limits[part], known[part], *box
            )
        for i in np.flatnonzero(~single):
            problem = self.problems[0 if len(self.problems) == 1 else rows[i]]
            count = int(known[i])
            choices = [slice(0, count)]
            if self.some[rows[i]]:
                order = _distance(slope[i, :count], limits[i, :count]).argsort()[:_TRIED]
                choices = [slice(k, k + 1) for k in order.tolist()]
            for cuts in choices:
                normals, most = slope[i, cuts], limits[i, cuts]
                found = problem.solve(normals, most, lower[i], upper[i], elastic[i])
                if found is None:
                    continue
                needed = _ABOVE * found.price if found.met else elastic[i]
                self.penalty[rows[i]] = max(self.penalty[rows[i]], needed)
                excess = max(0.0, float((normals @ found.u - most).max()))
                merit = self._cost(found.u) + self.penalty[rows[i]] * excess
                if merit < expected[i]:
                    target[i], expected[i] = found.u, merit
        return target, expected

    def _aim_at_one(
        self,
        rows: Rows,
        slope: Array,
        limits: Array,
        known: Rows,
        lower: Array,
        upper: Array,
        elastic: Array,
    ) -> tuple[Array, Array]:
        """The same where one decision of the bundle is enough: for the few nearest, all at once."""
        distance = _distance(slope, limits)
        distance[np.arange(distance.shape[1]) >= known[:, None]] = np.inf
        chosen = distance.argsort(axis=1)[:, :_TRIED]
        each = np.arange(len(rows)).repeat(chosen.shape[1])
        normals, most = slope[each, chosen.ravel()], limits[each, chosen.ravel()]
        u, price = nearest_in_box(normals, most, lower[each], upper[each], elastic[each])
        excess = np.maximum((normals * u).sum(axis=1) - most, 0.0)
        needed = np.where(price < elastic[each], _ABOVE * price, price)
        unknown = np.isinf(distance[each, chosen.ravel()])
        needed[unknown] = 0.0
        self.penalty[rows] = np.maximum(
            self.penalty[rows], needed.reshape(chosen.shape).max(axis=1)
        )
        merit = np.square(u).sum(axis=1) + self.penalty[rows][each] * excess
        merit[unknown] = np.inf
        best = merit.reshape(chosen.shape).argmin(axis=1)
        pick = np.arange(len(rows)) * chosen.shape[1] + best
        return u[pick], merit[pick]

    def _merit(self, rows: Rows, f: Array, h: Array) -> Array:
        merit: Array = f + self.penalty[rows] * np.maximum(h, 0.0)
        return np.where(np.isfinite(merit), merit, np.inf)

    def _cost(self, u: Array) -> float:
        """The proximity of a change."""
        return float(np.abs(u).sum() if isinstance(self.task.proximity, L1) else u @ u)

    def _linearise(self, rows: Rows) -> tuple[Array, Array]:
        """Value and slope of the criterion for each decision of the bundle: `(R, K), (R, K, p)`."""
        task = self.task[torch.from_numpy(rows).to(self.best_x.device)]
        x = self._contexts(rows, self.u[rows]).requires_grad_()
        with torch.enable_grad():
            prices = task.prices(x)
        values = prices.detach()
        known = int(min(self.seen[rows].max(), self.bundle.shape[1]))
        value = np.empty((len(rows), known))
        slope = np.empty((len(rows), known, x[0].numel()))
        for k in range(known):
            direction = task.direction(values, self.bundle[rows, k])
            (gradient,) = torch.autograd.grad(prices, x, direction, retain_graph=k < known - 1)
            value[:, k] = (values * direction).sum(1).double().cpu().numpy()
            slope[:, k] = gradient.flatten(1).double().cpu().numpy()
        self.passes[rows] += 1 + np.minimum(self.seen[rows], known)
        unit = self.unit[rows]
        return value / unit[:, None], slope * self.scale[rows, None] / unit[:, None, None]

    def _contexts(self, rows: Rows, u: Array) -> Tensor:
        flat = torch.from_numpy(self.origin[rows] + self.scale[rows] * u)
        x = flat.reshape(-1, *self.best_x.shape[1:]).to(self.best_x)
        domain = self.task.domain
        return x if domain is None else domain[torch.from_numpy(rows).to(x.device)].clamp(x)

    def _look(self, rows: Rows, u: Array) -> _Seen:
        """Predict and solve at some changes; remember what is valid, and what was decided."""
        task = self.task[torch.from_numpy(rows).to(self.best_x.device)]
        x = self._contexts(rows, u)
        seen = task.look(x)
        self._count(rows)
        self.failures |= {int(rows[i]): reason for i, reason in seen.failures.items()}
        self._remember(task, rows, x, seen)
        first = self.unit[rows] == 0
        size = (seen.prices * seen.direction).abs().sum(1).double().cpu().numpy()
        values = (seen.prices * seen.rival).abs().sum(1).double().cpu().numpy()
        self.unit[rows[first]] = np.maximum(size, 1e-6 * values + 1e-300)[first]
        # Below the tolerance the criterion holds: no more is asked for.
        small = TOLERANCE / 2 * size
        excess = seen.h.double().cpu().numpy()
        return _Seen(
            f=seen.loss.double().cpu().numpy() / self.length[rows] ** self.power,
            h=np.where(excess <= small, 0.0, excess) / self.unit[rows],
            some=_some(task, seen.prices, seen.rival),
            new=self._keep(rows, seen.rival),
        )

    def _count(self, rows: Rows) -> None:
        self.passes[rows] += 1
        self.solves[rows] += int(self.task.calls_solver)

    def _remember(self, task: Task, rows: Rows, x: Tensor, seen: Look) -> None:
        """Keep the best valid context, or while there is none the least violating one."""
        domain = task.domain
        h = seen.h
        if domain is not None:
            if domain.discrete:
                x = domain.round(x)
                seen = task.look(x)
                self._count(rows)
            h = torch.where(domain.allows(x), seen.h, torch.inf)
        loss, excess = seen.loss.double().cpu().numpy(), h.double().cpu().numpy()
        nearer = seen.holds.cpu().numpy() & (loss < self.best_loss[rows])
        better = nearer | ((excess < self.least_h[rows]) & (self.best_loss[rows] == np.inf))
        self.best_x[rows[better]] = x[torch.from_numpy(better)]
        self.best_loss[rows[nearer]] = loss[nearer]
        self.least_h[rows] = np.fmin(self.least_h[rows], excess)

    def _keep(self, rows: Rows, decisions: Tensor) -> NDArray[np.bool_]:
        """Put decisions that are not there yet into the bundles, in place of the oldest."""
        width = self.bundle.shape[1]
        filled = torch.from_numpy(np.arange(width) < self.seen[rows, None])
        same = (self.bundle[rows] == decisions[:, None]).all(2).cpu() & filled
        new = (~same.any(1) & ~decisions.isnan().any(1).cpu()).numpy()
        chosen = rows[new]
        self.bundle[chosen, self.seen[chosen] % width] = decisions[torch.from_numpy(new)]
        self.seen[chosen] += 1
        return new


def _distance(slope: Array, limits: Array) -> Array:
    """How far the origin is from each half-space `slope @ u <= limit`."""
    length = np.sqrt(np.square(slope).sum(axis=-1))
    distance: Array = np.maximum(-limits, 0.0) / np.maximum(length, 1e-300)
    return distance


@dataclass
class _Seen:
    """What a look at some changes shows: proximity, h in units of each climb, and so on."""

    f: Array
    h: Array
    some: NDArray[np.bool_]
    new: NDArray[np.bool_]


def _some(task: Task, prices: Tensor, optimum: Tensor) -> NDArray[np.bool_]:
    """For which rows one decision is enough to meet the criterion, near these prices."""
    multiples = task.criterion.multiples
    if Quantifier.SOME not in multiples:
        return np.zeros(len(prices), dtype=bool)
    if Quantifier.EVERY not in multiples:
        return np.ones(len(prices), dtype=bool)
    # Above 0 the best value is to be reached by some decision, below it bounds them all.
    return ((prices * optimum).sum(1) >= 0).cpu().numpy()
