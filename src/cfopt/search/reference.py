"""Explanations from contexts that are known: the nearest valid one, moved towards the factual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
#: How many are predicted at once.
_PREDICTED_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Reference(Search):
    """Starts from the nearest reference context that is allowed and valid.

    It is itself an answer. On the straight way from there to the factual context the search halves
    the distance as long as the criterion holds.

    Arguments:
        contexts: known contexts, such as the training data, `(N, ...)`.
    """

    contexts: Tensor

    def refusal(self, task: Task) -> str:
        """Needs a search among contexts."""
        return "" if task.latent is None else "codes are searched; use LatentReference(contexts)"

    def steps(self, task: Task) -> Iterator[Progress]:
        """Predict and solve for all references once, then go each row's own way back."""
        self.check(task)
        task = task.proven()
        numbers = self.contexts.flatten(1).isfinite().all(1).nonzero().flatten()
        known = Known(task, self.contexts[numbers].to(task.origin))
        each = torch.arange(len(task), device=task.origin.device)
        chosen = [_nearest(task[each[row : row + 1]], known) for row in each]
        rows = torch.tensor([row for row, k in enumerate(chosen) if k is not None])
        rows = rows.long().to(each.device)
        x = task.origin.clone()
        tried = torch.zeros(len(task), dtype=torch.long, device=x.device)
        if len(rows):
            start = known.contexts[[k for k in chosen if k is not None]]
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


class Known:
    """Contexts whose prices and best decisions are computed once, and judged for any row.

    Arguments:
        task: of which pipeline.
        contexts: the known contexts, `(N, ...)`.
    """

    def __init__(self, task: Task, contexts: Tensor) -> None:
        self.contexts = contexts
        with torch.no_grad():
            parts = [task.prices(part) for part in torch.split(contexts, _PREDICTED_AT_ONCE)]
        self._prices = torch.cat(parts) if parts else task.factual[:0]
        problem = task.pipeline.problem
        self._solved = Solved(torch.zeros_like(self._prices), {})
        if task.calls_solver and parts:
            self._solved = problem.attempt(problem.sense.sign * self._prices)

    def missed(self, task: Task, part: Tensor) -> Tensor:
        """By how much some of them miss the criterion of a task's one row: `(K,) -> (K,)`.

        As a part of what the criterion compares; 0 where it holds, inf if not allowed or unknown.
        """
        # The contexts of the row itself are not needed, and would be copied for each reference.
        rules = replace(task, origin=task.origin.flatten(1)[:, :1], domain=None, latent=None)
        wide, prices = rules[torch.zeros_like(part)], self._prices[part]
        lost = {i: "" for i, k in enumerate(part.tolist()) if k in self._solved.failures}
        optimum = wide.snapped(Solved(self._solved.decisions[part], lost))
        rival = wide.rival(prices, optimum)
        direction, h, holds = wide.judge(prices, rival.decisions, TOLERANCE / 2)
        size = (prices * direction).abs().sum(1).clamp(min=torch.finfo(h.dtype).tiny)
        miss = torch.where(holds, 0.0, (h / size).clamp(min=torch.finfo(h.dtype).tiny))
        if task.domain is not None:
            domain = task.domain[torch.zeros_like(part)]
            miss = torch.where(domain.allows(self.contexts[part]), miss, torch.inf)
        miss[list(rival.failures)] = torch.inf
        return miss.double().nan_to_num(torch.inf)


def _nearest(task: Task, known: Known) -> int | None:
    """The reference nearest to the one row of a task that is allowed and valid."""
    distance = task.proximity(known.contexts, task.origin.expand_as(known.contexts))
    order = distance.argsort(stable=True)
    start, count = 0, _FIRST
    while start < len(order):
        part = order[start : start + count]
        valid = known.missed(task, part) == 0
        if valid.any():
            return int(part[valid.nonzero()[0, 0]])
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
