"""Curves against a setting, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from cfopt.plots.style import ALTERNATIVE, DASHED, FACTUAL, INK, OBSTACLES, QUIET, canvas, chart

#: One colour for each search, everywhere.
MDMM, DEFAULT, PAPER = FACTUAL, ALTERNATIVE, QUIET
#: For what is not a search: kinds of explanations, costs or penalties.
COLOURS = (FACTUAL, ALTERNATIVE, *OBSTACLES)
_MARKS = ("o", "s", "^", "D")


def panels(
    count: int, title: str, *, width: float = 4.6, height: float = 3.9
) -> tuple[Figure, list[Axes]]:
    """Charts side by side under a heading.

    Arguments:
        count: the number of charts.
        title: the title of all of them.
        width, height: the size of one, in inches.
    """
    whole = height + 0.5
    figure = canvas(width * count, whole, rect=(0.005, 0.005, 0.99, 1 - 0.55 / whole))
    axes = [figure.add_subplot(1, count, k + 1) for k in range(count)]
    figure.text(0.02, 1 - 0.18 / whole, title, fontsize=12, fontweight="bold", color=INK, va="top")
    for one in axes:
        chart(one)
    return figure, axes


class Sweep:
    """A chart against a setting whose values stand evenly spaced, as in the paper's figures.

    Arguments:
        axes: where to draw.
        ticks: the values of the setting; curves may lack some of them.
        knob: what it is called.
        measure: what is drawn, for the vertical axis.
    """

    def __init__(self, axes: Axes, ticks: Sequence[float], knob: str, measure: str) -> None:
        self.axes = axes
        self.places = {value: k for k, value in enumerate(sorted(set(ticks)))}
        axes.set_xticks(range(len(self.places)), [f"{value:g}" for value in self.places])
        axes.set_xlim(-0.4, len(self.places) - 0.6)
        axes.set_xlabel(knob, fontsize=9, color=INK)
        axes.set_ylabel(measure, fontsize=9, color=INK)
        self._curves = 0

    def curve(self, summary: pd.DataFrame, by: str, label: str, colour: str) -> None:
        """Means with their 95% band.

        Arguments:
            summary: the points of one curve, with `mean`, `low` and `high`.
            by: the column of the setting.
            label: the entry in the legend.
            colour: the colour of line and band.
        """
        points = summary.dropna(subset=["mean"]).sort_values(by)
        x = [self.places[value] for value in points[by]]
        mark = _MARKS[self._curves % len(_MARKS)]
        self._curves += 1
        self.axes.plot(x, points["mean"], color=colour, marker=mark, markersize=4, label=label)
        self.axes.fill_between(
            x, points["low"], points["high"], color=colour, alpha=0.15, linewidth=0
        )

    def paper(self, values: pd.DataFrame, label: str = "paper", colour: str = PAPER) -> None:
        """What the paper's figure shows: `x` and `value`."""
        known = values[values["x"].isin(list(self.places))].sort_values("x")
        x = [self.places[value] for value in known["x"]]
        self.axes.plot(
            x, known["value"], color=colour, linestyle=DASHED, marker=".", label=label, zorder=1
        )

    def logarithmic(self) -> None:
        """Use a logarithmic scale, with plain numbers."""
        self.axes.set_yscale("log")
        for axis in (self.axes.yaxis.set_major_formatter, self.axes.yaxis.set_minor_formatter):
            axis(LogFormatter(minor_thresholds=(2, 0.5)))

    def legend(self) -> None:
        """Say which curve is which."""
        self.axes.legend(fontsize=7.5, frameon=False)


def ticks(*values: Iterable[float]) -> list[float]:
    """All the values of some settings, in order."""
    return sorted({float(value) for some in values for value in some})
