"""Climbs from several starts, the best point of each row kept: what trust-region searches share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Protocol

import torch
from torch import Tensor

from cfopt.engine.progress import Moving, Points, Progress
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.search.base import Search, check_whole
from cfopt.search.incumbents import Incumbents
from cfopt.search.trust_region.climb import Climb
from cfopt.search.trust_region.evaluator import look

#: Points with more entries make the step problems, which are dense, too large.
LARGEST = 2000
#: How many numbers are held at once by the rows that are worked on together.
_NUMBERS_AT_ONCE = 4_000_000
#: What a start's distance counts against how far it is from valid.
_NEARNESS = 0.01


class Run(ABC):
    """The rows of a task that are worked on together, and the best point of each so far.

    What it does is done while it is iterated over; it yields where its rows are.

    Arguments:
        task: what to work on.
        max_steps: the largest number of steps of a climb.
    """

    def __init__(self, task: Task, max_steps: int) -> None:
        count, device = len(task), task.space.home.device
        self.task = task
        self.every = task.row_numbers
        self.best = Incumbents(task.space.beginning.detach(), torch.float64)
        self.steps, self.solves, self.passes = torch.zeros(
            (3, count), dtype=torch.long, device=device
        )
        self._max_steps = max_steps
        self._failures: dict[int, str] = {}

    @abstractmethod
    def climbs(self, rows: Tensor, task: Task) -> Iterator[Climb]:
        """One climb, or some in turn, of a task with starts; rows numbers its rows in the run."""

    def climb(self, rows: Tensor, starts: Tensor) -> Iterator[Moving]:
        """Climb from S points of each of some rows, `(R,), (R, S, ...)`, and keep the best."""
        count, each = starts.shape[:2]
        if not count or self.task.late:
            return
        wide = rows.repeat_interleave(each)
        # A copy: the best points, from which climbs may begin, change on the way.
        task = self.task[wide].starting_at(starts.flatten(0, 1).clone())
        for climb in self.climbs(wide, task):
            for moving in climb.run(self._max_steps):
                yield moving.of(wide)
            seen = climb.evaluator
            for total, part in (
                (self.steps, climb.steps),
                (self.solves, seen.solves),
                (self.passes, seen.passes),
            ):
                total.index_add_(0, wide, torch.from_numpy(part).to(total))
            self._failures |= {int(wide[i]): reason for i, reason in seen.failures.items()}
            best, shape = seen.best, (count, each)
            measures = (part.view(shape) for part in (best.loss, best.excess, best.found))
            self.best.offer(rows, best.x.view(starts.shape), *measures)

    def restart(
        self, rows: Tensor, points: Tensor, distance: Tensor, starts: int
    ) -> Iterator[Moving]:
        """Judge random points, and climb from the most promising.

        Arguments:
            rows: which, `(R,)`.
            points: candidates, `(R, S, ...)`.
            distance: how far they are, as a fraction of what is far, `(R, S)`.
            starts: how many of them are climbed from.
        """
        count, samples = points.shape[:2]
        if not count or self.task.late:
            return
        wide = rows.repeat_interleave(samples)
        seen = look(self.task, wide, points.flatten(0, 1))
        self.passes[rows] += samples
        self.solves[rows] += samples * int(self.task.rules.calls_solver)
        # A failed solve has shown nothing.
        excess = torch.where(seen.allowed, seen.h, torch.inf).double().nan_to_num(torch.inf)
        measures = (part.view(count, samples) for part in (seen.loss.double(), excess, seen.holds))
        self.best.offer(rows, points, *measures)
        size = self.task.rules[wide].compared(seen.prices, seen.rival).double().clamp(min=1e-300)
        miss = (excess.clamp(min=0) / size).view(count, samples).nan_to_num(torch.inf)
        order = (miss + _NEARNESS * distance.to(miss)).argsort(dim=1, stable=True)[:, :starts]
        each = torch.arange(count, device=rows.device)[:, None]
        yield from self.climb(rows, points[each, order])

    def points(self, method: str = "sequential") -> Points:
        """All rows."""
        found = self.best.found.tolist()
        return Points(
            rows=self.every,
            x=self.best.x,
            found=self.best.found,
            steps=self.steps,
            solves=self.solves,
            passes=self.passes,
            notes=tuple("" if ok else self._failures.get(i, "") for i, ok in enumerate(found)),
            methods=(method,) * len(found),
        )


class Rounds(Protocol):
    """Rows that are worked on together."""

    def points(self) -> Points:
        """Where the rows have ended."""


class BatchSearch(Search):
    """Searches that work on as many rows at once as memory allows."""

    @abstractmethod
    def numbers(self, task: Task) -> int:
        """How many numbers a row of a task needs."""

    @abstractmethod
    def rounds(self, task: Task) -> tuple[Rounds, Iterator[Moving]]:
        """A run on some rows of a task, and everything that it is to do."""

    def steps(self, task: Task) -> Iterator[Progress]:
        """All rounds of some rows, then those of others."""
        self.check(task)
        task = task.proven()
        at_once = max(1, _NUMBERS_AT_ONCE // self.numbers(task))
        step, left = 0, len(task)
        yield Progress(step, left, len(task))
        for rows in torch.split(task.row_numbers, at_once):
            run, rounds = self.rounds(task[rows])
            for moving in rounds:
                step += 1
                yield Progress(step, left, len(task), moving=moving.of(rows))
            step, left = step + 1, left - len(rows)
            yield Progress(step, left, len(task), replace(run.points(), rows=rows))


@dataclass(frozen=True)
class TrustRegion(BatchSearch):
    """The settings of trust-region searches."""

    max_steps: int
    radius: float
    restarts: int
    samples: int
    starts: int
    seed: int

    def __post_init__(self) -> None:
        check_whole(self, max_steps=1, restarts=0, samples=1, starts=1, seed=0)
        name = type(self).__name__
        if not isinstance(self.radius, Real) or not 0 < self.radius < math.inf:
            raise InputError(f"{name} needs a finite radius > 0, got {self.radius!r}.")
        if self.starts > self.samples:
            raise InputError(
                f"{name} needs no more starts than samples, got {self.starts} and {self.samples}."
            )
