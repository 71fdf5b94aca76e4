"""`cfopt init --example flights`: it runs as written, and its answers are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.commands import cf, change
from tests.datasets.test_flights import all_plans

from cfopt.app.config import read_config
from cfopt.app.job import load
from cfopt.datasets import flights
from cfopt.problems import MILP


@pytest.fixture
def config(tmp_path: Path) -> Path:
    done = cf("init", tmp_path / "york", "--example", "flights")
    assert done.exit_code == 0, done.output
    return tmp_path / "york" / "CONFIG.toml"


def test_the_example_says_what_the_data_set_says(config: Path) -> None:
    work = load(read_config(config, trusted=False))
    problem, known = work.pipeline.problem, flights.load()
    assert isinstance(problem, MILP)
    assert problem.decision_names == tuple(known.delays.columns)
    plans = all_plans()
    assert not any(problem.faults(plans))
    assert all(problem.faults(np.delete(plans, 0, axis=0) * 0))
    values = np.random.default_rng(0).normal(size=(20, 12))
    assert np.allclose(
        (problem.optimise(values) * values).sum(axis=1), (values @ plans.T).min(axis=1)
    )
    written, meant = work.contexts.features.limits(11), known.features.limits(11)
    assert work.contexts.features.scales == known.features.scales
    for name in ("lower", "upper"):  # those of the calendar do not matter: it is locked
        assert np.array_equal(getattr(written, name)[:9], getattr(meant, name)[:9])
    assert np.array_equal(written.immutable, meant.immutable)
    assert "2013-06-12" in map(str, work.contexts.labels or ())


@pytest.mark.slow
def test_what_the_example_answers_is_right(config: Path) -> None:
    change(config, 'label = "date"', 'label = "date"\nrows = [3, 4, 7]')
    change(config, "pictures = 4", "pictures = 0")
    change(config, 'costs = "delays.csv"', 'costs = "some.csv"')
    folder = config.parent
    delays = pd.read_csv(folder / "delays.csv").iloc[[3, 4, 7]]
    delays.to_csv(folder / "some.csv", index=False)
    done = cf("explain", config)
    assert done.exit_code == 0, done.output
    table = pd.read_parquet(folder / "results" / "explanations")
    known, new = flights.load().split()
    model, plans = flights.forest().fit(known.contexts, known.delays), all_plans()
    best = plans[(delays.to_numpy() @ plans.T).argmin(axis=1)]
    assert np.array_equal(np.stack(table["alternative"].to_list()), best)
    before, after = (
        table[[f"{name} {when}" for name in known.contexts.columns]].set_axis(
            known.contexts.columns, axis=1
        )
        for when in ("before", "after")
    )
    assert np.array_equal(before, new.contexts.loc[table["label"]])
    assert set(table["status"]) <= {"valid", "already valid", "proved infeasible"}
    for k in np.flatnonzero(table["valid"]):
        values = model.predict(after.iloc[[k]]) @ plans.T
        own = values[0, (plans == best[k]).all(axis=1)][0]
        assert own <= values.min() * (1 + 1e-6)
        assert table["optimal"].iloc[k]


def test_an_example_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    done = cf("init", tmp_path / "york", "--example", "flight")
    assert done.exit_code == 2
    assert "Did you mean 'flights'?" in done.output
    assert not (tmp_path / "york").exists()
