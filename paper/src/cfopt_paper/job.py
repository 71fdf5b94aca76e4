"""A piece of work whose result is kept, so that it is done once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from cfopt_paper.study import Study

#: Called with the fraction of a job that is done, from 0 to 1.
Report = Callable[[float], None]


class Job(ABC):
    """What an experiment is made of: a model to train, or a few tasks to explain.

    Jobs are frozen dataclasses: two experiments that need the same one share its result.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """A file name that distinguishes this job from every other one of a study."""

    def needs(self) -> tuple[Job, ...]:
        """The jobs that have to be done before."""
        return ()

    @abstractmethod
    def seconds(self, study: Study) -> float:
        """About how long it takes on two cores; only the fraction of the total matters."""

    @abstractmethod
    def run(self, study: Study, report: Report) -> pd.DataFrame:
        """Do the work.

        Arguments:
            study: whose scale, seed and results so far to use.
            report: called with the progress.
        """


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Jobs and all those that they need, each once, and after those that it needs."""
    return list(dict.fromkeys(_with_needs(jobs)))


def _with_needs(jobs: Iterable[Job]) -> Iterator[Job]:
    for job in jobs:
        yield from _with_needs(job.needs())
        yield job
