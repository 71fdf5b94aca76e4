"""The measures of the field as a table that is folded away: for those who compare methods."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

#: What the page shows anyway.
_SHOWN_ELSEWHERE = "outcome"


@dataclass(frozen=True)
class Measure:
    """A line of the table.

    Arguments:
        group: the kind of measure, where it differs from the line above; else "".
        name: the measure.
        rows: the number of rows in which it could be measured.
        values: its mean, its median and its 95% quantile, as printed.
    """

    group: str
    name: str
    rows: int
    values: tuple[str, str, str]


def measure_lines(measures: pd.DataFrame | None) -> tuple[Measure, ...]:
    """What `evaluate` found, without what could not be measured in any row.

    Arguments:
        measures: its table; None if nothing was measured.
    """
    if measures is None:
        return ()
    lines: list[Measure] = []
    group = ""
    columns = ["group", "measure", "rows", "mean", "median", "95%"]
    for kind, name, rows, *values in measures.reset_index()[columns].itertuples(index=False):
        if kind == _SHOWN_ELSEWHERE or not rows:
            continue
        mean, median, high = map(_printed, values)
        head = kind.capitalize() if kind != group else ""
        lines.append(Measure(head, name, int(rows), (mean, median, high)))
        group = kind
    return tuple(lines)


def _printed(value: float) -> str:
    if not math.isfinite(value):
        return "infinite" if value > 0 else "?"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
