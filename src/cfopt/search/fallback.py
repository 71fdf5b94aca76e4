"""Searches in turn: what one leaves without an answer goes to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from cfopt._batch import where_rows
from cfopt.clock import part_of
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.verify import verify
from cfopt.problems.solved import TIME_IS_UP
from cfopt.search.base import Search


@dataclass(frozen=True)
class Fallback(Search):
    """Each search works on the rows for which those before found nothing, and proved nothing.

    What a row took is added up over the searches that it went through. A certificate of one stays
    with the row: its bound holds for whatever another finds. Where time is limited, each may take
    half of what is left, and the last one all of it.

    Arguments:
        searches: the searches, in the order in which they run.
    """

    heeds_variation: ClassVar[bool] = True
    heeds_surroundings: ClassVar[bool] = True  # it verifies what the searches find
    searches: tuple[Search, ...]

    def knowing(self, reference: Tensor) -> Search:
        """The same of searches that know them."""
        return replace(self, searches=tuple(s.knowing(reference) for s in self.searches))

    def refusal(self, task: Task) -> str:
        """Why any of the searches cannot serve the task."""
        return next((reason for s in self.searches if (reason := s.refusal(task))), "")

    def steps(self, task: Task) -> Iterator[Progress]:
        """Rows finish as soon as one of the searches answers them, or the last has tried.

        Claims are verified before a row is regarded as answered.
        """
        rows = task.row_numbers
        before: _Pending | None = None
        step, deadline = 0, task.rules.problem.deadline
        for k, search in enumerate(self.searches):
            last = k == len(self.searches) - 1
            share = task[rows]
            if not last:
                share = share.until(part_of(deadline, 1 / 2))
            left: list[_Pending] = []
            for progress in search.attempt(share):
                step += 1
                final = None
                if progress.finished is not None and len(progress.finished):
                    now = _Pending.of(task, rows, progress.finished)
                    now = now if before is None else now.after(before, progress.finished.rows)
                    settled = now.points.found.cpu() | _proved_infeasible(now.points)
                    if last:
                        settled[:] = True
                    else:
                        left.append(now[(~settled).nonzero().flatten()])
                    final = now[settled.nonzero().flatten()].points
                waiting = progress.running + sum(len(part.points) for part in left)
                ended = final if final and len(final) else None
                moving = None if progress.moving is None else progress.moving.of(rows)
                yield Progress(step, waiting, len(task), ended, moving)
            before = _Pending.gather(left)
            if before is None:
                return
            if task.late:
                yield Progress(step + 1, 0, len(task), before.points)
                return
            rows = before.points.rows


@dataclass(frozen=True)
class _Pending:
    """Points of some rows of a whole task, verified, and by how much each misses, `(R,)`."""

    points: Points
    violation: Tensor

    @classmethod
    def of(cls, task: Task, rows: Tensor, points: Points) -> _Pending:
        """Verify what a search returns, numbered as in its own task.

        A claim that there was no time to verify stands: the last word is not said here.
        """
        rows = rows[points.rows]
        own = task[rows]  # codes are decoded beside the row's own anchor
        with torch.no_grad():
            x = own.space.context(points.x)
        verdict = verify(own, x)
        stands = verdict.valid.clone()
        stands[[row for row, why in verdict.failures.items() if why == TIME_IS_UP]] = True
        known = replace(points, rows=rows, found=points.found & stands.to(points.found.device))
        return cls(known, verdict.violation.nan_to_num(torch.inf))

    def __getitem__(self, order: Tensor) -> _Pending:
        return _Pending(self.points[order.to(self.points.rows.device)], self.violation[order.cpu()])

    def after(self, before: _Pending, index: Tensor) -> _Pending:
        """Add what the rows took before, and keep the better of two contexts that both miss."""
        old, now = before[index], self.points
        keep = ~now.found.cpu() & (old.violation < self.violation)
        pairs = zip(old.points.notes, now.notes, strict=True)
        names = zip(old.points.methods, now.methods, strict=True)
        proofs = zip(old.points.certificates, now.certificates, strict=True)
        points = replace(
            now,
            x=where_rows(keep.to(now.x.device), old.points.x, now.x),
            steps=old.points.steps + now.steps,
            solves=old.points.solves + now.solves,
            passes=old.points.passes + now.passes,
            notes=tuple("; ".join(dict.fromkeys(filter(None, pair))) for pair in pairs),
            methods=tuple(f"{a}, then {b}" for a, b in names),
            certificates=tuple(a if b is None else b for a, b in proofs),
        )
        return _Pending(points, torch.where(keep, old.violation, self.violation))

    @staticmethod
    def gather(parts: list[_Pending]) -> _Pending | None:
        """All parts in the order of their rows; None if there are none."""
        parts = [part for part in parts if len(part.points)]
        if not parts:
            return None
        order = torch.cat([part.points.rows for part in parts]).argsort().cpu()
        violation = torch.cat([part.violation for part in parts])[order]
        return _Pending(Points.gather([part.points for part in parts]), violation)


def _proved_infeasible(points: Points) -> Tensor:
    """Which rows are said to have no explanation, `(R,)`."""
    proofs = points.certificates
    return torch.tensor(
        [proof is not None and proof.infeasible for proof in proofs], dtype=torch.bool
    )


@dataclass(frozen=True)
class Refined(Search):
    """What one search finds is where another begins; the nearer of both is kept.

    Arguments:
        search: the search that finds.
        by: the search that improves, from `task.space.start`.
    """

    search: Search
    by: Search

    def refusal(self, task: Task) -> str:
        """Why either cannot serve the task."""
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
            ended = missed if missed and len(missed) else None
            yield Progress(step, waiting, len(task), ended, progress.moving)
        if not sum(map(len, found)):
            return
        first = Points.gather(found)
        polish = []
        for progress in self.by.steps(task[first.rows].starting_at(first.x)):
            step += 1
            polish.append(progress.finished)
            moving = None if progress.moving is None else progress.moving.of(first.rows)
            yield Progress(step, len(first), len(task), moving=moving)
        polished = Points.gather([points for points in polish if points is not None])
        part = task[first.rows]
        losses = [part.space.loss(points.x) for points in (first, polished)]
        nearer = polished.found & (losses[1] < losses[0])
        # What was found stays the answer until a nearer one is verified.
        with torch.no_grad():
            nearer &= verify(part, part.space.context(polished.x)).valid.to(nearer.device)
        methods = zip(first.methods, nearer.tolist(), strict=True)
        finished = replace(
            first,
            x=where_rows(nearer, polished.x, first.x),
            steps=first.steps + polished.steps,
            solves=first.solves + polished.solves,
            passes=first.passes + polished.passes,
            methods=tuple(f"{name}, polished" if better else name for name, better in methods),
        )
        yield Progress(step + 1, 0, len(task), finished)
