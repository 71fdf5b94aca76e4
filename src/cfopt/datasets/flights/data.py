"""The extract: 365 days of weather at three airports, and how late flights left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cfopt.datasets.flights.timetable import AIRPORTS, SLOTS, Timetable
from cfopt.errors import InputError
from cfopt.extras import require
from cfopt.question.features import Features

#: Made by `python -m cfopt.datasets.flights.make`.
EXTRACT = Path(__file__).with_name("flights.parquet")
#: What is known of an airport's weather: its unit, the most that it can be, and a usual change.
_WEATHER = {"humidity": ("%", 100.0, 15.0), "wind": ("mph", 30.0, 4.0), "rain": ("in", 3.0, 0.25)}
#: The same for each airport, by the name of its column.
WEATHER = {
    f"{what} at {airport} ({unit})": (upper, scale)
    for airport in AIRPORTS
    for what, (unit, upper, scale) in _WEATHER.items()
}
#: The day itself, which nobody can change.
CALENDAR = ("month", "weekday")
#: One day in this many is held out.
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Flights:
    """Days of which everything is known.

    Arguments:
        contexts: the weather from 6:00 to 21:59 at each airport (mean humidity, mean wind speed,
            total rain), the month and the weekday (1 is Monday), `(N, 11)`; the index is the date.
        delays: how many minutes late flights of each slot left, on average, `(N, 12)`.
    """

    contexts: pd.DataFrame
    delays: pd.DataFrame

    def __len__(self) -> int:
        return len(self.contexts)

    @property
    def problem(self) -> Timetable:
        """What is decided each day."""
        return Timetable()

    @property
    def features(self) -> Features:
        """What the weather may be, and which changes count alike; the day itself is locked."""
        return Features(
            names=[*WEATHER, *CALENDAR],
            scale=[*(scale for _, scale in WEATHER.values()), 1.0, 1.0],
            lower=dict.fromkeys(WEATHER, 0.0),
            upper={name: upper for name, (upper, _) in WEATHER.items()},
            immutable=CALENDAR,
        )

    def split(self, fold: int = 0) -> tuple[Flights, Flights]:
        """Days to learn from, and every fifth day, which is held out.

        Arguments:
            fold: which of the five ways, from 0.
        """
        if fold not in range(FOLDS):
            raise InputError(f"split needs a fold from 0 to {FOLDS - 1}, got {fold!r}.")
        out = np.arange(len(self)) % FOLDS == fold
        return self._days(~out), self._days(out)

    def _days(self, which: np.ndarray) -> Flights:
        return Flights(self.contexts[which], self.delays[which])


def load() -> Flights:
    """The days of 2013 on which the weather is known and flights left in every slot.

    Source and licence of the data are in README.md beside this file.
    """
    require("The data of the flights", "cli", "pyarrow")
    # In this thread: whoever serves the data may fork its process afterwards.
    days = pd.read_parquet(EXTRACT, use_threads=False).set_index("date").dropna()
    return Flights(days[[*WEATHER, *CALENDAR]].astype(np.float64), days[list(SLOTS)])
