"""Projections on the linearised criterion: for contexts with any number of features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from cfopt.search.base import Search, check_whole
from cfopt.search.dual_step import nearest_by_dual
from cfopt.search.reference import HALVINGS, approach
from cfopt.search.survey import Rows, Survey
from cfopt.task import TOLERANCE, Task
from cfopt.types import Array, Moving, Points, Progress

#: How many numbers of slopes are held at once.
_NUMBERS_AT_ONCE = 8_000_000
#: How much farther than the boundary a step aims: so much, and a fraction of what is missing.
_BEYOND, _OVERSHOOT = 2 * TOLERANCE, 0.02
#: How the pull grows and shrinks, and when it is so weak that the search of a row ends.
_GROW, _SHRINK, _AT_REST = 1.5, 0.5, 0.01
#: A pull is a success if it leaves less than this of the proximity.
_CLEARLY = 0.995
#: How many steps back to what is valid may take.
_TRIES = 5
#: How much dearer the columns of the factual decision are made to find others, as fractions.
_DEARER = (0.05, 0.15, 0.5, 1.5)
#: The least weight of a feature in `|u|_1`, as a fraction of the mean of all changes.
_LEAST_WEIGHT = 0.1


@dataclass(frozen=True)
class Tangents(Search):
    """Projects the factual context on the linearised criterion, again and again.

    At each point the criterion is linearised for the decisions that were best at recent points,
    one backward pass each; the next point is the nearest change that meets these half-spaces, or a
    part of the way there. A fresh solve says what it is worth, by the merit

        f(u) + penalty * max(0, h(u))

    The nearest valid point of all is moved back towards the factual context by halving. With c
    half-spaces a step has a dual with c variables, so that large contexts cost passes only.
    Where some decision is enough (`Epsilon`), each step is made for one of them, the nearest, and
    the search begins with the decisions that are best where the factual one's columns are dearer.

    Arguments:
        max_steps: how many steps a row takes.
        bundle: how many decisions are kept.
    """

    max_steps: int = 30
    bundle: int = 10

    def __post_init__(self) -> None:
        check_whole(self, max_steps=1, bundle=1)

    def refusal(self, task: Task) -> str:
        """Needs a search among contexts."""
        return "" if task.latent is None else "codes are searched; use Sequential()"

    def steps(self, task: Task) -> Iterator[Progress]:
        """As many rows at once as memory allows; all of them step together."""
        self.check(task)
        task = task.proven()
        at_once = max(1, _NUMBERS_AT_ONCE // (self.bundle * task.origin[0].numel()))
        done, step = 0, 0
        for rows in torch.split(torch.arange(len(task), device=task.origin.device), at_once):
            run = _Run(self, task[rows])
            while run.advance():
                step += 1
                yield Progress(step, len(task) - done, len(task), moving=run.moving().of(rows))
            done += len(rows)
            step += 1
            points = replace(run.points(), rows=rows)
            yield Progress(step, len(task) - done, len(task), points)


class _Run:
    """The rows that step together; u is their change, in units of the features' scales."""

    def __init__(self, knobs: Tangents, task: Task) -> None:
        every = np.arange(len(task))
        self.knobs, self.task = knobs, task
        self.survey = Survey(task, np.ones(len(task)), knobs.bundle)
        self.lower, self.upper = self._bounds()
        self.u = self.survey.start
        self.taken = np.zeros(len(task), dtype=np.int64)
        self.kept, self.least = self.u.copy(), np.full(len(task), np.inf)
        self.pull, self.tries = np.ones(len(task)), np.zeros(len(task), dtype=np.int64)
        first = self.survey.look(every, self.u)
        self.valid, self.some = first.h == 0, first.some
        self.least[self.valid] = first.f[self.valid]
        self._suggest(every[first.some])
        self.running = every[np.isfinite(first.h)]

    def _bounds(self) -> tuple[Array, Array]:
        """Of each row's change, `(B, p)` twice."""
        survey, domain = self.survey, self.task.domain
        if domain is None:
            return np.full_like(survey.origin, -np.inf), np.full_like(survey.origin, np.inf)
        ends = (domain.lower.double().cpu().numpy(), domain.upper.double().cpu().numpy())
        lower, upper = ((end - survey.origin) / survey.scale for end in ends)
        return lower, upper

    def _suggest(self, rows: Rows) -> None:
        """Put decisions into the bundles that would be best if the factual one were dearer."""
        task = self.task[torch.from_numpy(rows).to(self.task.origin.device)]
        with torch.no_grad():
            prices = task.prices(task.origin)
        for dearer in _DEARER[: self.knobs.bundle - 1] if len(rows) else ():
            solved = task.optimum(prices + dearer * prices.abs() * task.factual.sign())
            self.survey.keep(rows, solved.decisions)

    def advance(self) -> bool:
        """One step of all rows that are still running; whether there were any."""
        rows = self.running
        if not len(rows):
            return False
        target = self._aim(rows)
        there = self.survey.look(rows, target)
        holds = there.h == 0
        nearer = holds & (there.f < self.least[rows])
        clearly = nearer & (there.f < _CLEARLY * self.least[rows])
        self.tries[rows] = np.where(holds, 0, self.tries[rows] + 1)
        lost = (self.tries[rows] > _TRIES) & (self.least[rows] < np.inf)
        self.kept[rows[nearer]] = target[nearer]
        self.least[rows[nearer]] = there.f[nearer]
        back = (holds & ~nearer) | lost
        self.u[rows] = np.where(back[:, None], self.kept[rows], target)
        self.valid[rows], self.some[rows] = holds | back, there.some
        self.tries[rows[back]] = 0
        ended = holds | lost
        self.pull[rows] *= np.where(clearly, _GROW, np.where(ended, _SHRINK, 1.0))
        self.pull[rows] = self.pull[rows].clip(max=1.0)
        self.taken[rows] += 1
        going = (self.pull[rows] > _AT_REST) & np.isfinite(there.h)
        self.running = rows[going & (self.taken[rows] < self.knobs.max_steps)]
        return True

    def _aim(self, rows: Rows) -> Array:
        """The next changes: `(R,) -> (R, p)`."""
        value, slope = self.survey.linearise(rows, self.u[rows])
        most = -value - _OVERSHOOT * np.maximum(value, 0.0) - _BEYOND
        known = self.survey.known(rows)
        pull = np.where(self.valid[rows], self.pull[rows], 0.0)
        target = self.u[rows].copy()
        for i, row in enumerate(rows):
            normals, limits = slope[i, : known[i]], most[i, : known[i]]
            if not (np.isfinite(normals).all() and np.isfinite(limits).all()):
                continue
            u = self.u[row]
            centre = (1 - pull[i]) * u
            limits = limits + normals @ (u - centre)
            if self.some[row]:
                distance = -limits / np.linalg.norm(normals, axis=1).clip(min=1e-300)
                nearest = distance.argmin()
                normals, limits = normals[[nearest]], limits[[nearest]]
            normals, limits = self._with_sums(row, normals, limits, centre)
            box = (self.lower[row] - centre, self.upper[row] - centre)
            step = nearest_by_dual(normals, limits, *box, self._weight(u))
            target[i] = centre + step
        return target

    def _with_sums(self, row: int, normals: Array, most: Array, u: Array) -> tuple[Array, Array]:
        """The half-spaces, with those that limits on sums of features are."""
        if self.task.domain is None or self.task.domain.boxed:
            return normals, most
        matrix, least, greatest = self.task.domain.sums()
        here = matrix @ (self.survey.origin[row] + self.survey.scale[row] * u)
        matrix = matrix * self.survey.scale[row]
        ends = np.concatenate([greatest - here, here - least])
        finite = np.isfinite(ends)
        both = np.concatenate([matrix, -matrix])[finite]
        return np.concatenate([normals, both]), np.concatenate([most, ends[finite]])

    def _weight(self, u: Array) -> Array:
        """How cheap each feature is to change, so that `u_j^2 / (2 w_j)` models the proximity.

        1/2 for squares. `|u_j|` lies below the parabola that touches it, with `w_j = |u_j|`; a
        little is added, so that features that did not change can do so. `(p,) -> (p,)`.
        """
        size = np.abs(u)
        if not self.survey.taxicab or not size.any():
            return np.full_like(u, 0.5)
        return size + _LEAST_WEIGHT * size.mean()

    def moving(self) -> Moving:
        """Where the rows are that are still running."""
        device = self.task.origin.device
        return Moving(
            torch.from_numpy(self.running).to(device),
            self.survey.contexts(self.running, self.u[self.running]),
        )

    def points(self) -> Points:
        """The nearest valid context of each row, moved back towards the factual one."""
        best, count = self.survey.best(), len(self.task)
        x, found = best.x, best.loss < torch.inf
        rows = found.nonzero().flatten()
        if len(rows):
            x = x.index_copy(0, rows, approach(self.task[rows], x[rows]))
        halvings = HALVINGS * found.long()
        notes = tuple("" if found[i] else best.failures.get(i, "") for i in range(count))
        return Points(
            rows=torch.arange(count, device=x.device),
            x=x,
            found=found,
            steps=torch.from_numpy(self.taken).to(x.device) + 1,
            solves=best.solves + halvings * int(self.task.calls_solver),
            passes=best.passes + halvings,
            notes=notes,
            methods=("tangents",) * count,
        )
