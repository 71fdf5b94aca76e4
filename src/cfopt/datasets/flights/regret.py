"""What the predictors are worth: minutes lost a day on days that they have not seen."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cfopt._typing import Array
from cfopt.datasets.flights.data import FOLDS, Flights
from cfopt.datasets.flights.models import MODELS

#: The plan that would have been best on average over the days to learn from, every day.
SAME = "always the same plan"


def held_out_regret(flights: Flights) -> pd.DataFrame:
    """How many minutes a day the plans of each predictor lose against the best plan in hindsight.

        mean over days of <delays, y> - min_y' <delays, y'>

    One row for each predictor and one for the plan that never changes; a column for each of the
    five ways to hold out every fifth day, and their mean.

    Arguments:
        flights: all days.
    """
    lost: dict[str, list[float]] = {name: [] for name in (*MODELS, SAME)}
    for fold in range(FOLDS):
        known, new = flights.split(fold)
        for name, make in MODELS.items():
            model = make().fit(known.contexts, known.delays)
            lost[name].append(_regret(new, model.predict(new.contexts)))
        usual = known.delays.to_numpy().mean(axis=0)
        lost[SAME].append(_regret(new, np.tile(usual, (len(new), 1))))
    table = pd.DataFrame.from_dict(lost, orient="index")
    table.columns = pd.Index([f"fold {fold}" for fold in range(FOLDS)])
    return table.assign(mean=table.mean(axis=1))


def _regret(flights: Flights, predicted: Array) -> float:
    plans = flights.problem.decisions()
    assert plans is not None  # there are few
    values = flights.delays.to_numpy() @ plans.numpy().T
    chosen = (predicted @ plans.numpy().T).argmin(axis=1)
    return float((values[np.arange(len(values)), chosen] - values.min(axis=1)).mean())
