"""A search that does not ask whether contexts are like known ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.search.base import Search


@dataclass(frozen=True)
class Anywhere(Search):
    """Lets a search look among all contexts, whether they are like known ones or not.

    Its proofs hold all the more for the fewer contexts that are. What it finds may be strange, so
    it is the first in a `Fallback`, which verifies: rows with a strange answer go on.

    Arguments:
        search: the search, which keeps to the number of changes.
    """

    search: Search
    counts_changes: ClassVar[bool] = True

    def refusal(self, task: Task) -> str:
        """What the search says of the task among all contexts."""
        return self.search.refusal(anywhere(task))

    def knowing(self, reference: Tensor) -> Anywhere:
        """The same of a search that knows them."""
        return replace(self, search=self.search.knowing(reference))

    def steps(self, task: Task) -> Iterator[Progress]:
        """Those of the search."""
        yield from self.search.steps(anywhere(task))


def anywhere(task: Task) -> Task:
    """The same task, whose answers need not be like known contexts."""
    return replace(task, space=replace(task.space, surroundings=None))
