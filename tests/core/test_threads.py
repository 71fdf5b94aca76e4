"""Solvers and models are asked by one thread at a time, and the same input has the same answer."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")
pytest.importorskip("treelite")
from sklearn.ensemble import RandomForestRegressor
from tests.pipelines import another, normal

import cfopt
from cfopt._typing import Array
from cfopt.pipeline import Adapted
from cfopt.pipeline.eval_mode import eval_mode
from cfopt.problems import (
    MILP,
    Finite,
    GridShortestPath,
    Knapsack,
    Oracle,
    Problem,
    ShortestPath,
    TerrainShortestPath,
)
from cfopt.search import TreeCells
from cfopt.search.fallback import Fallback
from cfopt.trees.importers import read_ensemble
from cfopt.trees.predictor import TreePredictor

PLANS = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1.0]])


class Watched:
    """A function that notes how many threads are in it, and lets others in if they may come."""

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call, self.most, self.threads = call, 0, set[int]()
        self._inside, self._waits, self._company = 0, 30, threading.Event()

    def __call__(self, given: Any) -> Any:
        self._inside += 1
        self.most = max(self.most, self._inside)
        self.threads.add(threading.get_ident())
        if self._inside > 1:
            self._company.set()
        elif self._waits > 0 and threading.current_thread() is not threading.main_thread():
            self._waits -= 1
            self._company.wait(0.02)  # no longer than it takes others that are not kept out
        try:
            return self.call(given)
        finally:
            self._inside -= 1


class Own(Problem):
    """A problem of a user's making, whose author has thought of one thread."""

    binary = True

    def __init__(self, choose: Callable[[Array], Array]) -> None:
        self.num_costs, self.choose = 4, choose

    def optimise(self, prices: Array) -> Array:
        return np.stack([self.choose(row) for row in prices])

    @staticmethod
    def faults(decisions: Array) -> list[str]:
        return ["" if any((one == y).all() for one in PLANS) else "is no plan" for y in decisions]


def best_plan(costs: Array) -> Array:
    best: Array = PLANS[(PLANS @ costs).argmin()]
    return best


def forest(costs: int = 4) -> tuple[RandomForestRegressor, Array]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    y = 4 + x @ rng.normal(size=(3, costs)) + rng.uniform(0, 0.3, (80, costs))
    return RandomForestRegressor(6, max_depth=4, random_state=0).fit(x, y), x


def network(activation: torch.nn.Module, costs: int) -> torch.nn.Sequential:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), activation, torch.nn.Linear(8, costs))
    model[2].weight.data *= 3
    model[2].bias.data += 4
    return model.double()


def steps_of_waves(costs: int) -> Callable[[Array], Array]:
    """A function without a gradient."""
    slopes = np.random.default_rng(2).normal(size=(3, costs))
    return lambda x: np.round(4 + np.sin(x @ slopes), 1)


FAMILIES: dict[str, Callable[[int], Any]] = {
    "affine": lambda costs: network(torch.nn.Identity(), costs),
    "forest": lambda costs: forest(costs)[0],
    "ReLU network": lambda costs: network(torch.nn.ReLU(), costs),
    "smooth network": lambda costs: network(torch.nn.Tanh(), costs),
    "function": steps_of_waves,
}
COVER = np.random.default_rng(3).uniform(0, 1, (3, 5))
RING = [(k, (k + step) % 8) for step in (1, 3) for k in range(8)]
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "list": lambda: Finite(PLANS),
    "large grid": lambda: GridShortestPath(6, 6),
    "roads": lambda: ShortestPath(RING, 0, 4, directed=False),
    "map": lambda: TerrainShortestPath(3, 3, neighbours=4),
    "knapsack": lambda: Knapsack([2.0, 3.0, 4.0, 5.0], 7.0),
    "linear program": lambda: MILP(COVER, 0.9, np.inf, upper=1),
    "mixed-integer program": lambda: MILP(
        COVER, 0.9, np.inf, upper=1, integer=[True, True, True, False, False]
    ),
    "oracle": lambda: Oracle(best_plan, 4, binary=True),
}


