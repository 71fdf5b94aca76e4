"""Everything but the search: what would be refused is reported before time is spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.affine import Affine, AffineMap
from cfopt.exact.positive import check_positive
from cfopt.search.base import Search


@dataclass(frozen=True)
class DryRun(Search):
    """Asks a search whether it can serve the task, and lets the contexts be the answer.

    Arguments:
        of: the search that is to come.
    """

    of: Search

    def steps(self, task: Task) -> Iterator[Progress]:
        """One report, of all rows."""
        self.of.check(task)
        if isinstance(task.predictor, Affine):
            AffineMap.of(task)  # raises where the contexts refute the declaration
        check_positive(task)
        rows = task.row_numbers
        none = torch.zeros_like(rows)
        points = Points(rows, task.space.home, none.bool(), none, none, none)
        yield Progress(0, 0, len(task), points)
