"""Compiled functions work where nothing can be kept of them, and compiling is nobody's time."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch

numba = pytest.importorskip("numba")
pytest.importorskip("treelite")
from sklearn.ensemble import RandomForestRegressor  # noqa: E402

import cfopt  # noqa: E402
import cfopt.trees.warm_up  # noqa: E402
from cfopt.problems import GridShortestPath  # noqa: E402
from cfopt.trees.compiled import compiled  # noqa: E402

#: Prints for how many kinds of arguments each function is compiled by a search, in a new process.
_COUNTED = """
import cfopt
from numba.core.dispatcher import Dispatcher
from cfopt.trees import bounds, check, kernels, spread, spread_check
from cfopt.trees.warm_up import warm_up
from tests.trees.test_compiled import explained

functions = {
    f"{room.__name__}.{name}": one
    for room in (bounds, check, kernels, spread, spread_check)
    for name, one in vars(room).items()
    if isinstance(one, Dispatcher) and not one.targetoptions.get("no_cpython_wrapper")
}
warm_up()
without_a_list = cfopt.search.TreeCells(max_decisions=1)
before = {name: list(one.signatures) for name, one in functions.items()}
explained()
explained(cfopt.Epsilon(0.1), search=without_a_list)
after = {name: list(one.signatures) for name, one in functions.items()}
print(sorted(name for name, found in before.items() if len(found) != 1 or after[name] != found))
"""


def explained(asked: cfopt.Criterion | None = None, **settings: Any) -> cfopt.Explanation:
    """A question behind a small forest, by default an absolute one."""
    rng = np.random.default_rng(0)
    problem = GridShortestPath(3, 3)
    x = rng.normal(size=(60, 3))
    costs = 3 + x @ rng.binomial(1, 0.5, (3, problem.num_costs)) / 2
    model = RandomForestRegressor(n_estimators=3, max_depth=3, random_state=0).fit(x, costs**2)
    pipeline = cfopt.Pipeline(model, problem)
    decided = pipeline.decide(torch.from_numpy(x))
    other = next(k for k in range(1, 60) if (decided[k] != decided[0]).any())
    criterion = cfopt.Absolute(decided[other : other + 1]) if asked is None else asked
    return cfopt.explain(x[:1], pipeline, criterion, **settings)


@pytest.mark.long
def test_a_search_compiles_nothing_that_was_not_compiled_before_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COUNTED], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_compiling_takes_nothing_of_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 0.0

        def __call__(self) -> float:
            return self.now

    clock = Clock()

    def compiling_for_an_hour() -> None:
        clock.now += 3600.0 * (clock.now == 0)  # the first time only

    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setattr(cfopt.trees.warm_up, "warm_up", compiling_for_an_hour)
    e = explained(time_limit=1.0)
    assert clock.now == 3600.0
    assert e.optimal.all()
    assert e.status == ("valid",)


def test_where_no_folder_can_be_written_each_process_compiles_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, asked = numba.njit, []

    def refusing(cache: bool = False, **settings: Any) -> Any:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return original(**settings)

    monkeypatch.setattr(numba, "njit", refusing)

    @compiled
    def double(x: float) -> float:
        return 2 * x

    monkeypatch.undo()
    assert asked == [True, False]
    assert double(1.5) == 3.0
