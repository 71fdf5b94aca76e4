"""Where the paper's text differs from the code that made its figures, and the effect of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cfopt import Counting
from cfopt.drawing.mpl import DASHED, INK, QUIET
from cfopt_paper.charts import COLOURS, panels
from cfopt_paper.experiment import Experiment
from cfopt_paper.job import Job
from cfopt_paper.paper import paper_values
from cfopt_paper.study import Study
from cfopt_paper.summary import SEEDS, between_seeds, summarise
from cfopt_paper.table_models import TrainTable, base_model
from cfopt_paper.table_runs import CRITERIA, TableRun
from cfopt_paper.table_sweeps import seeded

AS_DRAWN = "as for the figures"
_TITLES = {"grid": "5x5 grid, 10 features", "knapsack": "16 items, 5 features"}


@dataclass(frozen=True)
class Departure:
    """A setting of the figures that the text states differently.

    Arguments:
        name: the name of the setting.
        figures, text: its value for the figures, and its value in the text, in words.
        formula, training, counting: the arguments of a run, where it can be measured.
    """

    name: str
    figures: str
    text: str
    formula: str = "pyepo"
    training: str = "MSE"
    counting: Counting = Counting.ALL_STEPS

    def run(self, base: TrainTable, criterion: str) -> TableRun:
        """The tasks with this one thing as in the text."""
        model = replace(base, formula=self.formula, training=self.training)
        return TableRun(model, criterion, "MDMM", counting=self.counting)


def _measured(figures: str, text: str) -> tuple[Departure, ...]:
    """The departures that are measured, given the two formulas of costs in words."""
    training, counting = "SPO+", Counting.VALID_STEPS
    return (
        Departure(AS_DRAWN, "", ""),
        Departure("cost formula", figures, text, formula="text"),
        Departure(
            "training loss",
            "MSE against features and depth, else SPO+",
            "SPO+",
            training=training,
        ),
        Departure(
            "stopping rule",
            "every idle step from the first valid one on",
            "idle steps that are valid",
            counting=counting,
        ),
        Departure("all three", "", "", formula="text", training=training, counting=counting),
    )


DEPARTURES = {
    "grid": _measured("1 added inside the fraction", "1 added outside"),
    "knapsack": _measured(
        "degree 6, 1 added inside the fraction, times 5, rounded up", "degree 4, 1 added outside"
    ),
}
#: Departures that change which points are drawn, or that are part of one that is measured.
LISTS = {
    "grid": (Departure("numbers of features", "10, 15, ..., 50, 100", "5, 10, 25, 50, 100, 500"),),
    "knapsack": (
        Departure("epsilons", "0.1, 0.2, ..., 3", "0.2, ..., 3"),
        Departure("degree of the formula", "6", "4, as for the grid"),
    ),
}


class Departures(Experiment):
    """MDMM's iterations at the base points as for the figures, and with the text's settings.

    One at a time: the formula of costs, the training loss, the stopping rule; and all three. Listed
    in the table without a measurement: the text's numbers of features for the grid are {5, 10, 25,
    50, 100, 500} where the figure has 10 to 100; for the knapsack it lacks the epsilon 0.1 that the
    figure starts with, and has the grid's formula, of degree 4, where the values were of degree 6.
    """

    name = "departures"
    title = "MDMM's iterations with settings of the paper's text, one at a time"
    keys = ("kind", "departure", "criterion")
    values = ("steps", "valid", "squared distance", "solves")

    def jobs(self, study: Study) -> Sequence[Job]:
        """Three criteria and some seeds for each departure of each problem."""
        return [run for _, run in _runs(study)]

    def rows(self, study: Study) -> pd.DataFrame:
        """One row for each task, with what departs."""
        return pd.concat(
            [study.table(run).assign(departure=one.name) for one, run in _runs(study)],
            ignore_index=True,
        )

    def summary(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Means under the text's setting beside those of the figures' and the paper's values."""
        means = summarise(rows, self.keys, self.values).merge(
            between_seeds(rows, self.keys, self.values), on=[*self.keys, "measure"]
        )
        drawn = means[means["departure"] == AS_DRAWN]
        beside = drawn[["kind", "criterion", "measure", "mean"]].rename(
            columns={"mean": "mean as for the figures"}
        )
        whole = means.merge(beside, on=["kind", "criterion", "measure"], how="left")
        whole = whole.merge(
            pd.DataFrame(_described(DEPARTURES)), on=["kind", "departure"], how="left"
        )
        whole["paper"] = [
            _paper(kind, criterion) if measure == "steps" else np.nan
            for kind, criterion, measure in zip(
                whole["kind"], whole["criterion"], whole["measure"], strict=True
            )
        ]
        return pd.DataFrame([*whole.to_dict(orient="records"), *_described(LISTS)])

    def draw(self, study: Study, rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Figure]:
        """A dot for each mean, with its interval and its seeds; a line for the paper's value."""
        figure, axes = panels(2, self.title, width=5.4, height=3.9)
        for one, (kind, known) in zip(axes, DEPARTURES.items(), strict=True):
            of = summary[(summary["kind"] == kind) & (summary["measure"] == "steps")]
            _dots(one, of, [departure.name for departure in known])
            one.set_title(_TITLES[kind], fontsize=9.5, loc="left", color=INK, pad=22)
            for criterion, colour in zip(CRITERIA, COLOURS, strict=False):
                one.axvline(_paper(kind, criterion), color=colour, linestyle=DASHED, zorder=0)
        return {self.name: figure}


def _described(departures: dict[str, tuple[Departure, ...]]) -> list[dict[str, str]]:
    return [
        {"kind": kind, "departure": one.name, "figures": one.figures, "text": one.text}
        for kind, known in departures.items()
        for one in known
    ]


def _runs(study: Study) -> list[tuple[Departure, TableRun]]:
    return [
        (departure, departure.run(model, criterion))
        for kind, known in DEPARTURES.items()
        for departure in known
        for criterion in CRITERIA
        for model in seeded(base_model(kind), study)
    ]


def _paper(kind: str, criterion: str) -> float:
    """The paper's mean number of iterations at the base point, in its figure against features."""
    values = paper_values(f"{kind}: iterations vs number of features n_x", criterion)
    features = base_model(kind).features
    return float(values.loc[values["x"] == features, "value"].iloc[0])


def _dots(axes: Axes, means: pd.DataFrame, names: list[str]) -> None:
    """Means with their intervals and, pale, their seeds; a line of them for each departure."""
    for k, (criterion, colour) in enumerate(zip(CRITERIA, COLOURS, strict=False)):
        of = means[means["criterion"] == criterion].set_index("departure").loc[names]
        # A little apart, so that intervals do not cover one another.
        places = np.arange(len(names)) + 0.16 * (k - 1)
        reach = np.nan_to_num([of["mean"] - of["low"], of["high"] - of["mean"]])
        low, high = (of[name] for name in SEEDS)
        axes.hlines(places, low, high, color=colour, alpha=0.25, linewidth=6)
        axes.errorbar(
            of["mean"], places, xerr=reach, color=colour, fmt="o", markersize=5, label=criterion
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("mean iterations, 95% interval; pale: from seed to seed", fontsize=9, color=INK)
    handles, labels = axes.get_legend_handles_labels()
    handles.append(Line2D([], [], color=QUIET, linestyle=DASHED))
    axes.legend(
        handles,
        [*labels, "paper's figure"],
        loc="lower left",
        bbox_to_anchor=(-0.02, 0.99),
        ncols=4,
        fontsize=7.5,
        frameon=False,
        borderaxespad=0.0,
    )
