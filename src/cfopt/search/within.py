"""A search with a time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.search.base import Search, check_time_limit


@dataclass(frozen=True)
class Within(Search):
    """Another search, whose solves fail when its time is up: rows then end with what they have.

    A solve that has begun is not stopped, and what needs no solver goes on.

    Arguments:
        search: the search to limit.
        time_limit: seconds for all rows together.
    """

    search: Search
    time_limit: float

    def __post_init__(self) -> None:
        check_time_limit(self, self.time_limit)

    def refusal(self, task: Task) -> str:
        """Why the search cannot serve the task."""
        return self.search.refusal(task)

    def steps(self, task: Task) -> Iterator[Progress]:
        """Those of the search."""
        problem = task.pipeline.problem.until(time.monotonic() + self.time_limit)
        pipeline = task.pipeline.with_problem(problem)
        yield from self.search.steps(replace(task, pipeline=pipeline))
