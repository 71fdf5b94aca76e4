"""Tiny random problems with every plan listed, wishes about them, and predictors of each family."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.multioutput import MultiOutputRegressor

import cfopt
from cfopt.problems import MILP, Finite, GridShortestPath, Knapsack

Array = NDArray[np.float64]
FAMILIES = ("affine", "forest", "boosted", "relu", "tanh", "function")


def _finite(rng: np.random.Generator) -> tuple[cfopt.Problem, Array]:
    count, columns = int(rng.integers(3, 9)), int(rng.integers(3, 5))
    listed = rng.integers(0, 2, (count, columns)).astype(float)
    listed = np.unique(np.concatenate([listed, np.eye(columns)[:3]]), axis=0)
    return Finite(listed, str(rng.choice(["min", "max"]))), listed


def _binary(columns: int) -> Array:
    return np.array([*itertools.product([0.0, 1.0], repeat=columns)])


def _program(rng: np.random.Generator) -> tuple[cfopt.Problem, Array]:
    columns, listed = _binary(3), np.empty((0, 3))
    while len(listed) < 3:
        matrix = rng.integers(-1, 3, (2, 3)).astype(float)
        low = np.array([rng.choice([-np.inf, 1.0]), -np.inf])
        high = np.maximum(low, matrix.clip(0).sum(axis=1) - rng.integers(0, 2, 2))
        values = columns @ matrix.T
        listed = columns[((values >= low) & (values <= high)).all(axis=1)]
    sense = str(rng.choice(["min", "max"]))
    return MILP(matrix, low, high, upper=1.0, integer=True, sense=sense), listed


def _knapsack(rng: np.random.Generator) -> tuple[cfopt.Problem, Array]:
    weights, sets = rng.integers(1, 5, (1, 3)).astype(float), _binary(3)
    capacity = float(rng.integers(weights.max(), weights.sum() + 1))
    return Knapsack(weights, [capacity]), sets[sets @ weights[0] <= capacity]


def _grid(rng: np.random.Generator) -> tuple[cfopt.Problem, Array]:
    problem, cols = GridShortestPath(2, 3), 3
    paths = []
    for turn in range(cols):  # along the upper row to this column, then along the lower one
        nodes = [*range(turn + 1), *range(cols + turn, 2 * cols)]
        taken = set(itertools.pairwise(nodes))
        paths.append([float(arc in taken) for arc in problem.arcs])
    return problem, np.array(paths)


PROBLEMS: tuple[Callable[[np.random.Generator], tuple[cfopt.Problem, Array]], ...]
PROBLEMS = (_finite, _finite, _program, _knapsack, _grid)


def draw_wish(
    rng: np.random.Generator, listed: Array, several: bool
) -> tuple[cfopt.Foil, list[int]]:
    """A wish that some plans grant, and which."""
    while True:
        some = rng.choice(listed.shape[1], 2 if several else 1, replace=False).tolist()
        taken = listed[:, some].sum(axis=1)
        kind = int(rng.integers(4 if several else 2))
        foil, met = (
            (cfopt.Uses(*some), taken == len(some)),
            (cfopt.Avoids(*some), taken == 0),
            (cfopt.AtLeast(1, some), taken >= 1),
            (cfopt.AtMost(1, some), taken <= 1),
        )[kind]
        if met.any():
            return foil, np.flatnonzero(met).tolist()


def draw_model(rng: np.random.Generator, family: str, known: Array, outputs: int) -> Any:
    weight = rng.normal(size=(outputs, known.shape[1])).round(1)
    bias = (rng.normal(size=outputs) + rng.choice([0.0, 2.0])).round(1)
    if family == "function":
        return lambda x: (
            np.asarray(x) @ weight.T + bias + np.sin(2 * np.asarray(x) @ weight[::-1].T)
        )
    if family in ("forest", "boosted"):
        values = known @ weight.T + bias + (known[:, :1] > 0.3) * rng.normal(size=outputs)
        state = int(rng.integers(10**6))
        if family == "forest":
            return RandomForestRegressor(3, max_depth=3, random_state=state).fit(known, values)
        boosted = GradientBoostingRegressor(n_estimators=3, max_depth=2, random_state=state)
        return MultiOutputRegressor(boosted.set_params(learning_rate=0.5)).fit(known, values)
    if family == "affine":
        return _linear(weight, bias)
    first = _linear(rng.normal(size=(4, known.shape[1])).round(1), rng.normal(size=4).round(1))
    last = _linear(rng.normal(size=(outputs, 4)).round(1), bias)
    between = torch.nn.ReLU() if family == "relu" else torch.nn.Tanh()
    return torch.nn.Sequential(first, between, last)


def predicted(model: Any, x: Array) -> Array:
    """What a model predicts by itself: `(K, p) -> (K, n)`."""
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            return model(torch.from_numpy(x)).numpy()
    return np.asarray(getattr(model, "predict", model)(x), dtype=np.float64)


def _linear(weight: Array, bias: Array) -> torch.nn.Linear:
    layer = torch.nn.Linear(weight.shape[1], len(weight)).double()
    values = {"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)}
    layer.load_state_dict(values)
    return layer
