"""What an experiment is: jobs, a table of what they found, and a picture of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from cfopt_paper.job import Job
from cfopt_paper.study import Study
from cfopt_paper.summary import summarise


class Experiment(ABC):
    """A figure or a table of the paper.

    To add one, write the class in a module of its own, and list it in the catalogue.
    """

    #: Its name on the command line, and that of its files.
    name: str
    #: What it shows, in one line.
    title: str
    #: The columns that distinguish the points of the figure.
    keys: tuple[str, ...]
    #: The columns that are averaged at each point.
    values: tuple[str, ...]

    @abstractmethod
    def jobs(self, study: Study) -> Sequence[Job]:
        """What has to be done; jobs bring along what they need themselves."""

    def rows(self, study: Study) -> pd.DataFrame:
        """One row for each task, from jobs that are done."""
        return study.table(*self.jobs(study))

    def summary(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Mean and 95% interval at each point."""
        return summarise(rows, self.keys, self.values)

    @abstractmethod
    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """The pictures by file name, without the paper's values where it shows none.

        Arguments:
            study: the study, for what is not in the tables, such as images.
            rows, summary: as above.
        """
