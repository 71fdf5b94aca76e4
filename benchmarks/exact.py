"""Exact searches: how they compare with MDMM and the baseline, and with brute force."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

import numpy as np

import cfopt
from benchmarks.independent import (
    best_of_all,
    epsilon_by_brute_force,
    mixed_tasks,
    nearest_l2,
    shortest_by_duality,
)
from benchmarks.speed import baseline, timed
from benchmarks.tasks import Bench, untrained
from cfopt.datasets import synthetic

_TASKS = 100
_BASELINE_TASKS = 10
#: Brute force over the decisions of the knapsack takes seconds a task.
_BRUTE_TASKS = {"grid": 100, "knapsack": 20}


def absolute(bench: Bench) -> dict[str, Any]:
    """100 absolute tasks: the default search, batched MDMM, and the baseline one at a time."""
    rows = slice(0, _TASKS)
    x0, criterion = bench.contexts[rows], bench.criterion("absolute", rows)

    def explain(search: cfopt.Search) -> cfopt.Explanation:
        return cfopt.explain(x0, bench.pipeline, criterion, search=search)

    exact, local = explain(cfopt.Auto()), explain(bench.search())
    quick = timed(lambda: explain(cfopt.Auto())) / _TASKS
    batch = timed(lambda: explain(bench.search()), repeats=3) / _TASKS
    wrong, worst = _check(bench, exact)
    both = exact.valid & local.valid
    ratio = exact.loss[both] / local.loss[both]
    counts = Counter(exact.status)
    answered = exact.valid.nonzero().flatten()[:_BASELINE_TASKS]
    _, seconds = baseline(bench, "absolute", exact, answered)
    return {
        "tasks": f"{bench.name}, absolute",
        "valid and optimal": int((exact.optimal & exact.valid).sum()),
        "proved infeasible": counts[cfopt.Status.PROVED_INFEASIBLE],
        "other": _TASKS - int(exact.optimal.sum()) - counts[cfopt.Status.PROVED_INFEASIBLE],
        "refuted by other means": wrong,
        "largest relative difference": worst,
        "rounds": float(exact.solves.double().mean()),
        "ms/task": 1e3 * quick,
        "MDMM ms/task": 1e3 * batch,
        "MDMM / exact": batch / quick,
        "baseline / exact": statistics.mean(seconds) / quick,
        "found by MDMM": int(local.valid.sum()),
        "MDMM's loss / optimum, mean": float(local.loss[both].mean() / exact.loss[both].mean()),
        "at worst": float(1 / ratio.min()),
    }


def _check(bench: Bench, exact: cfopt.Explanation) -> tuple[int, float]:
    """Verdicts refuted, and the largest relative difference of a loss, by other means."""
    wrong, worst = 0, 0.0
    for row in range(_TASKS):
        x0, wanted = exact.x0[row].numpy(), exact.alternative[row].numpy()
        if "grid" in bench.name:
            best = shortest_by_duality(bench.pipeline, x0, wanted)
        else:
            best = best_of_all(bench.pipeline, x0, wanted, nearest_l2)
        if exact.status[row] is cfopt.Status.PROVED_INFEASIBLE:
            wrong += best < np.inf
        else:
            worst = max(worst, abs(float(exact.loss[row]) / best - 1))
            wrong += best == np.inf
    return wrong, worst


def epsilons(bench: Bench) -> list[dict[str, Any]]:
    """Exact epsilon explanations beside MDMM's and, on some tasks, brute force."""
    out = []
    brute = _BRUTE_TASKS["grid" if "grid" in bench.name else "knapsack"]
    x0 = bench.contexts[:_TASKS]
    for epsilon in (0.2, 1.0, 3.0):
        criterion = cfopt.Epsilon(epsilon)
        exact = cfopt.explain(x0, bench.pipeline, criterion)
        local = cfopt.explain(x0, bench.pipeline, criterion, search=bench.search())
        seconds = timed(lambda c=criterion: cfopt.explain(x0, bench.pipeline, c), repeats=3)
        wrong, worst = 0, 0.0
        for row in range(brute):
            best = epsilon_by_brute_force(
                bench.pipeline, x0[row].numpy(), exact.factual[row].numpy(), epsilon, nearest_l2
            )
            if exact.status[row] is cfopt.Status.PROVED_INFEASIBLE:
                wrong += best < np.inf
            else:
                worst = max(worst, abs(float(exact.loss[row]) / best - 1))
        both = exact.valid & local.valid
        out.append(
            {
                "tasks": f"{bench.name}, epsilon {epsilon:g}",
                "optimal": int(exact.optimal.sum()),
                "proved infeasible": Counter(exact.status)[cfopt.Status.PROVED_INFEASIBLE],
                "brute force on": brute,
                "refuted": wrong,
                "largest relative difference": worst,
                "ms/task": 1e3 * seconds / _TASKS,
                "found by MDMM": int(local.valid.sum()),
                # MDMM may stop where the criterion is missed by a millionth of the costs.
                "farther than MDMM by 0.01%": int(
                    (exact.loss[both] > local.loss[both] * (1 + 1e-4)).sum()
                ),
                "MDMM's loss / optimum, mean": float(
                    local.loss[both].mean() / exact.loss[both].mean()
                ),
            }
        )
    return out


def mixed(count: int = 60) -> list[dict[str, Any]]:
    """Random tasks with whole numbers and one-hot groups, against every whole-number choice."""
    out = []
    for name, make, power in (("L2", cfopt.L2, 2), ("L1", cfopt.L1, 1)):
        optimal, impossible, wrong = 0, 0, 0
        for task in mixed_tasks(count):
            criterion = cfopt.Absolute(task.wanted)
            e = cfopt.explain(
                task.x0, task.pipeline, criterion, features=task.features, proximity=make()
            )
            best = task.answer(power)
            if e.status[0] is cfopt.Status.PROVED_INFEASIBLE:
                impossible += 1
                wrong += best < np.inf
            else:
                optimal += bool(e.optimal[0])
                wrong += not np.isclose(float(e.loss[0]), best, rtol=1e-6, atol=1e-9)
        out.append(
            {
                "proximity": name,
                "tasks": count,
                "optimal": optimal,
                "proved infeasible": impossible,
                "refuted by brute force": wrong,
            }
        )
    return out


def growth() -> list[dict[str, Any]]:
    """Rounds and time per task as grids and knapsacks grow, untrained predictors."""
    out = [
        _grow(f"grid {size}x{size}", synthetic.grid(200, 10, size, size), 20)
        for size in (5, 10, 20, 30, 50)
    ]
    for items in (10, 16, 30, 50, 100):
        tasks = 20 if items <= 16 else 5
        out.append(_grow(f"knapsack {items}", synthetic.knapsack(200, 5, items), tasks))
    return out


def _grow(name: str, data: synthetic.Synthetic, tasks: int) -> dict[str, Any]:
    pipeline = untrained(data)
    x0 = data.contexts[:tasks].double()
    wanted = cfopt.Absolute(pipeline.decide(data.contexts[100 : 100 + tasks].double()))
    e = cfopt.explain(x0, pipeline, wanted)
    seconds = timed(lambda: cfopt.explain(x0, pipeline, wanted), repeats=1)
    return {
        "problem": name,
        "tasks": tasks,
        "optimal": int(e.optimal.sum()),
        "proved infeasible": sum(s is cfopt.Status.PROVED_INFEASIBLE for s in e.status),
        "rounds": float(e.solves.double().mean()),
        "ms/task": 1e3 * seconds / tasks,
    }
