"""Rows whose plan can never be best are settled at once; the others go to another search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.domination import DominationProof, dominations
from cfopt.exact.positive import check_positive
from cfopt.search.base import Search


@dataclass(frozen=True)
class Undominated(Search):
    """Spares a search the rows whose plan is worse than another one whatever the context.

    That is known where all costs are above 0 and decisions are whole numbers, by one solve for each
    plan; no context is looked at.

    Arguments:
        search: what works on the other rows.
    """

    search: Search
    counts_changes: ClassVar[bool] = True
    heeds_variation: ClassVar[bool] = True

    def refusal(self, task: Task) -> str:
        """Why the search cannot serve the task."""
        return self.search.refusal(task)

    def steps(self, task: Task) -> Iterator[Progress]:
        """Dominated rows first, then the others as the search reports them."""
        proofs = dominations(task)
        dominated = torch.tensor([proof is not None for proof in proofs], dtype=torch.bool)
        dominated = dominated.to(task.space.home.device)
        settled, rest = dominated.nonzero().flatten(), (~dominated).nonzero().flatten()
        if not len(settled):
            yield from self.search.steps(task)
            return
        check_positive(task)
        yield Progress(0, len(rest), len(task), _proved(task, settled, proofs))
        if not len(rest):
            return
        for progress in self.search.steps(task[rest]):
            yield progress.of(rest, progress.running, len(task))


def _proved(task: Task, rows: Tensor, proofs: list[DominationProof | None]) -> Points:
    """Dominated rows, where they were."""
    none = torch.zeros_like(rows)
    return Points(
        rows=rows,
        x=task.space.home[rows],
        found=none.bool(),
        steps=none,
        solves=none,
        passes=none,
        methods=("domination",) * len(rows),
        certificates=tuple(proofs[row] for row in rows.tolist()),
    )
