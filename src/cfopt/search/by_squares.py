"""A search that measures changes by their squares, for tasks that measure them otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.question.proximity import L2
from cfopt.search.base import Search


@dataclass(frozen=True)
class BySquares(Search):
    """Lets a search that needs L2 look for answers near by another norm, such as LInf.

    The features keep their scales. What is found is valid, but need not be the nearest by the norm
    that was asked for: `Refined` goes on from there.

    Arguments:
        search: the search.
    """

    search: Search

    def refusal(self, task: Task) -> str:
        """What the search says of the task by L2."""
        return self.search.refusal(_by_squares(task))

    def steps(self, task: Task) -> Iterator[Progress]:
        """Those of the search."""
        yield from self.search.steps(_by_squares(task))


def _by_squares(task: Task) -> Task:
    space = task.space
    squares = L2(space.proximity.measure.scale).bind(space.origin)
    return replace(task, space=replace(space, proximity=squares))
