"""Explanations from contexts that are known: the nearest valid one, moved towards the factual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor

from cfopt._batch import where_rows
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.verify import verify
from cfopt.problems.solved import Solved
from cfopt.search.base import Search

#: How often the way from a reference to the factual context is halved.
HALVINGS = 30
#: How many references are judged at first, and at most at once.
_FIRST, _AT_ONCE = 64, 16_384
#: How many are predicted at once.
_PREDICTED_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Reference(Search):
    """Starts from the nearest reference context that is allowed and valid.

    It is itself an answer, and stays it until another one is verified. On the straight way from
    there to the factual context the search halves the distance as long as the criterion holds.

    Arguments:
        contexts: known contexts, such as the training data, `(N, ...)`.
    """

    contexts: Tensor

    def refusal(self, task: Task) -> str:
        """Needs a search among contexts."""
        codes = task.space.latent is not None
        return "codes are searched; use LatentReference(contexts)" if codes else ""

    def steps(self, task: Task) -> Iterator[Progress]:
        """Predict and solve for all references once, then go each row's own way back."""
        self.check(task)
        task = task.proven()
        numbers = self.contexts.flatten(1).isfinite().all(1).nonzero().flatten()
        known = JudgedReferences(task, self.contexts[numbers].to(task.space.origin))
        each = task.row_numbers
        chosen = nearest_verified(task, known)
        rows = each[[k is not None for k in chosen]]
        x = task.space.origin.clone()
        tried = torch.zeros(len(task), dtype=torch.long, device=x.device)
        if len(rows):
            start = known.contexts[[k for k in chosen if k is not None]]
            moved = approach(task[rows], start)
            kept = verify(task[rows], moved).valid.to(x.device)
            x[rows] = where_rows(kept, moved, start)
            tried[rows] = HALVINGS
        points = Points(
            rows=each,
            x=x,
            found=torch.tensor([k is not None for k in chosen], device=x.device),
            steps=1 + tried,
            # What the references cost is shared by all rows; each is charged with its own way only.
            solves=tried * int(task.rules.calls_solver),
            passes=tried,
            notes=tuple("no reference is valid and allowed" if k is None else "" for k in chosen),
            methods=tuple("reference" if k is None else f"reference {numbers[k]}" for k in chosen),
        )
        yield Progress(1, 0, len(task), points)


class JudgedReferences:
    """Contexts whose prices and best decisions are computed once, and judged for any row.

    Arguments:
        task: a task of the pipeline.
        contexts: the known contexts, `(N, ...)`.
    """

    def __init__(self, task: Task, contexts: Tensor) -> None:
        self.contexts = contexts
        with torch.no_grad():
            split = torch.split(contexts, _PREDICTED_AT_ONCE)
            parts = [task.prices(part) for part in takewhile(lambda _: not task.late, split)]
        missing = len(contexts) - sum(map(len, parts))  # which there was no time for
        unknown = task.rules.factual.new_full((missing, task.rules.factual.shape[1]), torch.nan)
        self._prices = torch.cat([*parts, unknown])
        problem = task.rules.problem
        self._solved = Solved(torch.zeros_like(self._prices), {})
        if task.rules.calls_solver and parts:
            self._solved = problem.attempt(problem.sense.sign * self._prices)

    def missed(self, task: Task, part: Tensor) -> Tensor:
        """By how much some of them miss the criterion of a task's one row: `(K,) -> (K,)`.

        As a fraction of what the criterion compares; 0 where it holds, inf if refused or unknown.
        """
        rules, prices = task.rules[torch.zeros_like(part)], self._prices[part]
        lost = {i: "" for i, k in enumerate(part.tolist()) if k in self._solved.failures}
        short = self._solved.shortfall
        short = None if short is None else short[part]
        optimum = rules.snapped(Solved(self._solved.decisions[part], lost, short))
        rival = rules.rival(prices, optimum)
        direction, h, holds = rules.judge(prices, rival.decisions, shortfall=rival.shortfall)
        size = (prices * direction).abs().sum(1).clamp(min=torch.finfo(h.dtype).tiny)
        miss = torch.where(holds, 0.0, (h / size).clamp(min=torch.finfo(h.dtype).tiny))
        if task.space.domain is not None:
            domain = task.space.domain[torch.zeros_like(part)]
            miss = torch.where(domain.allows(self.contexts[part]), miss, torch.inf)
        if task.space.surroundings is not None:
            strange = task.space.strangeness(self.contexts[part]) > 0
            miss = miss.masked_fill(strange, torch.inf)
        miss[list(rival.failures)] = torch.inf
        return miss.double().nan_to_num(torch.inf)


def nearest_verified(task: Task, known: JudgedReferences) -> list[int | None]:
    """For each row the number of the nearest reference that is allowed and verified, or None.

    When time is up, it is the nearest that seems to be valid.
    """
    each = task.row_numbers
    candidates = [nearest_first(task[each[row : row + 1]], known) for row in each]
    chosen: list[int | None] = [None] * len(task)
    open_rows = list(range(len(task)))
    while open_rows:
        tried = {row: next(candidates[row], None) for row in open_rows}
        rows = [row for row, k in tried.items() if k is not None]
        if not rows:
            break
        contexts = known.contexts[[tried[row] for row in rows]]
        valid = verify(task[each[rows]], contexts).valid.tolist()
        for row, good in zip(rows, valid, strict=True):
            chosen[row] = tried[row] if good or task.late else None
        open_rows = [row for row in rows if chosen[row] is None]
    return chosen


def nearest_first(task: Task, known: JudgedReferences) -> Iterator[int]:
    """The references that seem valid and allowed for the one row of a task, the nearest first."""
    distance = task.space.proximity(known.contexts, task.space.origin.expand_as(known.contexts))
    order = distance.argsort(stable=True)
    start, count = 0, _FIRST
    while start < len(order):
        part = order[start : start + count]
        yield from part[known.missed(task, part) == 0].tolist()
        start, count = start + count, min(4 * count, _AT_ONCE)


def approach(task: Task, x: Tensor) -> Tensor:
    """Halve the way from valid contexts to the factual ones: `(B, ...) -> (B, ...)`."""
    shape = (-1, *[1] * (x.ndim - 1))
    best, loss = x.clone(), task.space.proximity(x, task.space.origin)
    near = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    far = torch.ones_like(near)
    for _ in range(HALVINGS):
        if task.late:
            break
        middle = (near + far) / 2
        there = torch.lerp(task.space.origin, x, middle.view(shape))
        if task.space.domain is not None:
            there = task.space.domain.clamp(there)
            there = task.space.domain.round(there) if task.space.domain.discrete else there
        seen = task.look(there)
        nearer = seen.holds & (seen.loss < loss)
        best = where_rows(nearer, there, best)
        loss = torch.where(nearer, seen.loss, loss)
        near, far = torch.where(seen.holds, near, middle), torch.where(seen.holds, middle, far)
    return best
