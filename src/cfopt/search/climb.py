"""Many trust-region climbs at once: each from its own start towards the nearest valid context."""

from __future__ import annotations

import numpy as np

from cfopt.search.step import StepProblem, nearest_in_box
from cfopt.search.survey import Climbed, Rows, Survey
from cfopt.task import Task
from cfopt.types import Array

#: The fractions of the predicted fall of the merit from which a step is good, and very good.
_GOOD, _VERY_GOOD = 0.1, 0.7
#: How the trust region shrinks and grows.
_SHRINK, _GROW = 0.4, 2.5
#: The radius at which a climb has come to rest.
_AT_REST = 1e-5
#: A predicted improvement below this fraction of the merit counts as none.
_NO_MORE = 1e-7
#: What a unit of excess (as large as the prices) costs where cuts cannot be met, besides the loss.
_ELASTIC = 100.0
#: How far above its multiplier the penalty is kept.
_ABOVE = 1.5
#: How many single decisions are tried for a step, where one of them is enough.
_TRIED = 3


class Climb:
    """Sequential linearisation of a task, one climb for each of its rows.

    The decisions that were best at recent points are kept as a bundle: with the newest alone the
    steps zigzag. At each point the criterion is linearised for all of them,
    `c_k + g_k (u - u_now) <= 0`; a step problem finds the nearest change that meets these within
    the trust region, and a fresh solve says what it is worth, by the merit

        f(u) + penalty * max(0, h(u))

    Where some decision is enough, a step is made for one of the bundle, the nearest.

    Arguments:
        task: the task, with the start of each climb.
        length: the size of a typical change of each row, in units of the features' scales, `(R,)`;
            u is measured in it, so that nothing depends on the units of x.
        bundle: how many decisions to keep.
        radius: the radius of the first trust region.
    """

    def __init__(self, task: Task, length: Array, bundle: int, radius: float) -> None:
        self.survey = Survey(task, length, bundle)
        self.lower, self.upper, self.problems = self._limits(task)
        # Then a step towards one cut has a simple form.
        self.simple = not self.problems[0].taxicab and not len(self.problems[0].matrix)
        self.u = self.survey.start
        every = np.arange(len(task))
        self.radius = np.full(len(task), radius)
        self.penalty = np.ones(len(task))
        first = self.survey.look(every, self.u)
        self.f, self.h, self.some = first.f, first.h, first.some
        self.running = every[np.isfinite(self.h)]

    def _limits(self, task: Task) -> tuple[Array, Array, list[StepProblem]]:
        """Bounds of each climb's change, and step problems with its limits on sums."""
        origin, scale, taxicab = self.survey.origin, self.survey.scale, self.survey.taxicab
        domain, (count, size) = task.domain, origin.shape
        if domain is None:
            free = StepProblem(taxicab, np.empty((0, size)), np.empty(0), np.empty(0))
            return np.full((1, size), -np.inf), np.full((1, size), np.inf), [free]
        lower = (domain.lower.double().cpu().numpy() - origin) / scale
        upper = (domain.upper.double().cpu().numpy() - origin) / scale
        matrix, least, most = domain.sums()
        here = origin @ matrix.T
        problems = [
            StepProblem(taxicab, matrix * scale[row], least - here[row], most - here[row])
            for row in range(count if len(matrix) else 1)
        ]
        return lower, upper, problems

    def run(self, max_steps: int) -> Climbed:
        """Climb until every row has come to rest."""
        for _ in range(max_steps):
            if not len(self.running):
                break
            self._advance()
        return self.survey.best()

    def _advance(self) -> None:
        """One step of all rows that are still running."""
        rows = self.running
        value, slope = self.survey.linearise(rows, self.u[rows])
        target, expected = self._aim(rows, value, slope)
        now = self._merit(rows, self.f[rows], self.h[rows])
        predicted = now - expected
        there = self.survey.look(rows, target)
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
        known = self.survey.known(rows)
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
        return float(np.abs(u).sum() if self.survey.taxicab else u @ u)


def _distance(slope: Array, limits: Array) -> Array:
    """How far the origin is from each half-space `slope @ u <= limit`."""
    length = np.sqrt(np.square(slope).sum(axis=-1))
    distance: Array = np.maximum(-limits, 0.0) / np.maximum(length, 1e-300)
    return distance
