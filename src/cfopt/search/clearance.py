"""Answers behind trees whose whole ball is clear of cells in which the criterion fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.exact_task import NORMS
from cfopt.exact.tree_failure import failure_around, served
from cfopt.search.base import Search

#: How many points are drawn in each radius around an answer that is not robust, and in which, in
#: radii of the ball.
_DRAWN, _RADII = 256, (0.5, 1.0, 2.0, 4.0, 8.0)
#: How many of them are starts; how often a start is moved, and by how much farther than it must.
_EACH_RADIUS, _MOVES, _FARTHER = 2, 30, 1e-6
#: How often the way home is halved, for all features together and for each of them; how often all
#: of them take turns.
_HALVINGS, _EACH, _ROUNDS = 10, 5, 2


@dataclass(frozen=True)
class Clearance(Search):
    """Moves answers away from the nearest cell in which the criterion fails, then back home.

    Behind trees such a cell is found exactly (`TreeFailures`). A start that has one within the
    radius of the ball is moved straight away from it, until none is left; what is clear is moved
    back towards the factual context as far as it stays so. Starts are the answer of another search
    to the plain question, and valid points around it.

    Arguments:
        of: the search that answers the plain question.
    """

    heeds_variation: ClassVar[bool] = True
    of: Search
    seed: int = field(default=0, kw_only=True)

    def knowing(self, reference: Tensor) -> Clearance:
        """The same, whose plain search knows the contexts."""
        return replace(self, of=self.of.knowing(reference))

    def refusal(self, task: Task) -> str:
        """Needs trees, a ball, and as many changes as it takes."""
        variation = task.variation
        if variation is None or variation.off_by is None:
            return "there is no ball to be cleared"
        if not served(task):
            return "not all predictors are tree ensembles, or a wish leaves the plan open"
        if task.space.latent is not None:
            return "codes are searched, not contexts"
        if task.space.domain is not None and task.space.domain.counted:
            return "the number of changes is limited"
        return self.of.refusal(replace(task, variation=None))

    def steps(self, task: Task) -> Iterator[Progress]:
        """The plain answers of all rows, then one row after the other."""
        plain = self.of.run(replace(task, variation=None))
        for row in range(len(task)):
            number = task.row_numbers[row : row + 1]
            found = _Row(task[number], self.seed).clear(plain[number])
            yield Progress(row + 1, len(task) - row - 1, len(task), replace(found, rows=number))


class _Row:
    """One row, and the contexts known in which its criterion fails."""

    def __init__(self, task: Task, seed: int) -> None:
        assert task.variation is not None
        assert task.variation.off_by is not None
        self.task, self.off_by = task, task.variation.off_by
        self.moving = self.off_by.units > 0
        self.draws = np.random.default_rng(seed)
        self.known: list[Array] = []
        self.looked = 0

    def clear(self, plain: Points) -> Points:
        """The nearest clear context that is found; the plain answer without one."""
        best, loss = None, np.inf
        for start in self._starts(plain) if plain.found.all() else []:
            if self.task.late:
                break
            x = self._moved_away(start)
            if x is None:
                continue
            x = self._home(x)
            cost = float(self.task.space.loss(x)[0])
            if cost < loss:
                best, loss = x, cost
        return replace(
            plain,
            x=plain.x if best is None else best,
            found=plain.found & (best is not None),
            steps=plain.steps + self.looked,
            notes=("" if best is not None else "around each answer an exception was found",),
            methods=tuple(f"{name}, cleared" for name in plain.methods),
            # What is proved of plain answers is true of robust ones.
            certificates=plain.certificates,
        )

    def _failure(self, x: Tensor) -> Array | None:
        """The nearest context in which the criterion fails, if one is in the ball: `(p,)`."""
        at = x.flatten().double().cpu().numpy()
        for context in self.known[::-1]:
            if self._length(at - context) <= self.off_by.radius:
                return context
        self.looked += 1
        found = failure_around(self.task, x)
        if found is None:
            return None
        self.known.append(found[1])
        return found[1]

    def _length(self, off: Array) -> float:
        """How long a difference of contexts is to the ball; inf if what is known differs."""
        if off[~self.moving].any():
            return np.inf
        scaled = off[self.moving] / self.off_by.units[self.moving]
        return float(np.linalg.norm(scaled, NORMS[type(self.off_by.norm)].order))

    def _starts(self, plain: Points) -> list[Tensor]:
        """The plain answer, and the nearest valid points that are drawn around it."""
        starts, space = [plain.x], self.task.space
        rows = torch.zeros(_DRAWN, dtype=torch.long)
        many = self.task.by_itself()[rows]
        for radius in _RADII:
            off = self.draws.standard_normal((_DRAWN, len(self.moving)))
            off *= radius * self.off_by.radius * self.off_by.units
            x = plain.x[rows] + torch.from_numpy(off).to(plain.x).view(_DRAWN, *plain.x.shape[1:])
            if many.space.domain is not None:
                x = many.space.domain.round(many.space.domain.clamp(x))
            seen = many.look(x)
            self.looked += _DRAWN
            cost = seen.loss.masked_fill(~seen.holds, torch.inf)
            starts += [x[k : k + 1] for k in cost.argsort()[:_EACH_RADIUS] if cost[k] < torch.inf]
        return sorted(starts, key=lambda x: float(space.loss(x)[0]))

    def _moved_away(self, x: Tensor) -> Tensor | None:
        """A clear context, if moves straight away from failures lead to one."""
        for _ in range(0 if self.task.late else _MOVES):
            failure = self._failure(x)
            if failure is None:
                return x
            off = x.flatten().double().cpu().numpy() - failure
            if not (length := self._length(off)):
                return None
            at = failure + off * (1 + _FARTHER) * self.off_by.radius / length
            moved = self._allowed(torch.from_numpy(at).to(x).view_as(x))
            if moved is None:
                return None
            x = moved
        return None

    def _allowed(self, x: Tensor) -> Tensor | None:
        """A context as near to one as bounds and whole numbers allow; None if others forbid it."""
        space = self.task.space
        if space.domain is not None:
            x = space.domain.round(space.domain.clamp(x))
        return x if space.allows(x).all() else None

    def _home(self, x: Tensor) -> Tensor:
        """Moved back home as far as it stays clear: as a whole, then feature by feature."""
        home, size = self.task.space.origin, x.numel()
        x = self._nearer(x, torch.ones(size, dtype=torch.bool), _HALVINGS)
        for _ in range(_ROUNDS):
            units = self.task.space.proximity.units(size)
            change = np.abs((x - home).flatten().double().cpu().numpy() / units)
            for f in np.argsort(-change)[: int((change > 0).sum())].tolist():
                x = self._nearer(x, torch.arange(size) == f, _EACH)
        return x

    def _nearer(self, x: Tensor, features: Tensor, halvings: int) -> Tensor:
        """With some features, `(p,)`, moved home as far as the whole stays clear."""
        home = self.task.space.origin
        which = features.view_as(x[0]).to(x.device)
        share, step = 1.0, 1.0
        best = x
        for _ in range(0 if self.task.late else halvings + 1):
            there = torch.where(which, home + (share - step) * (x - home), x)
            moved = self._allowed(there)
            if moved is not None and self._failure(moved) is None:
                best, share = moved, share - step
                if share == 0:
                    break
            step /= 2
        return best
