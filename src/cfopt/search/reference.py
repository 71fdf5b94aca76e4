"""Explanations from contexts that are known: the nearest valid one, moved towards the factual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cfopt.problems.base import Solved
from cfopt.search.base import Search
from cfopt.task import TOLERANCE, Task
from cfopt.types import Points, Progress

#: How often the way from a reference to the factual context is halved.
_HALVINGS = 30
#: How many references are judged at first, and at most at once.
_FIRST, _AT_ONCE = 64, 16_384


@dataclass(frozen=True, eq=False)
class Reference(Search):
    """Starts from the nearest reference context that is allowed and valid.

    It is itself an answer. On the straight way from there to the factual context the search halves
    the distance as long as the criterion holds.

    Arguments:
        contexts: known contexts, such as the training data, `(N, ...)`.
    """

    contexts: Tensor

    def steps(self, task: Task) -> Iterator[Progress]:
        """Predict and solve for all references once, then go each row's own way back."""
        task = task.proven()
        numbers = self.contexts.flatten(1).isfinite().all(1).nonzero().flatten()
        known = self.contexts[numbers].to(task.origin)
        with torch.no_grad():
            parts = [task.prices(part) for part in torch.split(known, _AT_ONCE)]
            prices = torch.cat(parts) if parts else task.prices(task.origin)[:0]
        solved = _solve(task, prices)
        each = torch.arange(len(task), device=known.device)
        chosen = [_nearest(task[each[row : row + 1]], known, prices, solved) for row in each]
        rows = torch.tensor([row for row, k in enumerate(chosen) if k is not None])
        rows = rows.long().to(known.device)
        x = task.origin.clone()
        tried = torch.zeros(len(task), dtype=torch.long, device=x.device)
        if len(rows):
            start = known[[k for k in chosen if k is not None]]
            x[rows] = _approach(task[rows], start)
            tried[rows] = _HALVINGS
        points = Points(
            rows=each,
            x=x,
            found=torch.tensor([k is not None for k in chosen], device=x.device),
            steps=1 + tried,
            # What the references cost is shared by all rows; each is charged with its own way only.
            solves=tried * int(task.calls_solver),
            passes=tried,
            notes=tuple("no reference is valid and allowed" if k is None else "" for k in chosen),
            methods=tuple("reference" if k is None else f"reference {numbers[k]}" for k in chosen),
        )
        yield Progress(1, 0, len(task), points)


def _solve(task: Task, prices: Tensor) -> Solved:
    """The best decisions of the references, without reference to any row."""
    problem = task.pipeline.problem
    if not task.calls_solver:
        return Solved(torch.zeros_like(prices), {})
    return problem.attempt(problem.sense.sign * prices)


def _nearest(task: Task, known: Tensor, prices: Tensor, solved: Solved) -> int | None:
    """The reference nearest to the one row of a task that is allowed and valid."""
    distance = task.proximity(known, task.origin.expand_as(known))
    order = distance.argsort(stable=True)
    start, count = 0, _FIRST
    while start < len(order):
        part = order[start : start + count]
        wide = task[torch.zeros_like(part)]
        lost = {i: "" for i, k in enumerate(part.tolist()) if k in solved.failures}
        optimum = wide.snapped(Solved(solved.decisions[part], lost))
        rival = wide.rival(prices[part], optimum)
        holds = wide.judge(prices[part], rival.decisions, TOLERANCE / 2).holds
        holds &= wide.allows(known[part])
        holds[list(rival.failures)] = False
        if holds.any():
            return int(part[holds.nonzero()[0, 0]])
        start, count = start + count, min(4 * count, _AT_ONCE)
    return None


def _approach(task: Task, x: Tensor) -> Tensor:
    """Halve the way from valid contexts to the factual ones: `(B, ...) -> (B, ...)`."""
    shape = (-1, *[1] * (x.ndim - 1))
    best, loss = x.clone(), task.proximity(x, task.origin)
    near = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    far = torch.ones_like(near)
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        there = torch.lerp(task.origin, x, middle.view(shape))
        if task.domain is not None:
            there = task.domain.clamp(there)
            there = task.domain.round(there) if task.domain.discrete else there
        seen = task.look(there)
        nearer = seen.holds & (seen.loss < loss)
        best = torch.where(nearer.view(shape), there, best)
        loss = torch.where(nearer, seen.loss, loss)
        near, far = torch.where(seen.holds, near, middle), torch.where(seen.holds, middle, far)
    return best
