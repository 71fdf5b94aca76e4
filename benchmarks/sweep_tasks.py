"""Random tasks for the sweep: every problem, criterion, limit, proximity, sense and dtype."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

import cfopt
from cfopt.problems import MILP, Finite, GridShortestPath, Knapsack, Oracle, TerrainShortestPath
from cfopt.testing import InexactOracle

Array = NDArray[np.float64]
#: Contexts that share a pipeline and a question.
ROWS = 6


@dataclass(frozen=True)
class Solvable:
    """A problem, and every decision that can be best, listed without it.

    Arguments:
        problem: the problem as cfopt gets it.
        listed: `(D, m)`; of linear programs the vertices.
        columns: the entry of a decision that each predicted cost belongs to.
        fixed: the fixed costs of entries, `(m,)`.
        promised: whether every affine task has an exact answer.
        noise: the most by which entries of its answers may be off.
    """

    problem: cfopt.Problem
    listed: Array
    columns: list[int]
    fixed: Array
    promised: bool = True
    noise: float = 0.0


@dataclass(frozen=True)
class Limits:
    """What contexts may be, as plain arrays; `features` says the same to cfopt."""

    features: cfopt.Features
    lower: Array
    upper: Array
    integer: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    immutable: list[int] = field(default_factory=list)
    total: float = np.inf  # an upper limit of the sum of all features


@dataclass(frozen=True)
class SweepTask:
    """Some rows of one question; what a seed and a number determine."""

    name: str
    kind: str
    given: Solvable
    pipeline: cfopt.Pipeline
    affine: bool
    x0: torch.Tensor
    criterion: cfopt.Criterion
    wanted: Array | None
    margin: float
    limits: Limits
    proximity: cfopt.Proximity
    power: int
    scale: Array


def _plain(problem: cfopt.Problem, listed: Array, **more: object) -> Solvable:
    size = listed.shape[1]
    return Solvable(problem, listed, list(range(size)), np.zeros(size), **more)


def _grid(rng: np.random.Generator) -> Solvable:
    problem = GridShortestPath(3, 3)
    index = {arc: k for k, arc in enumerate(problem.arcs)}
    paths = []
    for down in itertools.combinations(range(4), 2):
        node, path = 0, np.zeros(len(index))
        for step in range(4):
            target = node + (3 if step in down else 1)
            path[index[node, target]] = 1
            node = target
        paths.append(path)
    return _plain(problem, np.array(paths))


def _terrain(rng: np.random.Generator) -> Solvable:
    sides = [(0, 1), (0, 2), (1, 3), (2, 3)]
    moves = sides + [(b, a) for a, b in sides]
    found = set()
    for made in itertools.product([0, 1], repeat=len(moves)):
        balance, visits = [1, 0, 0, -1], [1, 0, 0, 0]
        for (a, b), taken in zip(moves, made, strict=True):
            balance[a] -= taken
            balance[b] += taken
            visits[b] += taken
        if not any(balance):
            found.add(tuple(visits))
    listed = np.array(sorted(found), dtype=float)
    return _plain(TerrainShortestPath(2, 2, neighbours=4), listed)


def _knapsack(rng: np.random.Generator) -> Solvable:
    weights = rng.integers(1, 9, (2, 5)).astype(float)
    capacities = rng.integers(8, 16, 2).astype(float)
    sets = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
    return _plain(Knapsack(weights, capacities), sets[(sets @ weights.T <= capacities).all(axis=1)])


def _sense(rng: np.random.Generator) -> str:
    return str(rng.choice(["min", "max"]))


def _model(rng: np.random.Generator, whole: list[bool], fixed: int = 0) -> Solvable:
    """`lower <= A y <= upper, 0 <= y <= 2` with some whole columns; the last ones cost a fixed sum.

    The vertices for each choice of whole numbers are all that can be best.
    """
    size = len(whole)
    matrix = rng.integers(-3, 5, (2, size)).astype(float)
    inside = rng.integers(0, 3, size).astype(float)
    limit = matrix @ inside + rng.integers(0, 3, 2)
    prices = np.zeros(size)
    prices[size - fixed :] = rng.uniform(0.2, 2.0, fixed).round(2)
    problem = MILP(
        matrix,
        -np.inf,
        limit,
        upper=2.0,
        integer=whole,
        sense=_sense(rng),
        cost_columns=list(range(size - fixed)),
        fixed_costs=prices,
    )
    integer = np.flatnonzero(whole)
    free = [j for j in range(size) if j not in integer]
    found = []
    for choice in itertools.product([0.0, 1.0, 2.0], repeat=len(integer)):
        y = np.zeros(size)
        y[integer] = choice
        found += _vertices(matrix, limit, y, free)
    listed = np.unique(np.array(found).round(12), axis=0)
    # np.unique joins what is equal to 12 digits; keep the unrounded ones.
    kept = [next(y for y in found if np.abs(y - one).max() < 1e-9) for one in listed]
    columns = list(range(size - fixed))
    return Solvable(problem, np.array(kept), columns, prices)


def _vertices(matrix: Array, limit: Array, y: Array, free: list[int]) -> list[Array]:
    """Every vertex of what is left where only some columns are free."""
    count = len(free)
    eye = np.eye(count)
    g = np.concatenate([matrix[:, free], eye, -eye])
    h = np.concatenate([limit - matrix @ y, np.full(count, 2.0), np.zeros(count)])
    found = []
    for active in itertools.combinations(range(len(h)), count):
        rows = g[list(active)]
        if count and abs(np.linalg.det(rows)) < 1e-9:
            continue
        point = np.linalg.solve(rows, h[list(active)]) if count else np.empty(0)
        if (g @ point <= h + 1e-9).all():
            vertex = y.copy()
            vertex[free] = point
            found.append(vertex)
    return found


def _table(rng: np.random.Generator) -> Array:
    if rng.random() < 0.5:
        return np.unique(rng.integers(0, 2, (9, 4)).astype(float), axis=0)
    return rng.integers(-1, 3, (7, 4)) + rng.choice([0.0, 0.3, 0.7], (7, 4))


def _finite(rng: np.random.Generator) -> Solvable:
    listed = _table(rng)
    return _plain(Finite(listed, _sense(rng)), listed)


def _oracle(rng: np.random.Generator) -> Solvable:
    listed, sense = _table(rng), _sense(rng)
    sign = 1.0 if sense == "min" else -1.0

    def function(costs: Array) -> Array:
        return listed[(sign * listed @ costs).argmin()]

    def known(decision: Array) -> bool:
        return bool((np.abs(listed - decision).max(axis=1) < 1e-6).any())

    return _plain(Oracle(function, 4, sense, is_feasible=known), listed)


def _inexact(**how: object) -> Callable[[np.random.Generator], Solvable]:
    def make(rng: np.random.Generator) -> Solvable:
        inner = (_grid, _knapsack, _finite)[rng.integers(3)](rng)
        problem = InexactOracle(inner.problem, **how)
        return _plain(problem, inner.listed, promised=False, noise=how.get("noise", 0.0))

    return make


PROBLEMS: dict[str, Callable[[np.random.Generator], Solvable]] = {
    "grid": _grid,
    "terrain": _terrain,
    "knapsack": _knapsack,
    "integer program": lambda rng: _model(rng, [True] * 3),
    "linear program": lambda rng: _model(rng, [False] * 3),
    "mixed program": lambda rng: _model(rng, [True, True, False]),
    "fixed costs": lambda rng: _model(rng, [bool(b) for b in rng.random(4) < 0.7], fixed=2),
    "finite": _finite,
    "oracle": _oracle,
    "off by 1e-8": _inexact(noise=1e-8),
    "off by 1e-6": _inexact(noise=1e-6),
    "off by 1e-8, undeclared": _inexact(noise=1e-8, declared=False),
    "off by 1e-6, undeclared": _inexact(noise=1e-6, declared=False),
    "gap of 1e-4": _inexact(gap=1e-4),
}


def _limits(rng: np.random.Generator, size: int, scale: Array | None) -> tuple[Limits, Array]:
    """Random limits, and contexts that keep them, `(ROWS, size)`."""
    x0 = rng.normal(size=(ROWS, size))
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    integer, group, immutable, total = [], [], [], np.inf
    kinds = set(rng.choice(["box", "integer", "one-hot", "held", "sum"], rng.integers(0, 3)))
    if "one-hot" in kinds:
        group = [0, 1, 2]
        x0[:, :3] = np.eye(3)[rng.integers(3, size=ROWS)]
        lower[:3], upper[:3] = 0.0, 1.0
    if "integer" in kinds:
        integer = [3]
        x0[:, 3] = rng.integers(-1, 3, ROWS)
        lower[3], upper[3] = -1.0, 2.0
    free = [j for j in range(size) if j not in group + integer]
    if "box" in kinds:
        lower[free], upper[free] = -rng.uniform(0.5, 3), rng.uniform(0.5, 3)
        x0[:, free] = x0[:, free].clip(lower[free], upper[free])
    if "held" in kinds:
        immutable = [int(rng.choice(free))]
    if "sum" in kinds:
        total = float(x0.sum(axis=1).max() + rng.uniform(0, 2))
    features = cfopt.Features(
        scale=None if scale is None else scale.tolist(),
        lower={j: v for j, v in enumerate(lower) if np.isfinite(v)},
        upper={j: v for j, v in enumerate(upper) if np.isfinite(v)},
        immutable=immutable,
        integer=integer,
        one_hot=[group] if group else [],
        linear=[cfopt.LinearLimit([1.0] * size, upper=total)] if total < np.inf else [],
    )
    return Limits(features, lower, upper, integer, group, immutable, total), x0


def make_task(seed: int, number: int) -> SweepTask:
    """The task of a seed and a number."""
    rng = np.random.default_rng([seed, number])
    name = list(PROBLEMS)[number % len(PROBLEMS)]
    given = PROBLEMS[name](rng)
    size = int(rng.integers(4, 7))
    scale = rng.uniform(0.5, 2.0, size) if rng.random() < 0.3 else None
    limits, start = _limits(rng, size, scale)
    affine = bool(rng.random() < 0.8)
    single = bool(rng.random() < 0.3)
    predictor = _predictor(rng, size, len(given.columns), affine)
    dtype = torch.float32 if single else torch.float64
    pipeline = cfopt.Pipeline(predictor.to(dtype), given.problem)
    x0 = torch.from_numpy(start).to(dtype)
    kind = str(rng.choice(["relative", "absolute", "absolute", "epsilon", "epsilon above 1"]))
    margin = 0.05 if rng.random() < 0.2 else 0.0
    if kind == "absolute" and not given.problem.ranks_decisions:
        margin = 0.0
    wanted = None
    if kind in ("relative", "absolute"):
        wanted = given.listed[rng.integers(len(given.listed), size=ROWS)]
        elsewhere = rng.normal(size=(ROWS, size)) * 1.5
        costs = predictor(torch.from_numpy(elsewhere).to(dtype)).detach().double().numpy()
        prices = np.tile(given.fixed, (ROWS, 1))
        prices[:, given.columns] += costs
        sign = given.problem.sense.sign
        best = given.listed[(sign * prices @ given.listed.T).argmin(axis=1)]
        wanted = np.where(rng.random((ROWS, 1)) < 0.7, best, wanted)
        # As a solver with noise would have returned it, which is what a user would pass on.
        passed = wanted + given.noise * rng.uniform(-1, 1, wanted.shape)
        make = cfopt.Relative if kind == "relative" else cfopt.Absolute
        criterion = make(torch.from_numpy(passed))
        # Two decisions are compared as they are; the best of all is an exact decision.
        wanted = passed if kind == "relative" else wanted
    else:
        epsilon = rng.choice([0.05, 0.3, 1.0]) if kind == "epsilon" else rng.choice([1.5, 3.0])
        criterion = cfopt.Epsilon(float(epsilon))
    taxicab = bool(rng.random() < 0.3)
    return SweepTask(
        name,
        kind,
        given,
        pipeline,
        affine,
        x0,
        criterion,
        wanted,
        margin,
        limits,
        cfopt.L1() if taxicab else cfopt.L2(),
        1 if taxicab else 2,
        np.ones(size) if scale is None else scale,
    )


def _predictor(
    rng: np.random.Generator, inputs: int, outputs: int, affine: bool
) -> torch.nn.Module:
    sizes = [inputs, outputs] if affine else [inputs, 8, outputs]
    layers: list[torch.nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layer = torch.nn.Linear(before, after).double()
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(rng.normal(size=(after, before))))
            layer.bias.copy_(torch.from_numpy(rng.normal(size=after)))
        layers += [layer, torch.nn.Tanh()]
    last = layers[-2]
    with torch.no_grad():
        last.bias += float(rng.choice([0.0, 2.0]))
    return layers[0] if affine else torch.nn.Sequential(*layers[:-1])
