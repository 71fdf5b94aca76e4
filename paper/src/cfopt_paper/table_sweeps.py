"""What the tabular experiments have in common: criteria and searches against a setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from cfopt_paper.charts import COLOURS, DEFAULT, MDMM, ticks
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job
from cfopt_paper.paper import paper_values
from cfopt_paper.scale import Scale
from cfopt_paper.study import Study
from cfopt_paper.table_charts import TablePanel, quarters
from cfopt_paper.table_models import TrainTable
from cfopt_paper.table_runs import CRITERIA, SEARCHES, TableRun

#: The distance of tasks that both searches answer, and how much farther MDMM's answer is.
SHARED, RATIO = "squared distance, both answered", "distance / that of the default search"
#: How many tasks are proved to have no answer: a number, where the other measures are means.
PROVED = "tasks proved infeasible"
MEASURES = (
    "steps",
    "valid",
    "squared distance",
    SHARED,
    RATIO,
    "solves",
    "passes",
    "seconds",
    "proved infeasible",
    "optimal",
)


@dataclass(frozen=True)
class Knob:
    """What is varied.

    Arguments:
        column: the column of the rows.
        label: the words under the picture.
        figure: the paper's, by its title in `paper.csv`.
    """

    column: str
    label: str
    figure: str


class TableExperiment(Experiment):
    """Both searches on the same tasks.

    Arguments:
        name, title, keys: as for every experiment.
        knob: what is varied.
    """

    values = MEASURES

    def __init__(self, name: str, title: str, keys: tuple[str, ...], knob: Knob) -> None:
        self.name, self.title, self.keys, self.knob = name, title, keys, knob

    def rows(self, study: Study) -> pd.DataFrame:
        """One row for each task, with what the two searches come to where both have an answer."""
        return beside(super().rows(study), self.keys)

    def summary(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Mean and 95% interval at each point, and how many tasks were proved infeasible.

        Of ratios it is the geometric mean: a few answers that are next to x0 would else decide.
        """
        means = super().summary(rows.assign(**{RATIO: np.log(rows[RATIO])}))
        columns = ["mean", "low", "high"]
        ratios = means["measure"] == RATIO
        means.loc[ratios, columns] = np.exp(means.loc[ratios, columns])
        proved = means[means["measure"] == "proved infeasible"].copy()
        number = (proved["mean"] * proved["tasks"]).round()
        proved = proved.assign(measure=PROVED, mean=number, low=np.nan, high=np.nan)
        return pd.concat([means, proved], ignore_index=True)


