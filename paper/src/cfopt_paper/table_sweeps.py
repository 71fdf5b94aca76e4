"""What the tabular experiments have in common: criteria and searches against a setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from cfopt_paper.charts import COLOURS, SEARCH_COLOURS, panels, ticks
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job
from cfopt_paper.paper import paper_values
from cfopt_paper.scale import Scale
from cfopt_paper.study import Study
from cfopt_paper.summary import SEEDS, between_seeds
from cfopt_paper.table_charts import TablePanel
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
class Setting:
    """The setting that an experiment varies.

    Arguments:
        column: its column in the rows.
        label: its name under the charts.
        figure: the title of the paper's figure in `paper.csv`.
    """

    column: str
    label: str
    figure: str


class TableExperiment(Experiment):
    """Both searches on the same tasks.

    Arguments:
        name, title, keys: as for every experiment.
        setting: the setting that is varied.
    """

    values = MEASURES

    def __init__(self, name: str, title: str, keys: tuple[str, ...], setting: Setting) -> None:
        self.name, self.title, self.keys, self.setting = name, title, keys, setting

    def rows(self, study: Study) -> pd.DataFrame:
        """One row for each task, with the distances of both searches where both have an answer."""
        return beside(super().rows(study), self.keys)

    def summary(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Mean and 95% interval at each point, the means of the lowest and of the highest seed.

        Of ratios it is the geometric mean: otherwise a few answers next to x0 would decide it. How
        many tasks were proved infeasible is a number, of all seeds together.
        """
        logs = rows.assign(**{RATIO: np.log(rows[RATIO])})
        means = (
            super()
            .summary(logs)
            .merge(between_seeds(logs, self.keys, self.values), on=[*self.keys, "measure"])
        )
        columns = ["mean", "low", "high", *SEEDS]
        ratios = means["measure"] == RATIO
        means.loc[ratios, columns] = np.exp(means.loc[ratios, columns])
        proved = means[means["measure"] == "proved infeasible"].copy()
        number = (proved["mean"] * proved["tasks"]).round()
        unknown = dict.fromkeys(("low", "high", *SEEDS), np.nan)
        proved = proved.assign(measure=PROVED, mean=number, **unknown)
        return pd.concat([means, proved], ignore_index=True)

    def panels(
        self, values: Iterable[float], summary: pd.DataFrame
    ) -> tuple[Figure, list[TablePanel]]:
        """Four charts: one that is left to the experiment, answers, ratios and solver calls."""
        figure, axes = panels(2, self.title, rows=2, width=5.0, height=3.75)
        setting = self.setting
        charts = [
            TablePanel(one, ticks(values), setting.label, summary, setting.column) for one in axes
        ]
        _, answers, ratios, solves = charts
        answers.headline("How many tasks get an answer", "fraction of tasks")
        answers.sweep.fractions()
        ratios.headline("How much farther than ours MDMM's answers are", "distance / ours")
        ratios.level(1.0)
        solves.headline("Solver calls for an explanation", "solver calls", log=True)
        return figure, charts


def seeded(model: TrainTable, study: Study) -> list[TrainTable]:
    """A predictor for each seed of a study."""
    return [replace(model, seed=seed) for seed in range(study.scale.table_seeds)]


def beside(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Add the columns SHARED and RATIO, the latter to the rows of MDMM.

    Arguments:
        rows: the rows of both searches.
        keys: the columns that distinguish points, "search" among them.
    """
    task = [*(key for key in keys if key != "search"), "seed", "task"]
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
        name, title, setting: as for every experiment on tables.
        models: a predictor for each value of the setting.
    """

    def __init__(
        self, name: str, title: str, setting: Setting, models: Callable[[Scale], list[TrainTable]]
    ) -> None:
        super().__init__(name, title, ("search", "criterion", setting.column), setting)
        self.models = models

    def jobs(self, study: Study) -> Sequence[Job]:
        """Three criteria and two searches with each predictor."""
        return [
            TableRun(model, criterion, search)
            for one in self.models(study.scale)
            for model in seeded(one, study)
            for criterion in CRITERIA
            for search in SEARCHES
        ]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """Iterations beside the paper's; then answers, ratios and solver calls of both searches."""
        figure, charts = self.panels(rows[self.setting.column].unique(), summary)
        iterations, answers, ratios, solves = charts
        iterations.headline("MDMM's iterations, and the paper's", "iterations")
        answers.proved(criterion="absolute", search="default")
        for criterion, colour in zip(CRITERIA, COLOURS, strict=False):
            iterations.curve(criterion, colour, "steps", criterion=criterion, search="MDMM")
            iterations.paper(paper_values(self.setting.figure, criterion), colour)
            ratios.curve(criterion, colour, RATIO, criterion=criterion, search="MDMM")
            for search in SEARCHES:
                dotted = search == "default"
                about = {"criterion": criterion, "search": search}
                answers.curve(criterion, colour, "valid", dotted=dotted, **about)
                solves.curve(criterion, colour, "solves", dotted=dotted, **about)
        iterations.finish({"paper": "dashed"})
        answers.finish({"MDMM": "solid", "our default": "dotted"})
        ratios.finish()
        solves.finish({"MDMM": "solid", "our default": "dotted"})
        return {self.name: figure}


class TableEpsilon(TableExperiment):
    """The distance of epsilon-explanations against epsilon.

    Arguments:
        name, title, setting: as for every experiment on tables.
        model: the predictor.
        epsilons: the values of epsilon.
        log: whether distances span orders of magnitude.
    """

    def __init__(
        self,
        name: str,
        title: str,
        setting: Setting,
        model: TrainTable,
        epsilons: Callable[[Scale], tuple[float, ...]],
        *,
        log: bool = False,
    ) -> None:
        super().__init__(name, title, ("search", "epsilon"), setting)
        self.model, self.epsilons, self.log = model, epsilons, log

    def jobs(self, study: Study) -> Sequence[Job]:
        """Both searches with each epsilon."""
        return [
            TableRun(model, "epsilon", search, epsilon)
            for model in seeded(self.model, study)
            for epsilon in self.epsilons(study.scale)
            for search in SEARCHES
        ]

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """Distances beside the paper's; then answers, ratios and solver calls of both searches."""
        figure, charts = self.panels(self.epsilons(study.scale), summary)
        distances, answers, ratios, solves = charts
        distances.headline(
            "Distance, where both searches have an answer", "squared distance", log=self.log
        )
        answers.proved(search="default")
        for search, colour in SEARCH_COLOURS.items():
            label = {"MDMM": "MDMM", "default": "our default"}[search]
            distances.curve(label, colour, SHARED, search=search)
            answers.curve(label, colour, "valid", search=search)
            solves.curve(label, colour, "solves", search=search)
        distances.paper(paper_values(self.setting.figure, "epsilon"))
        ratios.curve("MDMM", SEARCH_COLOURS["MDMM"], RATIO, search="MDMM")
        distances.finish({"paper": "dashed"})
        for chart in (answers, ratios, solves):
            chart.finish()
        return {self.name: figure}
