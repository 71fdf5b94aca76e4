"""Means with 95% intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype
from scipy.stats import binomtest, t

#: The lowest and the highest of the means of single seeds.
SEEDS = ("lowest seed", "highest seed")


def summarise(rows: pd.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """The mean of each value at each point, with a 95% interval of it.

    The interval is Student's; of what is true or false, such as whether a task has an answer, it is
    Wilson's, which stays between 0 and 1, and says something where all tasks have one.

    Rows without a value (NaN), such as the loss of a task without an answer, are left out of its
    mean; `count` says how many are left. Of a single row the interval is unknown (NaN).

    Arguments:
        rows: one for each task.
        keys: the columns that distinguish points.
        values: the columns to average.
    """
    found = []
    for point, group in rows.groupby(list(keys), sort=False, dropna=False):
        named = dict(zip(keys, point, strict=True))
        for value in values:
            known = group[value].dropna()
            mean, low, high = _interval(known)
            found.append(
                {
                    **named,
                    "measure": value,
                    "tasks": len(group),
                    "count": len(known),
                    "mean": mean,
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(found)


def between_seeds(rows: pd.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """The lowest and the highest of the means that single seeds have at each point.

    Arguments:
        rows: one for each task, with its seed.
        keys, values: as for `summarise`.
    """
    columns = [*keys, "seed", *values]
    long = rows[columns].melt([*keys, "seed"], var_name="measure", value_name="mean")
    long["mean"] = long["mean"].astype(np.float64)
    by = [*keys, "measure"]
    means = long.groupby([*by, "seed"], sort=False, dropna=False)["mean"].mean()
    ends = means.groupby(level=by, sort=False, dropna=False).agg(["min", "max"])
    return ends.set_axis(list(SEEDS), axis=1).reset_index()


def _interval(known: pd.Series[float]) -> tuple[float, float, float]:
    if known.empty:
        return (np.nan,) * 3
    values = known.to_numpy(dtype=np.float64)
    mean = float(values.mean())
    if infer_dtype(known) == "boolean":
        share = binomtest(int(values.sum()), len(values)).proportion_ci(method="wilson")
        return mean, float(share.low), float(share.high)
    if len(values) == 1:
        return mean, np.nan, np.nan
    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half
