"""The panels of the tabular pictures: four to a picture, with legends above their curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from cfopt.drawing.mpl import DASHED, INK, QUIET
from cfopt_paper.charts import PAPER, Sweep

_DOTTED = (0, (1, 1.2))
_STYLES: dict[str, Any] = {"solid": "-", "dashed": DASHED, "dotted": _DOTTED}


class TablePanel:
    """One chart of a tabular picture.

    Arguments:
        axes: where to draw.
        ticks: the values of the setting.
        label: the name of the setting.
        summary: the points of all curves.
        by: the column of the setting.
    """

    def __init__(
        self, axes: Axes, ticks: Sequence[float], label: str, summary: pd.DataFrame, by: str
    ) -> None:
        self.axes, self.summary, self.by = axes, summary, by
        self.sweep = Sweep(axes, ticks, label, "")
        axes.set_xlim(-0.5, len(self.sweep.places) - 0.5)
        self._title, self._log = "", False
        self._labels: dict[str, Any] = {}

    def headline(self, title: str, measure: str, *, log: bool = False) -> None:
        """Set the title, the vertical axis, and whether its values span orders of magnitude."""
        self._title, self._log = title, log
        self.axes.set_ylabel(measure, fontsize=9, color=INK)

    def curve(
        self, label: str, colour: str, measure: str, *, dotted: bool = False, **point: str
    ) -> None:
        """The means of a measure with their band.

        Arguments:
            label: the entry in the legend; curves of one label share it.
            colour: the colour of line and band.
            measure: the name of the measure in the summary.
            dotted: whether it is the second of two searches.
            point: the values of the summary's columns that select its rows.
        """
        self.sweep.curve(self._of(measure, point), self.by, "_", colour)
        line = self.axes.lines[-1]
        self._labels.setdefault(label, line)
        if dotted:
            line.set(linestyle=_DOTTED, markerfacecolor="white")

    def paper(self, values: pd.DataFrame, colour: str = PAPER) -> None:
        """The paper's values, dashed."""
        self.sweep.paper(values, "_", colour)

    def level(self, value: float) -> None:
        """A line to compare with."""
        self.axes.axhline(value, color=QUIET, linewidth=0.8, zorder=0)

    def proved(self, **point: str) -> None:
        """Bars from the top: the fraction of tasks proved to have no answer, with their number."""
        of = self._of("proved infeasible", point).sort_values(self.by)
        if not (of["mean"] > 0).any():
            return
        places = [self.sweep.places[value] for value in of[self.by]]
        bars = self.axes.bar(
            places, -of["mean"], bottom=1, width=0.7, color=QUIET, alpha=0.35, zorder=0
        )
        for place, fraction, tasks in zip(places, of["mean"], of["tasks"], strict=True):
            if fraction > 0:
                self.axes.annotate(
                    f"{round(fraction * tasks)}",
                    (place, 1 - fraction),
                    xytext=(0, -2),
                    textcoords="offset points",
                    ha="center",
                    va="top",
                    fontsize=7.5,
                    color=INK,
                )
        asked = f"{point['criterion']}: " if "criterion" in point else ""
        self._labels[f"{asked}proved impossible"] = bars

    def finish(self, styles: Mapping[str, str] | None = None) -> None:
        """Write the title and the legend, with the meaning of line styles, above the chart."""
        entries = dict(self._labels)
        for label, style in (styles or {}).items():
            entries[label] = Line2D([], [], color=QUIET, linestyle=_STYLES[style])
        if self._log:
            # Linear below 1: a search that solves nothing is at 0.
            self.axes.set_yscale("symlog", linthresh=1.0)
            self.axes.set_ylim(bottom=0)
        columns = len(entries) if len(entries) < 6 else 3
        self.axes.legend(
            entries.values(),
            entries.keys(),
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            ncols=columns,
            fontsize=7.5,
            frameon=False,
            handlelength=1.8,
            columnspacing=1.0,
            borderaxespad=0.0,
        )
        lines = -(-len(entries) // columns)
        self.axes.set_title(self._title, fontsize=9.5, loc="left", color=INK, pad=10 + 12 * lines)

    def _of(self, measure: str, point: Mapping[str, str]) -> pd.DataFrame:
        of = self.summary[self.summary["measure"] == measure]
        for column, value in point.items():
            of = of[of[column] == value]
        return of
