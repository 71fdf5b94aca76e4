"""Projections on the linearised criterion: for contexts with any number of features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array, Indices
from cfopt.engine.progress import Moving, Points
from cfopt.engine.task import Task
from cfopt.search.base import check_whole, needs_gradient
from cfopt.search.dual_step import nearest_by_dual
from cfopt.search.recorded import Recorded
from cfopt.search.tangent_planes import TangentPlanes
from cfopt.search.trust_region.evaluator import Evaluator
from cfopt.search.trust_region.run import BatchSearch

#: By what fraction of what is missing a step aims beyond the boundary.
_OVERSHOOT = 0.02
#: How many steps go half of the way, to learn the slopes on it.
_CAREFUL = 5
#: The weight of new slopes in their mean, times the root of the pull.
_SHARE = 0.5
#: How the pull grows and shrinks, and how weak it is when the search of a row ends.
_GROW, _SHRINK, _AT_REST = 1.5, 0.6, 0.01
#: A pull succeeds if it takes this fraction of the proximity, times the pull.
_CLEARLY = 1e-3
#: Slopes are kept while what is missing falls below this fraction of itself with each step.
_CONTRACTS = 0.3
#: How often that may fail on the way to what is valid before steps go half of the way.
_TRIES = 5
#: By what fractions the columns of the factual decision are made more expensive, to find others.
_EXTRA_COSTS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
#: Where one decision is enough, planes are turned that are farther than the nearest by no more than
#: this fraction.
_CLOSE = 0.3
#: The least weight of a feature in `|u|_1`, as a fraction of the mean change.
_LEAST_WEIGHT = 0.1


@registry.searches.register
@dataclass(frozen=True)
class Tangents(BatchSearch):
    """Projects on tangent planes of the criterion, and turns these until the context is near.

    A row stands at a change u of its context. For each decision met so far the criterion is
    linearised, `c_k + g_k (u' - u) <= 0`, and the next point is the one nearest to a centre that
    meets these half-spaces. The centre is `(1 - pull) u` of the nearest valid point u so far; at
    first, and while the pull is 1, it is the context itself. At the next point a fresh solve tells
    the values c_k, and often another decision:

        the criterion does not hold   another step follows, with the slopes g_k that there are;
        values fall too slowly        the same with slopes taken anew, to the point nearest to u;
        it holds                      slopes are averaged with those here, a point that is nearer
                                      is kept and the pull grows; otherwise it shrinks.

    Networks have kinks, and the nearest point is often on one: there it is `-sum_k t_k g_k` with
    multipliers t_k >= 0 and means of the slopes around it. The means need the slope of the sum
    only, which is one backward pass, however many decisions bind. With c half-spaces a projection
    has a dual with c variables, so that many features cost no more than their passes.

    Where some decision is enough (`Epsilon`), a step is made for the one whose half-space is
    nearest, and the first planes are those of decisions that avoid the factual one.

    Arguments:
        max_steps: how many steps a row takes at most.
        planes: how many decisions are kept, each with a plane.
    """

    max_steps: int = 150
    planes: int = 30

    def __post_init__(self) -> None:
        check_whole(self, max_steps=1, planes=1)

    def refusal(self, task: Task) -> str:
        """Needs a gradient, and a search among contexts."""
        if task.space.latent is not None:
            return "codes are searched; use LatentSequential()"
        return needs_gradient(task)

    def numbers(self, task: Task) -> int:
        """Those of the slopes."""
        return self.planes * task.space.origin[0].numel()

    def rounds(self, task: Task) -> tuple[_Run, Iterator[Moving]]:
        """All steps of some rows."""
        run = _Run(self, task)
        return run, run.steps()


class _Run:
    """The rows that step together; every array has one row for each, in units of the scales."""

    def __init__(self, settings: Tangents, task: Task) -> None:
        count, every = len(task), np.arange(len(task))
        self.settings, self.task = settings, task
        recorded = Recorded(task.predictor)
        self.evaluator = Evaluator(replace(task, predictor=recorded), np.ones(count))
        first = self.evaluator.first
        self.planes = TangentPlanes(self.evaluator, settings.planes, recorded)
        self.lower, self.upper, self.sums = self.evaluator.limits()
        self.some = first.one_suffices.copy()
        # The nearest valid change so far, with its context, its prices and its proximity.
        self.kept, self.kept_x = self.planes.u.copy(), self.planes.x.clone()
        self.kept_prices = first.prices.clone()
        self.least = np.where(first.miss == 0, first.loss, np.inf)
        self.pull, self.centre = np.ones(count), np.zeros_like(self.kept)
        self._even = np.ones(self.kept.shape[1])
        #: What was missing before a step; how many steps have brought too little since then.
        self.miss, self.tries = np.full(count, np.inf), np.zeros(count, dtype=np.int64)
        self.taken = np.zeros(count, dtype=np.int64)
        #: Where one decision is enough, the planes about as near as that of the last step.
        self.close = np.zeros_like(self.planes.known)
        self.running = every[np.isfinite(first.miss)]
        self._suggest(every[first.one_suffices])
        self.planes.take(every, self.planes.known, np.ones(count))

    def steps(self) -> Iterator[Moving]:
        """Step until every row has come to rest; yields where the others are."""
        while len(self.running) and not self.task.late:
            self._advance()
            index = self.evaluator.index(self.running)
            yield Moving(index, self.planes.x[index])

    def _suggest(self, rows: Indices) -> None:
        """Begin with decisions that would be the best if the factual one cost more.

        At the context itself the best decision is the factual one, which says nothing about what
        could replace it.
        """
        if not len(rows):
            return
        task = self.evaluator.part(rows)
        with torch.no_grad():
            prices = task.prices(task.space.origin)
        for extra in _EXTRA_COSTS[: self.settings.planes - 1]:
            solved = task.rules.optimum(prices + extra * prices.abs() * task.rules.factual.sign())
            self.planes.add(rows, solved.decisions)
            self.evaluator.solves[rows] += int(task.rules.calls_solver)
        self.evaluator.passes[rows] += 1

    def _advance(self) -> None:
        """One step of all rows that are still running."""
        rows, planes = self.running, self.planes
        target = self._next_points(rows)
        half = (self.taken[rows] < _CAREFUL) | (self.tries[rows] > _TRIES)
        target[half] = (planes.u[rows[half]] + target[half]) / 2
        steps = zip(rows, target, strict=True)
        moved = np.array([bool((planes.u[row] != point).any()) for row, point in steps])
        x = self.evaluator.points(rows, target)
        there = self.evaluator.look_at(rows, x)
        self.taken[rows] += 1
        self.some[rows] = there.one_suffices
        holds, finite, least = there.miss == 0, np.isfinite(there.miss), self.least[rows]
        nearer = holds & (there.loss < least)
        lost = ~holds & ((there.loss >= least) | (self.tries[rows] > _TRIES) | ~finite)
        back = (holds & ~nearer) | (lost & np.isfinite(least))
        clearly = nearer & (there.loss < (1 - _CLEARLY * self.pull[rows]) * least)
        self.pull[rows] *= np.where(clearly, _GROW, np.where(nearer | back, _SHRINK, 1.0))
        self.pull[rows] = np.minimum(self.pull[rows], 1.0)
        if nearer.any():
            self.kept[rows[nearer]], self.least[rows[nearer]] = target[nearer], there.loss[nearer]
            index = self.evaluator.index(rows[nearer])
            self.kept_x[index] = _part(x, nearer)
            self.kept_prices[index] = _part(there.prices, nearer)

        planes.move(rows, target, x, there.prices)
        # Where the criterion holds for every decision, the rival is none to reckon with.
        open_rows, new = ~holds | self.some[rows], np.zeros(len(rows), dtype=bool)
        new[open_rows] = planes.add(rows[open_rows], _part(there.rival, open_rows))
        slow = ~holds & ~new & ~back & (there.miss >= _CONTRACTS * self.miss[rows])
        anew = holds | back
        self.miss[rows] = np.where(anew, np.inf, there.miss)
        self.tries[rows] = np.where(anew, 0, self.tries[rows] + slow)
        going = ((moved & finite) | back) & (self.pull[rows] > _AT_REST)
        going &= self.taken[rows] < self.settings.max_steps
        self._turn(rows[going & finite], (anew | slow)[going & finite])
        # The slopes of a failure are learned from, too.
        again = rows[back]
        kept = (_part(values, again) for values in (self.kept_x, self.kept_prices))
        planes.move(again, self.kept[again], *kept)
        self.centre[rows[slow]] = target[slow]
        self.centre[rows[anew]] = (1 - self.pull[rows[anew], None]) * planes.u[rows[anew]]
        self.running = rows[going]

    def _turn(self, rows: Indices, due: NDArray[np.bool_]) -> None:
        """Take the slopes of new planes, and turn the planes of rows that are due, `(R,)`."""
        planes, some, lacking = self.planes, self.some[rows], np.isinf(self.least[rows])
        bound = (planes.multipliers[rows] > 0) & lacking[:, None]
        wanted = (bound | (some[:, None] & self.close[rows])) & due[:, None]
        share = _SHARE * np.sqrt(self.pull[rows])
        planes.take(rows, wanted, np.where(lacking, 1.0, share))
        mean = due & ~some & ~lacking
        planes.blend(rows[mean], share[mean])

    def _next_points(self, rows: Indices) -> Array:
        """The next point of each row, `(R, p)`."""
        planes = self.planes
        target, values = planes.u[rows], planes.values(rows)
        for i, row in enumerate(rows):
            known = np.arange(planes.known[row].sum())
            # A view: a copy of all slopes would take as long as the step.
            normals, value = planes.slope[row, : len(known)], values[i, : len(known)]
            u, centre = planes.u[row], self.centre[row]
            limits = normals @ (u - centre) - value - _OVERSHOOT * np.maximum(value, 0.0)
            if not np.isfinite(limits).all():
                continue  # whatever is not finite in a normal or a value shows in its limit
            if self.some[row]:
                distance = -limits / np.linalg.norm(normals, axis=1).clip(min=1e-300)
                least = distance.min()
                self.close[row, known] = distance <= least + _CLOSE * abs(least)
                nearest = [distance.argmin()]
                known, normals, limits = known[nearest], normals[nearest], limits[nearest]
            normals, limits = self._with_sums(row, normals, limits, centre)
            box = (self.lower[row] - centre, self.upper[row] - centre)
            step, multipliers = nearest_by_dual(normals, limits, *box, self._weight(u))
            target[i] = centre + step
            planes.bind(row, known, multipliers[: len(known)])
        return target

    def _with_sums(
        self, row: int, normals: Array, limits: Array, centre: Array
    ) -> tuple[Array, Array]:
        """Half-spaces around a point, with those of the limits on sums of features."""
        if not self.sums:
            return normals, limits
        matrix, least, most = self.sums[row]
        here = matrix @ centre
        ends, both = np.concatenate([most - here, here - least]), np.concatenate([matrix, -matrix])
        finite = np.isfinite(ends)
        return np.concatenate([normals, both[finite]]), np.concatenate([limits, ends[finite]])

    def _weight(self, u: Array) -> Array:
        """How cheap each feature is to change, so that `u_j^2 / w_j` models the proximity.

        `|u_j|` is approached by `w_j = |u_j|` at the point before; a little is added so that other
        features can still join. `(p,) -> (p,)`.
        """
        if self.task.space.proximity.power != 1 or not u.any():
            return self._even
        size = np.abs(u)
        weight: Array = size + _LEAST_WEIGHT * size.mean()
        return weight

    def points(self) -> Points:
        """The nearest valid context of each row."""
        evaluator, count = self.evaluator, len(self.task)
        x, found = evaluator.best.x, evaluator.best.found
        steps, solves, passes = (
            torch.from_numpy(count).to(x.device)
            for count in (self.taken, evaluator.solves, evaluator.passes)
        )
        return Points(
            rows=self.task.row_numbers,
            x=x,
            found=found,
            steps=steps,
            solves=solves,
            passes=passes,
            notes=tuple("" if found[i] else evaluator.failures.get(i, "") for i in range(count)),
            methods=("tangents",) * count,
        )


def _part(values: Tensor, rows: Indices | NDArray[np.bool_]) -> Tensor:
    """Some rows of a tensor."""
    return values[torch.from_numpy(rows).to(values.device)]
