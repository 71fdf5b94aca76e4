"""How time grows with the batch, the grid and the items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

import cfopt
from benchmarks.speed import timed
from benchmarks.tasks import Bench, untrained
from cfopt.datasets import synthetic
from cfopt.problems import MILP, GridShortestPath, Knapsack
from cfopt.problems.finite import Finite

_STEPS = 100
#: The tables that the picture shows.
DRAWN = {"batches", "grids", "items"}


def batches(bench: Bench) -> list[dict[str, Any]]:
    """Absolute explanations to the end, for batches of 1 to 10,000 tasks."""
    search = bench.search(max_steps=1000)
    rows = []
    for size in (1, 10, 100, 1000, 10_000):
        pick = torch.arange(size) % len(bench.contexts)
        x0 = bench.contexts[pick] + 0.05 * torch.randn(
            (size, bench.contexts.shape[1]), generator=torch.Generator().manual_seed(size)
        )
        criterion = bench.criterion("absolute", pick)

        def work(x0=x0, criterion=criterion):
            return cfopt.explain(x0, bench.pipeline, criterion, search=search)

        seconds = timed(work, repeats=3 if size <= 1000 else 1)
        rows.append({"batch": size, "ms per task": 1e3 * seconds / size})
    return rows


def _fixed_steps(data: synthetic.Synthetic, tasks: int, steps: int = _STEPS) -> float:
    """Milliseconds per task for a fixed number of absolute steps with an untrained predictor."""
    pipeline = untrained(data)
    x0 = data.contexts[:tasks].double()
    wanted = data.problem.solve(data.costs[tasks : 2 * tasks].double())
    search = cfopt.MDMM(step=1e-6, max_steps=steps, patience=steps)
    criterion = cfopt.Absolute(wanted)
    cfopt.explain(x0[:2], pipeline, criterion[torch.arange(2)], search=cfopt.MDMM(max_steps=2))
    seconds = timed(lambda: cfopt.explain(x0, pipeline, criterion, search=search), repeats=1)
    return 1e3 * seconds / tasks * _STEPS / steps


def grids() -> list[dict[str, Any]]:
    """100 steps of 100 absolute tasks on grids of growing size."""
    return [
        {
            "grid": f"{size}x{size}",
            "arcs": 2 * size * (size - 1),
            "ms per task and 100 steps": _fixed_steps(synthetic.grid(200, 10, size, size), 100),
        }
        for size in (5, 7, 10, 15, 20, 30, 40, 50)
    ]


def items() -> list[dict[str, Any]]:
    """100 steps of absolute knapsack tasks; beyond the listed sizes a MIP a row, measured on 10."""
    rows = []
    for count in (5, 10, 16, 20, 30, 50, 100, 200):
        data = synthetic.knapsack(200, 5, count)
        listed = isinstance(data.problem._solver, Finite)
        tasks, steps = (100, _STEPS) if listed else (10, 10)
        rows.append(
            {
                "items": count,
                "solved by": "listing" if listed else "HiGHS",
                "ms per task and 100 steps": _fixed_steps(data, tasks, steps),
            }
        )
    return rows


def solvers() -> list[dict[str, Any]]:
    """Listing every decision against the general method, for a batch of 100: why the limits."""
    rows = []
    for size in (4, 5, 6, 7, 8):
        problem = GridShortestPath(size, size)
        listed = Finite(problem.list_decisions(10_000))
        costs = np.random.default_rng(0).random((100, problem.num_costs))
        problem._finite = None
        rows.append(_race(f"grid {size}x{size}", listed, problem, "sweep", costs, 30))
    for count in (10, 16, 20, 25):
        problem = synthetic.knapsack(1, 5, count).problem
        assert isinstance(problem, Knapsack)
        listed = Finite(problem.list_decisions(100_000), "max")
        mip = MILP(problem.weights, -np.inf, problem.capacities, upper=1, integer=True, sense="max")
        costs = np.random.default_rng(0).random((100, count)) + 0.5
        rows.append(_race(f"knapsack {count}", listed, mip, "HiGHS", costs, 1))
    return rows


def _race(
    name: str, listed: Finite, other: Any, method: str, costs: np.ndarray, repeats: int
) -> dict[str, Any]:
    fast = timed(lambda: listed.optimise(costs), repeats=max(3, repeats))
    slow = timed(lambda: other.optimise(costs), repeats=repeats)
    return {
        "problem": name,
        "decisions": len(listed._decisions),
        "listing ms": 1e3 * fast,
        "other method": method,
        "other ms": 1e3 * slow,
        "other / listing": slow / fast,
    }


def plot(results: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Three panels: batch, grid, items."""
    figure = Figure(figsize=(11, 3.4), layout="constrained", dpi=130)
    panels = figure.subplots(1, 3)
    parts = [
        ("batches", "batch", "ms per task", "tasks in the batch"),
        ("grids", "arcs", "ms per task and 100 steps", "arcs of the grid"),
        ("items", "items", "ms per task and 100 steps", "items of the knapsack"),
    ]
    for axes, (name, x, y, label) in zip(panels, parts, strict=True):
        rows = results[name]
        axes.loglog([row[x] for row in rows], [row[y] for row in rows], "o-", color="#0072B2")
        axes.set_xlabel(label)
        axes.set_ylabel(y)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    figure.savefig(path)
