"""Robust answers and prices: how many are proved, what a ball costs, and whether any is refuted."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import torch

import cfopt
from benchmarks.independent import best_of_all, nearest_l2
from benchmarks.networks import bench as trained
from benchmarks.speed import timed
from benchmarks.tasks import KINDS, Bench

_TASKS, _RADIUS, _SAMPLES = 100, 0.1, 1000


def balls(bench: Bench) -> list[dict[str, Any]]:
    """100 tasks of each kind behind an affine predictor: plain beside a ball."""
    rows = slice(0, _TASKS)
    x0 = bench.contexts[rows]
    lines = []
    for kind in KINDS:
        criterion = bench.criterion(kind, rows)

        def explain(
            robust: cfopt.Robustness | None, criterion: cfopt.Criterion = criterion
        ) -> cfopt.Explanation:
            return cfopt.explain(x0, bench.pipeline, criterion, robust=robust)

        e = explain(cfopt.Ball(_RADIUS))
        seconds = [timed(partial(explain, one)) for one in (None, cfopt.Ball(_RADIUS))]
        counts = Counter(e.status)
        infeasible = counts[cfopt.Status.PROVED_INFEASIBLE]
        already = counts[cfopt.Status.ALREADY_VALID]
        optimal = int(e.optimal.sum())
        lines.append(
            {
                "tasks": f"{bench.name}, {kind}",
                "optimal": optimal,
                "proved infeasible": infeasible,
                "other": _TASKS - optimal - infeasible,
                "already valid": already,
                "refuted by samples": refuted(bench.pipeline, e),
                "ms/task, plain": 1e3 * seconds[0] / _TASKS,
                "ms/task, ball": 1e3 * seconds[1] / _TASKS,
                "ball / plain": seconds[1] / seconds[0],
            }
        )
    return lines


def behind_networks() -> list[dict[str, Any]]:
    """A network of 3 layers on the 5x5 grid: found, beside plain answers; attacked by samples."""
    pipeline, contexts, wanted, _ = trained("grid", 3)
    x0, criterion = contexts[:10], cfopt.Absolute(wanted[:10])
    plain = cfopt.explain(x0, pipeline, criterion, search=cfopt.Sequential())
    e = cfopt.explain(x0, pipeline, criterion, robust=cfopt.Ball(_RADIUS))
    both = e.answered & plain.valid
    return [
        {
            "tasks": "grid 5x5, 3 layers, absolute",
            "found, plain": int(plain.valid.sum()),
            "found, ball": int(e.answered.sum()),
            "of": len(x0),
            "loss, ball / plain": float((e.loss[both] / plain.loss[both]).mean()),
            "refuted by samples": refuted(pipeline, e),
        }
    ]


def prices(bench: Bench) -> list[dict[str, Any]]:
    """Prices of 100 absolute wishes: proved, and beside all decisions at once."""
    rows = slice(0, _TASKS)
    costs = bench.pipeline.costs(bench.contexts[rows]).detach()
    criterion = bench.criterion("absolute", rows)

    def explain() -> cfopt.Explanation:
        return cfopt.explain_costs(costs, bench.pipeline.problem, criterion, proximity=cfopt.L2())

    e = explain()
    size = costs.shape[1]
    layer = torch.nn.Linear(size, size).double()
    with torch.no_grad():
        layer.weight.copy_(torch.eye(size))
        layer.bias.zero_()
    same = cfopt.Pipeline(layer, bench.pipeline.problem)
    worst = 0.0
    for row in range(20):
        best = best_of_all(same, costs[row].numpy(), e.alternative[row].numpy(), nearest_l2)
        worst = max(worst, abs(float(e.loss[row]) - best) / max(best, 1e-9))
    return [
        {
            "tasks": f"{bench.name}, prices",
            "optimal": int(e.optimal.sum()),
            "largest relative difference, 20 tasks": worst,
            "ms/task": 1e3 * timed(explain) / _TASKS,
        }
    ]


def refuted(pipeline: cfopt.Pipeline, e: cfopt.Explanation) -> int:
    """Answers that a sampled context on the sphere refutes."""
    found = e[e.answered]
    draws = np.random.default_rng(0).standard_normal((_SAMPLES, *found.x.shape))
    off = torch.from_numpy(draws / np.linalg.norm(draws, axis=2, keepdims=True))
    broken = torch.zeros(len(found), dtype=torch.bool)
    for step in off:
        x = found.x + _RADIUS * step
        costs = pipeline.problem.sense.sign * pipeline.costs(x).detach()
        best = (costs * pipeline.decide(x)).sum(1)
        factual, wanted = ((costs * y).sum(1) for y in (found.factual, found.alternative))
        slack = 1e-5 * costs.abs().sum(1)
        if isinstance(e.criterion, cfopt.Relative):
            broken |= wanted > factual + slack
        elif isinstance(e.criterion, cfopt.Absolute):
            broken |= wanted > best + slack
        else:
            broken |= best + e.criterion.epsilon * best.abs() > factual + slack
    return int(broken.sum())
