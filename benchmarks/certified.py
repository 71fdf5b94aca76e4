"""What is promised behind ReLU networks and plain functions: how often it is kept.

Networks have the paper's depths, but are trained on other data, with other widths and other first
weights than those on which settings of searches were chosen.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import Tensor

import cfopt
from benchmarks.forests import ForestTasks, Setting, seconds_of, warm_up
from cfopt.datasets import synthetic
from cfopt.predictors import MSE, fit, mlp
from cfopt.running.threads import of_torch
from cfopt.search import DerivativeFree, TreeCells

DEPTHS = (1, 2, 3, 4, 5)
#: The number of features, which is also the width of hidden layers, by depth.
_WIDTHS = {1: 10, 2: 12, 3: 10, 4: 8, 5: 10}
_TRAINED, _FURTHER = 1000, 100
#: Seconds within which a proof counts, and how near to it the default search should be.
_SECONDS, _NEAR = 60.0, 1.01
#: The parts of tasks that are promised, and the distance of derivative-free answers.
_PART, _FAR = 0.95, 1.15


def networks(rows: int = 15, seed: int = 7) -> list[dict[str, Any]]:
    """The default search beside the certified optimum, absolute and epsilon questions."""
    with of_torch(1):
        lines = [
            _certified(f"{kind}, L = {depth}, {_WIDTHS[depth]} features", *task)
            for depth in DEPTHS
            for kind, *task in _asked(depth, rows, seed)
        ]
    return [*lines, _together(lines)]


def _together(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """All questions, and whether what is promised of them is kept."""
    names = ("tasks", "certified", "answered", "within 1%")
    sums = {name: sum(line[name] for line in lines) for name in names}
    kept = sums["certified"] >= _PART * sums["tasks"]
    near = sums["within 1%"] >= _PART * sums["answered"]
    together = {"questions": "all", **sums, "median s": "", "largest s": "", "default, s each": ""}
    return {**together, "95% certified": kept, "95% within 1%": near}


def _asked(
    depth: int, rows: int, seed: int
) -> list[tuple[str, cfopt.Pipeline, Tensor, cfopt.Criterion]]:
    data = synthetic.grid(_TRAINED + _FURTHER + rows, _WIDTHS[depth], 5, 5, seed=seed + depth)
    contexts, costs = data.contexts.double(), data.costs.double()
    torch.manual_seed(100 * seed + depth)
    predictor = mlp(contexts.shape[1], data.problem.num_costs, depth).double()
    generator = torch.Generator().manual_seed(seed)
    known = contexts[:_TRAINED]
    fit(
        predictor,
        known,
        costs[:_TRAINED],
        MSE(),
        epochs=70,
        learning_rate=3e-3,
        generator=generator,
    )
    pipeline = cfopt.Pipeline(predictor, data.problem)
    x0 = contexts[_TRAINED : _TRAINED + rows]
    optima, factual = data.problem.solve(costs[_TRAINED + rows :]), pipeline.decide(x0)
    wanted = torch.stack(
        [next(y for y in optima.roll(-i, 0) if (y != own).any()) for i, own in enumerate(factual)]
    )
    return [
        ("absolute", pipeline, x0, cfopt.Absolute(wanted)),
        ("epsilon 0.2", pipeline, x0, cfopt.Epsilon(0.2)),
    ]


def _certified(
    title: str, pipeline: cfopt.Pipeline, x0: Tensor, criterion: cfopt.Criterion
) -> dict[str, Any]:
    search = cfopt.Certify(seconds=_SECONDS)
    ours, own = seconds_of(lambda: cfopt.explain(x0, pipeline, criterion))
    timed = [
        seconds_of(
            lambda row=row: cfopt.explain(
                x0[row : row + 1], pipeline, criterion[torch.tensor([row])], search=search
            )
        )
        for row in range(len(x0))
    ]
    best = cfopt.Explanation.concat([one for one, _ in timed])
    seconds = [one for _, one in timed]
    proved = best.optimal | torch.tensor([status == "proved infeasible" for status in best.status])
    proved &= torch.tensor(seconds) <= _SECONDS
    known = best.optimal & best.valid
    return {
        "questions": title,
        "tasks": len(x0),
        "certified": int(proved.sum()),
        "answered": int(known.sum()),
        "within 1%": int((ours.valid & known & (ours.loss <= _NEAR * best.loss)).sum()),
        "median s": statistics.median(seconds),
        "largest s": max(seconds),
        "default, s each": own / len(x0),
        "95% certified": "",
        "95% within 1%": "",
    }


def plain_functions(rows: int = 16, seed: int = 7) -> list[dict[str, Any]]:
    """`DerivativeFree`, which sees nothing but costs, beside the exact distance."""
    with of_torch(1):
        warm_up()
        lines = [_behind_forest(features, rows) for features in (5, 8)]
        lines += [_behind_layer(features, rows, seed) for features in (10, 40, 80)]
    return lines


def _behind_forest(features: int, count: int) -> dict[str, Any]:
    name = f"forest, 20 trees of depth 4, {features} features"
    model = RandomForestRegressor(n_estimators=20, max_depth=4, random_state=0, n_jobs=1)
    behind, rows = (
        ForestTasks.of(Setting(name, features, count, 60.0, lambda: model)),
        slice(0, count),
    )
    best = behind.explain(rows, TreeCells())
    found, seconds = seconds_of(lambda: behind.explain(rows, DerivativeFree()))
    return _distances(name, best, found, seconds)


def _behind_layer(features: int, rows: int, seed: int) -> dict[str, Any]:
    data = synthetic.grid(300, features, 5, 5, seed=seed)
    rng = np.random.default_rng(seed)
    weight = torch.from_numpy(rng.uniform(size=(data.problem.num_costs, features)) / features**0.5)
    layer = torch.nn.Linear(*weight.T.shape).double()
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.fill_(6.0)
    exact = cfopt.Pipeline(layer, data.problem)
    matrix = weight.numpy()
    hidden = cfopt.Pipeline(lambda x: x @ matrix.T + 6.0, data.problem)
    known = data.contexts.double()
    x0, asked = known[:rows], cfopt.Absolute(exact.decide(known[100 : 100 + rows]))
    best = cfopt.explain(x0, exact, asked)
    own_units = cfopt.Features(scale=[1.0] * x0.shape[1])
    found, seconds = seconds_of(
        lambda: cfopt.explain(
            x0.numpy(), hidden, asked, reference=known.numpy(), features=own_units
        )
    )
    return _distances(f"affine function, {features} features", best, found, seconds)


def _distances(
    title: str, best: cfopt.Explanation, found: cfopt.Explanation, seconds: float
) -> dict[str, Any]:
    both = best.optimal & best.valid & found.valid & (best.loss > 0)
    ratio = (found.loss[both] / best.loss[both]).sqrt()
    median, answered = float(ratio.median()), int(found.valid.sum())
    return {
        "predictor": title,
        "have an answer": int(best.valid.sum()),
        "answered": answered,
        "compared": int(both.sum()),
        "median distance / exact": median,
        "worst": float(ratio.max()),
        "s/row": seconds / len(found.x),
        "all answered": answered >= int(best.valid.sum()),
        "median <= 1.15": median <= _FAR,
    }