def beside(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Add the columns SHARED and RATIO, the latter to the rows of MDMM.

    Arguments:
        rows: the rows of both searches.
        keys: the columns that distinguish points, "search" among them.
    """
    task = [*(key for key in keys if key != "search"), "task"]
    both = rows.pivot(index=task, columns="search", values="squared distance")
    shared = both.notna().all(axis=1)
    # 0 / 0 where x0 explains already: neither is farther.
    ratio = (both["MDMM"] / both["default"].where(both["default"] > 0)) ** 0.5
    place = pd.MultiIndex.from_frame(rows[task])
    found = rows.copy()
    found[SHARED] = rows["squared distance"].where(shared.reindex(place).to_numpy())
    found[RATIO] = ratio.reindex(place).to_numpy()
    found.loc[rows["search"] != "MDMM", RATIO] = np.nan
    return found


class TableSweep(TableExperiment):
    """Iterations of the three kinds of explanations against a setting of the problem.

    Arguments:
        name, title, knob: as for every experiment on tables.
        models: a predictor for each value of the setting.
    """

    def __init__(
        self, name: str, title: str, knob: Knob, models: Callable[[Scale], list[TrainTable]]
    ) -> None:
        super().__init__(name, title, ("search", "criterion", knob.column), knob)
        self.models = models

    def jobs(self, study: Study) -> Sequence[Job]:
        """Three criteria and two searches with each predictor."""
        return [
            TableRun(model, criterion, search)
            for model in self.models(study.scale)
            for criterion in CRITERIA
            for search in SEARCHES
        ]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """Iterations beside the paper's; then what MDMM finds and takes, beside our search."""
        figure, axes = quarters(self.title)
        by = self.knob.column
        values = ticks(rows[by].unique())
        panels = [TablePanel(one, values, self.knob.label, summary, by) for one in axes]
        iterations, answers, distances, solves = panels
        iterations.headline("MDMM's iterations, and the paper's", "iterations")
        answers.headline("How many tasks get an answer", "share of tasks")
        answers.proved(criterion="absolute", search="default")
        distances.headline("How much farther than ours MDMM's answers are", "distance / ours")
        solves.headline("Solver calls for an explanation", "solver calls", log=True)
        for criterion, colour in zip(CRITERIA, COLOURS, strict=False):
            iterations.curve(criterion, colour, "steps", criterion=criterion, search="MDMM")
            iterations.paper(paper_values(self.knob.figure, criterion), colour)
            distances.curve(criterion, colour, RATIO, criterion=criterion, search="MDMM")
            for search in SEARCHES:
                dotted = search == "default"
                about = {"criterion": criterion, "search": search}
                answers.curve(criterion, colour, "valid", dotted=dotted, **about)
                solves.curve(criterion, colour, "solves", dotted=dotted, **about)
        distances.level(1.0)
        answers.shares()
        iterations.finish({"paper": "dashed"})
        answers.finish({"MDMM": "solid", "our default": "dotted"})
        distances.finish()
        solves.finish({"MDMM": "solid", "our default": "dotted"})
        return {self.name: figure}


class TableEpsilon(TableExperiment):
    """The distance of epsilon-explanations against epsilon.

    Arguments:
        name, title, knob: as for every experiment on tables.
        model: the predictor.
        epsilons: the values of epsilon.
        log: whether distances span orders of magnitude.
    """

    def __init__(
        self,
        name: str,
        title: str,
        knob: Knob,
        model: TrainTable,
        epsilons: Callable[[Scale], tuple[float, ...]],
        *,
        log: bool = False,
    ) -> None:
        super().__init__(name, title, ("search", "epsilon"), knob)
        self.model, self.epsilons, self.log = model, epsilons, log

    def jobs(self, study: Study) -> Sequence[Job]:
        """Both searches with each epsilon."""
        return [
            TableRun(self.model, "epsilon", search, epsilon)
            for epsilon in self.epsilons(study.scale)
            for search in SEARCHES
        ]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """Distances beside the paper's; then how many were found, how near, and at what price."""
        figure, axes = quarters(self.title)
        values = ticks(self.epsilons(study.scale))
        panels = [TablePanel(one, values, self.knob.label, summary, "epsilon") for one in axes]
        distances, answers, ratios, solves = panels
        distances.headline(
            "Distance, where both searches have an answer", "squared distance", log=self.log
        )
        answers.headline("How many tasks get an answer", "share of tasks")
        answers.proved(search="default")
        ratios.headline("How much farther than ours MDMM's answers are", "distance / ours")
        solves.headline("Solver calls for an explanation", "solver calls", log=True)
        for search, colour in (("MDMM", MDMM), ("default", DEFAULT)):
            label = {"MDMM": "MDMM", "default": "our default"}[search]
            distances.curve(label, colour, SHARED, search=search)
            answers.curve(label, colour, "valid", search=search)
            solves.curve(label, colour, "solves", search=search)
        distances.paper(paper_values(self.knob.figure, "epsilon"))
        ratios.curve("MDMM", MDMM, RATIO, search="MDMM")
        ratios.level(1.0)
        answers.shares()
        distances.finish({"paper": "dashed"})
        answers.finish()
        solves.finish()
        ratios.finish()
        return {self.name: figure}
