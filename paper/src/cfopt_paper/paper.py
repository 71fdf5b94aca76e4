"""The values that the paper's figures show."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

from cfopt.errors import InputError
from cfopt.names import nearest

SOURCE = "Vivier-Ardisson, Forel, Parmentier and Vidal, CF-OPT, ICML 2024; read off the plots"


@cache
def _figures() -> pd.DataFrame:
    return pd.read_csv(Path(__file__).parent / "paper.csv", comment="#")


def paper_values(figure: str, series: str) -> pd.DataFrame:
    """One curve of a figure: the columns x and value.

    Arguments:
        figure: its title in `paper.csv`.
        series: the curve.
    """
    figures = _figures()
    if figure not in set(figures["figure"]):
        raise InputError(nearest("figure", figure, figures["figure"].unique()))
    of = figures[figures["figure"] == figure]
    if series not in set(of["series"]):
        raise InputError(nearest("series", series, of["series"].unique()))
    return of.loc[of["series"] == series, ["x", "value"]].reset_index(drop=True)
