"""What the experiments of a study found, read from their files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cfopt_paper.summary import summarise


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95% interval, and the number of tasks; NaN where it is unknown."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def negative(self) -> Estimate:
        """The same with the other sign."""
        return Estimate(-self.mean, -self.high, -self.low, self.count)

    @property
    def deciding(self) -> float:
        """The number of tasks for which such a mean would have an interval on one side of 0.

        With the spread that was measured, an interval shrinks as `1 / sqrt(n)`; NaN if unknown.
        """
        if not self.count or not self.mean:
            return np.nan
        return float(np.ceil(self.count * ((self.high - self.low) / (2 * self.mean)) ** 2))

    def __str__(self) -> str:
        if np.isnan(self.low):
            return f"{self.mean:.3g}"
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


class Findings:
    """The rows and the summary of one experiment.

    Arguments:
        folder: the folder of the study.
        name: the name of the experiment.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name

    @property
    def exist(self) -> bool:
        """Whether the experiment was finished."""
        return (self.folder / f"{self.name}.json").exists()

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row for each task."""
        return pd.read_csv(self.folder / f"{self.name}.csv")

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Mean and interval at each point."""
        return pd.read_csv(self.folder / f"{self.name}-summary.csv")

    def curve(self, measure: str, by: str, **fixed: Any) -> pd.DataFrame:
        """The points of one curve, in the order of its setting."""
        chosen = _where(self.summary, measure=measure, **fixed)
        return chosen.sort_values(by).set_index(by)

    def estimate(self, measure: str, **point: Any) -> Estimate:
        """One point; NaN if there is none."""
        found = _where(self.summary, measure=measure, **point)
        if found.empty:
            return Estimate(np.nan, np.nan, np.nan, 0)
        one = found.iloc[0]
        count = 0 if pd.isna(one["count"]) else int(one["count"])
        return Estimate(one["mean"], one["low"], one["high"], count)

    def difference(
        self, measure: str, by: str, first: float, second: float, **fixed: Any
    ) -> Estimate:
        """By how much a value is higher at one value of a setting than at another, task by task.

        Arguments:
            measure: the value.
            by: the setting.
            first, second: its values; tasks that lack the measure at either are left out.
            fixed: the other columns that distinguish points.
        """
        rows = _where(self.rows, **fixed)
        at = {k: rows[rows[by] == k].set_index("task")[measure] for k in (first, second)}
        change = (at[second] - at[first]).dropna().rename("change")
        if change.empty:
            return Estimate(np.nan, np.nan, np.nan, 0)
        whole = summarise(change.to_frame().assign(all=0), ["all"], ["change"]).iloc[0]
        return Estimate(whole["mean"], whole["low"], whole["high"], int(whole["count"]))


def _where(table: pd.DataFrame, **fixed: Any) -> pd.DataFrame:
    for column, value in fixed.items():
        table = table[table[column] == value]
    return table
