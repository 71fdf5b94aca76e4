"""Curves against a setting, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from cfopt.drawing.mpl import DASHED, INK, QUIET, chart
from cfopt.plots.style import ALTERNATIVE, FACTUAL, OBSTACLES, canvas
from cfopt_paper.summary import SEEDS

#: One colour for each search, everywhere.
MDMM, DEFAULT, PAPER = FACTUAL, ALTERNATIVE, QUIET
SEARCH_COLOURS = {"MDMM": MDMM, "default": DEFAULT}
#: For what is not a search: kinds of explanations, costs or penalties.
COLOURS = (FACTUAL, ALTERNATIVE, *OBSTACLES)
_MARKS = ("o", "s", "^", "D")


def panels(
    columns: int, title: str, *, rows: int = 1, width: float = 4.6, height: float = 3.9
) -> tuple[Figure, list[Axes]]:
    """Charts in rows and columns under a heading.

    Arguments:
        columns, rows: the number of charts side by side, and one below the other.
        title: the title of all of them.
        width, height: the size of one chart, in inches.
    """
    whole = rows * height + 0.5
    figure = canvas(width * columns, whole, rect=(0.005, 0.005, 0.99, 1 - 0.55 / whole))
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(rows * columns)]
    figure.text(0.02, 1 - 0.18 / whole, title, fontsize=12, fontweight="bold", color=INK, va="top")
    for one in axes:
        chart(one)
    return figure, axes


class Sweep:
    """A chart against a setting whose values stand evenly spaced, as in the paper's figures.

    Arguments:
        axes: where to draw.
        ticks: the values of the setting; curves may lack some of them.
        setting: the name of the setting, for the horizontal axis.
        measure: the name of what is drawn, for the vertical axis.
    """

    def __init__(self, axes: Axes, ticks: Sequence[float], setting: str, measure: str) -> None:
        self.axes = axes
        self.places = {value: k for k, value in enumerate(sorted(set(ticks)))}
        axes.set_xticks(range(len(self.places)), [f"{value:g}" for value in self.places])
        axes.set_xlim(-0.4, len(self.places) - 0.6)
        axes.set_xlabel(setting, fontsize=9, color=INK)
        axes.set_ylabel(measure, fontsize=9, color=INK)
        self._marks: dict[str, str] = {}

    def curve(self, summary: pd.DataFrame, by: str, label: str, colour: str) -> None:
        """Means with their 95% band and, where there are several seeds, a line between their means.

        Arguments:
            summary: the points of one curve, with `mean`, `low` and `high`, and the means of the
                lowest and the highest seed if there are several.
            by: the column of the setting.
            label: the entry in the legend.
            colour: the colour of line and band; curves of one colour have the same marks.
        """
        points = summary.dropna(subset=["mean"]).sort_values(by)
        x = [self.places[value] for value in points[by]]
        mark = self._marks.setdefault(colour, _MARKS[len(self._marks) % len(_MARKS)])
        self.axes.plot(x, points["mean"], color=colour, marker=mark, markersize=4, label=label)
        self.axes.fill_between(
            x, points["low"], points["high"], color=colour, alpha=0.15, linewidth=0
        )
        if set(SEEDS) <= set(points.columns):
            low, high = (points[name] for name in SEEDS)
            self.axes.vlines(x, low, high, color=colour, linewidth=1.0, alpha=0.7)

    def paper(self, values: pd.DataFrame, label: str = "paper", colour: str = PAPER) -> None:
        """What the paper's figure shows: `x` and `value`."""
        known = values[values["x"].isin(list(self.places))].sort_values("x")
        x = [self.places[value] for value in known["x"]]
        self.axes.plot(
            x, known["value"], color=colour, linestyle=DASHED, marker=".", label=label, zorder=1
        )

    def fractions(self) -> None:
        """Show all of 0 to 1, and nothing else."""
        self.axes.set_ylim(-0.03, 1.03)

    def logarithmic(self) -> None:
        """Use a logarithmic scale, with plain numbers."""
        self.axes.set_yscale("log")
        self.axes.tick_params(axis="y", which="minor", labelsize=8, labelcolor=INK)
        for axis in (self.axes.yaxis.set_major_formatter, self.axes.yaxis.set_minor_formatter):
            axis(LogFormatter(minor_thresholds=(2, 0.5)))

    def legend(self) -> None:
        """Name the curves."""
        self.axes.legend(fontsize=7.5, frameon=False)


def ticks(*values: Iterable[float]) -> list[float]:
    """All the values of some settings, in order."""
    return sorted({float(value) for some in values for value in some})


@dataclass(frozen=True)
class SearchCharts:
    """A measure of both searches against a setting, how often they succeed, and their solver calls.

    Arguments:
        title: the title of the picture.
        by: the column of the setting.
        setting: the name of the setting, for the horizontal axes.
        values: the values of the setting in the study.
        measure: the column of the measure.
        label: the name of the measure, for the vertical axis.
        paper: the paper's values of the measure: `x` and `value`.
    """

    title: str
    by: str
    setting: str
    values: Sequence[float]
    measure: str
    label: str
    paper: pd.DataFrame

    def draw(self, summary: pd.DataFrame) -> Figure:
        """Three charts side by side, from the means of a study."""
        figure, axes = panels(3, self.title, width=4.2)
        charts = {
            self.measure: self.label,
            "valid": "fraction of tasks with a valid explanation",
            "solves": "solver calls (log scale)",
        }
        for one, (measure, label) in zip(axes, charts.items(), strict=True):
            sweep = Sweep(one, ticks(self.values, self.paper["x"]), self.setting, label)
            for search, colour in SEARCH_COLOURS.items():
                of = summary[(summary["measure"] == measure) & (summary["search"] == search)]
                sweep.curve(of, self.by, f"{search} search", colour)
            if measure == self.measure:
                sweep.paper(self.paper)
            if measure == "valid":
                sweep.fractions()
            if measure == "solves":
                sweep.logarithmic()
            sweep.legend()
        return figure
