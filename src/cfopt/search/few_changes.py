"""Few changes behind any predictor: first which features change, then by how much."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cfopt._batch import where_rows
from cfopt._typing import Array
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.geometry import Support
from cfopt.exact.verify import verify
from cfopt.question.domain import Domain
from cfopt.search.base import Search


@dataclass(frozen=True)
class FewChanges(Search):
    """Lets a search that does not count changes find answers with few of them.

    It begins with the answer of the search where changes are not counted. Then half of the changes
    are taken back, and the search begins again with the other features only, until no more change
    than may. What is taken back is what changes least, and, in a second attempt, what is missed
    least when it is put back alone. The nearest answer that is verified is kept. Nothing is proved,
    except by the first search, whose bound holds all the more for few changes; so the others do
    without what only proves.

    Arguments:
        search: the search.
    """

    search: Search
    counts_changes: ClassVar[bool] = True

    def refusal(self, task: Task) -> str:
        """Why the search cannot serve the task where changes are not counted."""
        return self.search.refusal(_within(task, _domain(task).uncounted()))

    def knowing(self, reference: Tensor) -> FewChanges:
        """The same of a search that knows them."""
        return replace(self, search=self.search.knowing(reference))

    def steps(self, task: Task) -> Iterator[Progress]:
        """Every row finishes with the last search."""
        domain = _domain(task)
        units = domain.limits.num_units
        least = min(domain.limits.max_changes or units - 1, units)
        first = yield from _finished(self.search, _within(task, domain.uncounted()), 0)
        search = self.search.unproved()
        step, best = 1, _Best(task, first)
        hopeless = [proof is not None and proof.infeasible for proof in first.certificates]
        rows = torch.tensor([not one for one in hopeless], device=best.open.device)
        rows &= best.open
        for importance in (_sizes, _misses):
            left = rows.nonzero().flatten()
            part, x, most = task[left], first.x[left], units + 1
            while len(left) and most > least and not task.late:
                weight = importance(part, x)
                most = max(least, (int((weight > 0).sum(axis=1).max()) + 1) // 2)
                held = _held(_domain(part), weight, most)
                narrow = _within(part, _domain(part).uncounted().holding(held))
                found = yield from _finished(search, narrow, step)
                step, x = step + 1, found.x
                best.keep(left, found)
        yield Progress(step + 1, 0, len(task), best.points)


def _finished(search: Search, task: Task, step: int) -> Generator[Progress, None, Points]:
    """What a search finds; its rows finish later."""
    parts = []
    for progress in search.steps(task):
        if progress.finished is not None:
            parts.append(progress.finished)
        yield replace(progress, step=step, running=len(task), finished=None, moving=None)
    return Points.gather(parts)


class _Best:
    """The nearest verified answers of a task so far, and what it took to find them."""

    def __init__(self, task: Task, first: Points) -> None:
        self.task = task
        domain = _domain(task)
        allowed = domain.allows(first.x)
        x = where_rows(allowed, domain.restored(first.x), first.x)
        self.points = replace(first, x=x, found=first.found & allowed & _valid(task, x))
        #: Rows whose first answer changes too much, or that have none.
        self.open = ~self.points.found
        self._loss = task.space.loss(x).masked_fill(self.open, torch.inf)

    def keep(self, rows: Tensor, found: Points) -> None:
        """Take what is nearer, of some rows, if it is verified."""
        part, points = self.task[rows], self.points
        found = replace(found, x=_domain(part).restored(found.x))
        valid = _valid(part, found.x) & found.found
        loss = part.space.loss(found.x)
        nearer = valid & (loss < self._loss[rows])
        self._loss[rows] = torch.where(nearer, loss, self._loss[rows])
        # Of rows without an answer, the last attempt misses with few changes.
        taken = nearer | ~points.found[rows]
        x, known, counts = points.x.clone(), points.found.clone(), {}
        x[rows] = where_rows(taken, found.x, x[rows])
        known[rows] |= nearer
        for name in ("steps", "solves", "passes"):
            counts[name] = getattr(points, name).clone()
            counts[name][rows] += getattr(found, name)
        notes, methods = list(points.notes), list(points.methods)
        for i, row in enumerate(rows.tolist()):
            notes[row] = "" if known[row] else found.notes[i]
            if taken[i]:
                methods[row] = f"{found.methods[i]}, few changes"
        self.points = replace(
            points, x=x, found=known, notes=tuple(notes), methods=tuple(methods), **counts
        )


def _valid(task: Task, x: Tensor) -> Tensor:
    with torch.no_grad():
        return verify(task, x).valid.to(x.device)


def with_few_changes(search: Search, task: Task) -> Search:
    """A search that keeps to the number of changes, if a task limits it."""
    domain = task.space.domain
    if search.counts_changes or domain is None or not domain.counted:
        return search
    return FewChanges(search)


def _domain(task: Task) -> Domain:
    assert task.space.domain is not None  # changes are counted
    return task.space.domain


def _within(task: Task, domain: Domain) -> Task:
    return replace(task, space=replace(task.space, domain=domain))


def _held(domain: Domain, weight: Array, most: int) -> Tensor:
    """The entries that keep their values, so that the weightiest units may change: `(B, p)`."""
    held = []
    for row, sizes in enumerate(weight):
        spared = domain.spared[row] if domain.spared else ()
        support = Support.of(domain.limits.unit, most, spared)
        held.append(support.members(support.choice(sizes)))
    return torch.from_numpy(np.array(held)).to(domain.origin.device)


def _sizes(task: Task, x: Tensor) -> Array:
    """By how much each unit changes, in units of its scale: `(B, ...) -> (B, units)`."""
    domain = _domain(task)
    change = (x.flatten(1) - domain.origin).double().cpu().numpy()
    change /= task.space.proximity.units(change.shape[1])
    sizes: Array = np.abs(change) @ np.eye(domain.limits.num_units)[domain.limits.unit]
    return sizes


def _misses(task: Task, x: Tensor) -> Array:
    """By how much the criterion is missed if a unit alone is put back: `(B, ...) -> (B, units)`.

    At least 0, and more than 0 where something changes at all.
    """
    domain, sizes = _domain(task), _sizes(task, x)
    flat, unit = x.flatten(1), torch.from_numpy(domain.limits.unit).to(x.device)
    misses = np.zeros_like(sizes)
    for k in range(domain.limits.num_units):
        there = torch.where(unit == k, domain.origin, flat).view_as(x)
        misses[:, k] = task.look(there).h.double().cpu().numpy()
    misses -= misses.min(axis=1, keepdims=True)
    tiny = 1e-9 * (1 + misses.max(axis=1, keepdims=True))
    return np.where(sizes > 0, misses + tiny * sizes / (1 + sizes), 0.0)
