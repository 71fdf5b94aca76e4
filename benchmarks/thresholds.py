"""Answers at the thresholds of tree ensembles: does the library itself see what they rest on?

The nearest context of a cell is beside a threshold, where a comparison by `<` instead of `<=`, or
in another precision, goes the other way. Each answer is predicted by the library's own `predict`,
and judged over the list of all decisions; points on both sides of thresholds are predicted, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lightgbm import LGBMRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.multioutput import MultiOutputRegressor
from xgboost import XGBRegressor

import cfopt
from benchmarks.forests import seconds_of, warm_up
from cfopt.problems import GridShortestPath
from cfopt.running.threads import of_torch
from cfopt.search import TreeCells
from cfopt.trees import TreeEnsemble, read_ensemble

_FEATURES, _CONTEXTS, _BATCH = 4, 400, 100
#: For a row, which takes a hundredth of that unless the library contradicts the trees.
_SECONDS = 2.0
#: Points beside thresholds, for each answer.
_PROBES = 10
#: Rounded sums in float64, and those of XGBoost in float32, as fractions of the largest cost.
_ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-6}
#: What verification grants, as a fraction of the terms that are compared, and for the rounding of
#: costs, as a fraction of the largest of them, before or after, in units of the last place.
_TOLERANCE, _LAST_PLACES = 1e-6, 4

MODELS: dict[str, Callable[[], Any]] = {
    "random forest": lambda: RandomForestRegressor(10, max_depth=4, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(10, max_depth=4, random_state=0),
    "gradient boosting": lambda: MultiOutputRegressor(
        GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0)
    ),
    "histogram boosting": lambda: MultiOutputRegressor(
        HistGradientBoostingRegressor(max_iter=5, max_depth=3, random_state=0)
    ),
    "XGBoost, a tree for each cost": lambda: XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1),
    "XGBoost, trees for all costs": lambda: XGBRegressor(
        n_estimators=10, max_depth=4, n_jobs=1, multi_strategy="multi_output_tree"
    ),
    "LightGBM": lambda: MultiOutputRegressor(
        LGBMRegressor(n_estimators=5, max_depth=3, n_jobs=1, verbose=-1)
    ),
}


@dataclass
class _Count:
    """What was seen of one model in contexts of one dtype."""

    asked: int = 0
    answers: int = 0
    proved: int = 0
    infeasible: int = 0
    moved: int = 0
    beside: int = 0
    probes: int = 0
    costs_differ: int = 0
    criterion_fails: int = 0
    unanswered: int = 0

    @property
    def mismatches(self) -> int:
        return self.costs_differ + self.criterion_fails + self.unanswered


def check(answers: int, seed: int = 0) -> list[dict[str, Any]]:
    """At least so many answers of all models together, in contexts of both precisions."""
    kinds = [(name, dtype) for name in MODELS for dtype in (np.float64, np.float32)]
    share = -(-answers // len(kinds))
    with of_torch(1):
        warm_up()
        return [_check(name, np.dtype(dtype), share, seed) for name, dtype in kinds]


def _check(name: str, dtype: np.dtype[Any], answers: int, seed: int) -> dict[str, Any]:
    subject, count = _Subject(MODELS[name](), dtype, seed), _Count()

    def work() -> None:
        while count.answers < answers and count.asked < 10 * answers + _BATCH:
            subject.ask(min(_BATCH, answers - count.answers), count)

    _, seconds = seconds_of(work)
    return {
        "model": name,
        "contexts": str(dtype),
        "answers": count.answers,
        "proved": count.proved,
        "proved infeasible": count.infeasible,
        "features moved": count.moved,
        "to a threshold": count.beside,
        "points at thresholds": count.probes,
        "costs differ": count.costs_differ,
        "criterion fails": count.criterion_fails,
        "unanswered": count.unanswered,
        "mismatches": count.mismatches,
        "ms/answer": 1e3 * seconds / max(1, count.answers),
    }


class _Subject:
    """A trained model with a small grid, and questions about random contexts."""

    def __init__(self, model: Any, dtype: np.dtype[Any], seed: int) -> None:
        self.dtype, self.rng = dtype, np.random.default_rng([seed, dtype.itemsize])
        problem = GridShortestPath(3, 3)
        listed = problem.decisions(100)
        assert listed is not None
        self.listed = np.asarray(listed, dtype=np.float64)
        mask = self.rng.binomial(1, 0.5, (problem.num_costs, _FEATURES))
        x = self.rng.normal(size=(_CONTEXTS, _FEATURES))
        costs = (x @ mask.T / np.sqrt(_FEATURES) + 3) ** 2 / 9 + 1
        self.model = model.fit(x, costs * self.rng.uniform(0.7, 1.3, costs.shape))
        self.ensemble: TreeEnsemble = read_ensemble(self.model)
        self.edges = self.ensemble.thresholds
        self.pipeline = cfopt.Pipeline(self.model, problem)

    def ask(self, rows: int, count: _Count) -> None:
        """Ask relative questions about new contexts, and count what the library says of answers."""
        x0 = self.rng.normal(size=(rows, _FEATURES)).astype(self.dtype)
        decided = self.pipeline.decide(torch.from_numpy(x0)).double().numpy()
        best = (decided @ self.listed.T).argmax(axis=1)  # of paths with equally many arcs
        other = (best + self.rng.integers(1, len(self.listed), rows)) % len(self.listed)
        found = cfopt.explain(
            torch.from_numpy(x0),
            self.pipeline,
            cfopt.Relative(torch.from_numpy(self.listed[other])),
            search=TreeCells(seconds_a_row=_SECONDS),
        )
        valid = found.valid.numpy()
        infeasible = sum(one is cfopt.Status.PROVED_INFEASIBLE for one in found.status)
        count.asked += rows
        count.answers += int(valid.sum())
        count.proved += int((found.optimal & found.valid).sum())
        count.infeasible += infeasible
        count.unanswered += rows - int(valid.sum()) - infeasible
        x = found.x.numpy()[valid]
        moved = x != x0[valid]
        count.moved += int(moved.sum())
        count.beside += int((moved & self._beside_threshold(x)).sum())
        probes = self._probes(x)
        count.probes += len(probes)
        count.costs_differ += int(self._differs(x).sum() + self._differs(probes).sum())
        count.criterion_fails += int(self._fails(x, other[valid], best[valid], x0[valid]).sum())

    def _predict(self, x: np.ndarray) -> np.ndarray:
        """What the library itself predicts: `(B, p) -> (B, n)` in float64."""
        return np.asarray(self.model.predict(x.astype(np.float64)), dtype=np.float64)

    def _differs(self, x: np.ndarray) -> np.ndarray:
        """Where the library's costs are not the sums of the leaves that were read: `(B,)`."""
        own, theirs = self.ensemble.predict(x), self._predict(x)
        single = self.ensemble.precision > 0
        rounding = _ROUNDING[np.dtype(np.float32 if single else np.float64)]
        largest = np.abs(theirs).max(axis=1, keepdims=True)
        differs: np.ndarray = (np.abs(own - theirs) > rounding * largest).any(axis=1)
        return differs

    def _fails(
        self, x: np.ndarray, other: np.ndarray, best: np.ndarray, x0: np.ndarray
    ) -> np.ndarray:
        """Where the alternative costs more than the factual decision, or that was not best: `(B,)`.

        Arguments:
            x, x0: answers and factual contexts, `(B, p)`.
            other, best: the numbers of alternative and factual decisions, `(B,)`.
        """
        costs, difference = self._predict(x), self.listed[other] - self.listed[best]
        terms = costs * difference
        costs0 = self._predict(x0)
        largest = np.abs(np.concatenate([costs, costs0], axis=1)).max(axis=1)
        rounding = _LAST_PLACES * np.finfo(self.dtype).eps * largest
        rounding *= np.abs(difference).sum(axis=1)
        worse = terms.sum(axis=1) > _TOLERANCE * np.abs(terms).sum(axis=1) + rounding
        before = costs0 @ self.listed.T
        least = before.min(axis=1)
        fails: np.ndarray = worse | (
            before[np.arange(len(x)), best] > least + _TOLERANCE * np.abs(least)
        )
        return fails

    def _beside_threshold(self, x: np.ndarray) -> np.ndarray:
        """Whether the numbers of the dtype beside a feature are in another cell: `(B, p)`."""
        found = np.empty(x.shape, dtype=bool)
        for f, edges in enumerate(self.edges):
            cells = [
                np.searchsorted(edges, np.nextafter(x[:, f], towards).astype(np.float64))
                for towards in (self.dtype.type(-np.inf), self.dtype.type(np.inf))
            ]
            found[:, f] = cells[0] != cells[1]
        return found

    def _probes(self, x: np.ndarray) -> np.ndarray:
        """Answers with some features put at a threshold, or a number beside it: `(P, p)`."""
        points = np.repeat(x, _PROBES, axis=0)
        for f, edges in enumerate(self.edges):
            if not len(edges):
                continue
            at = self.rng.choice(edges, len(points)).astype(self.dtype)
            step = self.rng.integers(-1, 2, len(points))
            at = np.where(step < 0, np.nextafter(at, self.dtype.type(-np.inf)), at)
            at = np.where(step > 0, np.nextafter(at, self.dtype.type(np.inf)), at)
            points[:, f] = np.where(self.rng.random(len(points)) < 0.5, at, points[:, f])
        return points