@pytest.mark.parametrize("criterion", ["Absolute", "Epsilon", "a wish"])
@pytest.mark.parametrize("kind", [Own, lambda choose: Oracle(choose, 4, binary=True)])
def test_solver_and_model_are_asked_by_one_thread_at_a_time(
    kind: Callable[[Any], Problem], criterion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cfopt.search.tree_cells._QUICK", 0.0)  # threads from the first row on
    grown, x = forest()
    solver, model = Watched(best_plan), Watched(grown.predict)
    predictor = Adapted(model, TreePredictor(read_ensemble(grown)), "forest")
    pipeline = cfopt.Pipeline(predictor, kind(solver))
    contexts = torch.from_numpy(x[:8])
    asked = {
        "Absolute": lambda: cfopt.Absolute(pipeline.decide(torch.from_numpy(x[8:16]))),
        "Epsilon": lambda: cfopt.Epsilon(0.2),
        "a wish": lambda: cfopt.Absolute(cfopt.Uses(0) & cfopt.Uses(3)),
    }[criterion]()
    # What one finds is verified while it goes on with other rows.
    search = Fallback((TreeCells(contexts=torch.from_numpy(x[20:40]), threads=3), TreeCells()))
    e = cfopt.explain(contexts, pipeline, asked, search=search)
    assert e.valid.any()
    assert len(solver.threads) > 1
    assert len(model.threads) > 1 or criterion != "a wish"  # leaves may say enough
    assert solver.most == model.most == 1


@pytest.mark.parametrize(
    ("family", "problem"),
    [
        *(("affine", problem) for problem in PROBLEMS),
        *(("forest", problem) for problem in PROBLEMS),
        ("ReLU network", "list"),
        ("smooth network", "knapsack"),
        ("smooth network", "list"),
        ("function", "knapsack"),
        ("function", "list"),
    ],
)
def test_threads_the_batch_and_limits_that_are_not_reached_change_no_answer(
    family: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cfopt.search.tree_cells._QUICK", 0.0)
    solver = PROBLEMS[problem]()
    pipeline = cfopt.Pipeline(FAMILIES[family](solver.num_costs), solver)
    x = normal(2, 3, seed=3)
    wanted = another(pipeline, x)

    def ask(rows: list[int], threads: int, **more: Any) -> cfopt.Explanation:
        torch.set_num_threads(threads)  # as many rows are searched behind trees at once
        return cfopt.explain(x[rows], pipeline, cfopt.Absolute(wanted[rows]), **more)

    before = torch.get_num_threads()
    try:
        plain = ask([0, 1], 1)
        others = ask([1, 0], 4, time_limit=1e6)[[1, 0]]
        alone = cfopt.Explanation.concat([ask([row], 2) for row in range(2)])
    finally:
        torch.set_num_threads(before)
    assert plain.valid.all()
    for other in (others, alone):
        assert other.status == plain.status
        for name in ("x", "loss", "bound", "decision"):
            given, expected = getattr(other, name), getattr(plain, name)
            assert torch.allclose(given, expected, rtol=1e-9, atol=1e-9, equal_nan=True), name


def test_a_copy_shares_the_guard_of_its_solver_and_a_pickled_one_has_its_own() -> None:
    problem = Own(best_plan)
    assert copy.copy(problem).guard is problem.guard
    assert problem.until(1e12).guard is problem.guard
    assert copy.deepcopy(problem).guard is not problem.guard
    assert pickle.loads(pickle.dumps(problem)).guard is not problem.guard


def test_a_model_that_two_need_in_eval_mode_is_given_back_by_the_last() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
    model[0].eval()
    first, second = ExitStack(), ExitStack()
    first.enter_context(eval_mode(model))
    second.enter_context(eval_mode(model[1]))
    first.close()
    assert (model.training, model[1].training) == (True, False)
    second.close()
    assert [module.training for module in model.modules()] == [True, False, True]
