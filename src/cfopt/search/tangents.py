"""Projections on the linearised criterion: for contexts with any number of features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from cfopt import registry
from cfopt._typing import Array, Indices
from cfopt.engine.progress import Moving, Points
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.search.base import check_whole, needs_gradient
from cfopt.search.dual_step import nearest_by_dual
from cfopt.search.reference import HALVINGS, approach
from cfopt.search.trust_region.evaluator import Bundle, Evaluator
from cfopt.search.trust_region.run import BatchSearch

#: How far beyond the boundary a step aims: this far, and by a fraction of what is missing.
_BEYOND, _OVERSHOOT = 2 * TOLERANCE, 0.02
#: How the pull grows and shrinks, and how weak it is when the search of a row ends.
_GROW, _SHRINK, _AT_REST = 1.5, 0.5, 0.01
#: A pull succeeds if it leaves less than this fraction of the proximity.
_CLEARLY = 0.995
#: How many steps the way back to what is valid may take.
_TRIES = 5
#: The fraction of a step that is taken when as many whole ones have led to nothing valid.
_SHORTER = 0.5
#: By what fractions the columns of the factual decision are made more expensive, to find others.
_EXTRA_COSTS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
#: The least weight of a feature in `|u|_1`, as a fraction of the mean change.
_LEAST_WEIGHT = 0.1


@registry.searches.register
@dataclass(frozen=True)
class Tangents(BatchSearch):
    """Projects points on the linearised criterion until it holds, then pulls them back.

    At each point u (a change of the context) the criterion is linearised for the decisions that
    were best at recent points, one backward pass each: `c_k + g_k (u' - u) <= 0`. The next point is
    the nearest one that meets these half-spaces:

        nearest to u              where the criterion does not hold yet,
        nearest to (1 - pull) u   where it holds, so that a pull of 1 projects the context itself.

    A fresh solve judges it. A pull that leads to a nearer valid point is strengthened; after one
    that does not, the row returns to the nearest valid point so far and pulls more gently. In the
    end that point is moved back towards the context by halving the way between them.

    With c half-spaces a projection has a dual with c variables, so that many features cost no more
    than their passes. Where some decision is enough (`Epsilon`), a step is made for the one whose
    half-space is nearest, and the first bundle has decisions that avoid the factual one.

    Arguments:
        max_steps: how many steps a row takes at most.
        bundle: how many decisions are kept.
    """

    max_steps: int = 60
    bundle: int = 10

    def __post_init__(self) -> None:
        check_whole(self, max_steps=1, bundle=1)

    def refusal(self, task: Task) -> str:
        """Needs a gradient, and a search among contexts."""
        if task.space.latent is not None:
            return "codes are searched; use LatentSequential()"
        return needs_gradient(task)

    def numbers(self, task: Task) -> int:
        """Those of the slopes."""
        return self.bundle * task.space.origin[0].numel()

    def rounds(self, task: Task) -> tuple[_Run, Iterator[Moving]]:
        """All steps of some rows."""
        run = _Run(self, task)
        return run, run.steps()


class _Run:
    """The rows that step together; every array has one row for each, in units of the scales."""

    def __init__(self, settings: Tangents, task: Task) -> None:
        count, every = len(task), np.arange(len(task))
        self.settings, self.task = settings, task
        self.evaluator = Evaluator(task, np.ones(count))
        first = self.evaluator.first
        self.bundle = Bundle(first.rival, settings.bundle)
        self.lower, self.upper, self.sums = self.evaluator.limits()
        self.u = self.evaluator.start
        self.valid, self.some = first.miss == 0, first.one_suffices.copy()
        # The nearest valid change so far, its proximity, and whether one decision is enough there.
        self.kept, self.least = self.u.copy(), np.where(self.valid, first.loss, np.inf)
        self.kept_some = first.one_suffices.copy()
        self.pull = np.ones(count)
        self.tries, self.taken = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.running = every[np.isfinite(first.miss)]
        self._suggest(every[first.one_suffices])

    def steps(self) -> Iterator[Moving]:
        """Step until every row has come to rest; yields where the others are."""
        while len(self.running) and not self.task.late:
            self._advance()
            points = self.evaluator.points(self.running, self.u[self.running])
            yield Moving(self.evaluator.index(self.running), points)

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
        for extra in _EXTRA_COSTS[: self.settings.bundle - 1]:
            solved = task.rules.optimum(prices + extra * prices.abs() * task.rules.factual.sign())
            self.bundle.add(rows, solved.decisions)
            self.evaluator.solves[rows] += int(task.rules.calls_solver)
        self.evaluator.passes[rows] += 1

    def _advance(self) -> None:
        """One step of all rows that are still running."""
        rows = self.running
        target = self._next_points(rows)
        share = np.where(self.tries[rows] > _TRIES, _SHORTER, 1.0)[:, None]
        target = self.u[rows] + share * (target - self.u[rows])
        there = self.evaluator.look(rows, target)
        self.bundle.add(rows, there.rival)
        holds = there.miss == 0
        nearer = holds & (there.loss < self.least[rows])
        clearly = holds & (there.loss < _CLEARLY * self.least[rows])
        self.kept[rows[nearer]], self.least[rows[nearer]] = target[nearer], there.loss[nearer]
        self.kept_some[rows[nearer]] = there.one_suffices[nearer]
        self.tries[rows] = np.where(holds, 0, self.tries[rows] + 1)
        lost = (self.tries[rows] > _TRIES) | ~np.isfinite(there.miss)
        lost &= self.least[rows] < np.inf
        back = (holds & ~nearer) | lost
        self.tries[rows[back]] = 0
        moved = (target != self.u[rows]).any(axis=1)
        self.u[rows] = np.where(back[:, None], self.kept[rows], target)
        self.some[rows] = np.where(back, self.kept_some[rows], there.one_suffices)
        self.valid[rows] = holds | back
        factor = np.where(clearly, _GROW, np.where(holds | lost, _SHRINK, 1.0))
        self.pull[rows] = np.minimum(1.0, factor * self.pull[rows])
        self.taken[rows] += 1
        able = (moved & np.isfinite(there.miss)) | back
        going = able & (self.pull[rows] > _AT_REST) & (self.taken[rows] < self.settings.max_steps)
        self.running = rows[going]

    def _next_points(self, rows: Indices) -> Array:
        """The next point of each row, `(R, p)`."""
        value, slope = self.evaluator.linearise(rows, self.u[rows], self.bundle)
        most = -value - _OVERSHOOT * np.maximum(value, 0.0) - _BEYOND
        known = self.bundle.count(rows)
        target = self.u[rows].copy()
        for i, row in enumerate(rows):
            normals, limits = slope[i, : known[i]], most[i, : known[i]]
            if not (np.isfinite(normals).all() and np.isfinite(limits).all()):
                continue
            u = self.u[row]
            centre = (1 - self.pull[row]) * u if self.valid[row] else u
            limits = limits + normals @ (u - centre)
            if self.some[row]:
                distance = -limits / np.linalg.norm(normals, axis=1).clip(min=1e-300)
                nearest = [distance.argmin()]
                normals, limits = normals[nearest], limits[nearest]
            normals, limits = self._with_sums(row, normals, limits, centre)
            box = (self.lower[row] - centre, self.upper[row] - centre)
            target[i] = centre + nearest_by_dual(normals, limits, *box, self._weight(u))
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
        size = np.abs(u)
        if self.task.space.proximity.power != 1 or not size.any():
            return np.ones_like(u)
        weight: Array = size + _LEAST_WEIGHT * size.mean()
        return weight

    def points(self) -> Points:
        """The nearest valid context of each row, moved back towards the factual one."""
        evaluator, count = self.evaluator, len(self.task)
        x, found = evaluator.best.x, evaluator.best.found
        rows = found.nonzero().flatten()
        if len(rows):
            x = x.index_copy(0, rows, approach(self.task[rows], x[rows]))
        halvings = HALVINGS * found.long()
        solves, passes = (
            torch.from_numpy(count).to(x.device) for count in (evaluator.solves, evaluator.passes)
        )
        return Points(
            rows=self.task.row_numbers,
            x=x,
            found=found,
            steps=torch.from_numpy(self.taken).to(x.device) + found,
            solves=solves + halvings * int(self.task.rules.calls_solver),
            passes=passes + halvings,
            notes=tuple("" if found[i] else evaluator.failures.get(i, "") for i in range(count)),
            methods=("tangents",) * count,
        )
