"""Searches in turn: what one leaves without an answer goes to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cfopt.search.base import Search
from cfopt.task import Task
from cfopt.types import Points, Progress


@dataclass(frozen=True)
class Chain(Search):
    """Each search works on the rows for which those before found nothing, and proved nothing.

    What a row took is added up over the searches that it went through. A certificate of one stays
    with the row: its bound holds for whatever another finds.

    Arguments:
        searches: in their order.
    """

    searches: tuple[Search, ...]

    def refusal(self, task: Task) -> str:
        """What any of the searches has against the task."""
        return next((reason for s in self.searches if (reason := s.refusal(task))), "")

    def steps(self, task: Task) -> Iterator[Progress]:
        """Rows finish as soon as one of the searches answers them, or the last has tried."""
        rows = torch.arange(len(task), device=task.origin.device)
        before: Points | None = None
        step = 0
        for k, search in enumerate(self.searches):
            last = k == len(self.searches) - 1
            left: list[Points] = []
            for progress in search.steps(task[rows]):
                step += 1
                done = progress.finished
                final = None
                waiting = progress.running + sum(len(part) for part in left)
                if done is not None and len(done):
                    done = _joined(before, done, rows)
                    settled = done.found.cpu() | _hopeless(done)
                    if not last:
                        left.append(done[(~settled).nonzero().flatten().to(rows.device)])
                        final = done[settled.nonzero().flatten().to(rows.device)]
                    else:
                        final = done
                    waiting += len(left[-1]) if not last else 0
                yield Progress(step, waiting, len(task), final if final and len(final) else None)
            left = [part for part in left if len(part)]
            if last or not left:
                return
            before = Points.gather(left)
            rows = before.rows


def _joined(before: Points | None, now: Points, rows: Tensor) -> Points:
    """Points of some rows, numbered as in the whole task, with what they took before."""
    if before is None:
        return now
    old = before[now.rows]
    methods = [f"{a}, then {b}" for a, b in zip(old.methods, now.methods, strict=True)]
    notes = [b or a for a, b in zip(old.notes, now.notes, strict=True)]
    proofs = [
        b if b is not None else a for a, b in zip(old.certificates, now.certificates, strict=True)
    ]
    return replace(
        now,
        rows=rows[now.rows],
        steps=old.steps + now.steps,
        solves=old.solves + now.solves,
        passes=old.passes + now.passes,
        methods=tuple(methods),
        notes=tuple(notes),
        certificates=tuple(proofs),
    )


def _hopeless(points: Points) -> Tensor:
    """Which rows are said to have no explanation, `(R,)`."""
    proofs = points.certificates
    return torch.tensor(
        [proof is not None and proof.hopeless for proof in proofs], dtype=torch.bool
    )


@dataclass(frozen=True)
class Polished(Search):
    """What one search finds is where another begins; the nearer of both is kept.

    Arguments:
        search: finds.
        by: improves, from `task.start`.
    """

    search: Search
    by: Search

    def refusal(self, task: Task) -> str:
        """What either has against the task."""
        return self.search.refusal(task) or self.by.refusal(task)

    def steps(self, task: Task) -> Iterator[Progress]:
        """Rows without an answer finish at once, the others when they are polished."""
        step, found = 0, []
        for progress in self.search.steps(task):
            step += 1
            done, missed = progress.finished, None
            if done is not None:
                found.append(done[done.found.nonzero().flatten()])
                missed = done[(~done.found).nonzero().flatten()]
            waiting = progress.running + sum(map(len, found))
            yield Progress(step, waiting, len(task), missed if missed and len(missed) else None)
        if not sum(map(len, found)):
            return
        first = Points.gather(found)
        polished = self.by.run(replace(task[first.rows], start=first.x))
        part = task[first.rows]
        losses = [part.proximity(points.x, part.origin) for points in (first, polished)]
        nearer = polished.found & (losses[1] < losses[0])
        shape = (-1, *[1] * (first.x.ndim - 1))
        methods = zip(first.methods, nearer.tolist(), strict=True)
        finished = replace(
            first,
            x=torch.where(nearer.view(shape), polished.x, first.x),
            steps=first.steps + polished.steps,
            solves=first.solves + polished.solves,
            passes=first.passes + polished.passes,
            methods=tuple(f"{name}, polished" if better else name for name, better in methods),
        )
        yield Progress(step + 1, 0, len(task), finished)
