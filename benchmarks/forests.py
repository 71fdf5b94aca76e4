"""Tree ensembles behind the 5x5 grid, and absolute questions about them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import Tensor
from xgboost import XGBRegressor

import cfopt
from cfopt.problems import GridShortestPath
from cfopt.search import TreeCells

_CONTEXTS = 1000
#: The alternative of a context is the decision of the context so many places further.
_FURTHER = 100


@dataclass(frozen=True)
class Bar:
    """What is promised of an ensemble: every question is answered, and this.

    Arguments:
        proved: the least part of the answers that are proved to be the closest.
        median, largest: the seconds that a question may take.
    """

    proved: float = 0.0
    median: float = math.inf
    largest: float = math.inf

    def __str__(self) -> str:
        parts = ["all answered"]
        if self.proved:
            parts.append(f"{self.proved:.0%} proved")
        if self.median < math.inf:
            parts.append(f"median at most {self.median:g} s")
        if self.largest < math.inf:
            parts.append(f"none above {self.largest:g} s")
        return ", ".join(parts)

    def kept(self, rows: int, answered: int, proved: int, seconds: list[float]) -> bool:
        """Whether so many questions, and their seconds, keep the promise."""
        enough = answered == rows and proved >= self.proved * rows
        return enough and median(seconds) <= self.median and max(seconds) <= self.largest


@dataclass(frozen=True)
class Setting:
    """An ensemble to be trained, and how much is asked of it.

    Arguments:
        name: what it is called in tables.
        features: the length of a context.
        rows: how many questions are asked.
        seconds: after which a row ends with what it has.
        model: makes the regressor.
        bar: what is promised.
    """

    name: str
    features: int
    rows: int
    seconds: float
    model: Callable[[], Any]
    bar: Bar = Bar()


def _forest(trees: int, depth: int, features: int, rows: int, bar: Bar) -> Setting:
    return Setting(
        f"forest, {trees} trees of depth {depth}, {features} features",
        features,
        rows,
        60.0,
        lambda: RandomForestRegressor(
            n_estimators=trees, max_depth=depth, random_state=0, n_jobs=1
        ),
        bar,
    )


def _boosted(strategy: str, trees: str) -> Setting:
    return Setting(
        f"XGBoost, 200 rounds, {trees}, 12 features",
        12,
        3,
        20.0,
        lambda: XGBRegressor(
            n_estimators=200, max_depth=4, n_jobs=1, tree_method="hist", multi_strategy=strategy
        ),
    )


SETTINGS = (
    _forest(20, 4, 5, rows=12, bar=Bar(median=0.2)),
    _forest(50, 5, 5, rows=12, bar=Bar(median=0.5)),
    _forest(100, 8, 5, rows=6, bar=Bar(proved=1.0, largest=15.0)),
    _forest(100, 6, 10, rows=6, bar=Bar(proved=0.5)),
    _boosted("multi_output_tree", "one tree each"),
    _boosted("one_output_per_tree", "one tree each and cost"),
)


@dataclass(frozen=True)
class ForestTasks:
    """The grid behind a trained ensemble.

    Arguments:
        setting: what was trained.
        model: the regressor itself.
        pipeline: the pipeline, with the grid.
        contexts: those that it was trained on, `(1000, p)`.
        decisions: what the pipeline decides there, `(1000, m)`.
    """

    setting: Setting
    model: Any
    pipeline: cfopt.Pipeline
    contexts: Tensor
    decisions: Tensor

    @staticmethod
    def of(setting: Setting) -> ForestTasks:
        """Train on costs that are powers of sums of features, with noise, as in PyEPO."""
        problem = GridShortestPath(5, 5)
        rng = np.random.default_rng(0)
        size = setting.features
        mask = rng.binomial(1, 0.5, (problem.num_costs, size))
        x = rng.normal(size=(_CONTEXTS, size)).astype(np.float32).astype(np.float64)
        costs = (x @ mask.T / np.sqrt(size) + 3) ** 4 / 3.5**4 + 1
        costs *= rng.uniform(0.8, 1.2, costs.shape)
        model = setting.model().fit(x, costs)
        pipeline = cfopt.Pipeline(model, problem)
        contexts = torch.from_numpy(x)
        return ForestTasks(setting, model, pipeline, contexts, pipeline.decide(contexts))

    def alternative(self, rows: slice) -> Tensor:
        """The decisions that are asked about."""
        return self.decisions[rows.start + _FURTHER : rows.stop + _FURTHER]

    def explain(
        self, rows: slice, search: cfopt.Search, reference: bool = True
    ) -> cfopt.Explanation:
        """Absolute questions, with the training data as reference or without."""
        return cfopt.explain(
            self.contexts[rows],
            self.pipeline,
            cfopt.Absolute(self.alternative(rows)),
            search=search,
            features=cfopt.Features(scale=[1.0] * self.contexts.shape[1]),
            reference=self.contexts if reference else None,
        )


def warm_up() -> None:
    """Compile what searches and proofs need, on ensembles of both layouts of leaves."""
    for model in (
        RandomForestRegressor(n_estimators=3, max_depth=3, random_state=0),
        XGBRegressor(n_estimators=2, max_depth=2, n_jobs=1),
    ):
        tiny = Setting("tiny", 3, 2, 60.0, lambda model=model: model)
        ForestTasks.of(tiny).explain(slice(0, tiny.rows), TreeCells())


def seconds_of(work: Callable[[], Any]) -> tuple[Any, float]:
    """What some work gives, and the seconds of a core that it takes."""
    start = process_time()
    found = work()
    return found, process_time() - start
