"""A batch of 100 tasks against the baseline, one task at a time, in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import cfopt
from benchmarks.baseline import Answer, explain_one, solver_for
from benchmarks.tasks import KINDS, Bench

_BASELINE_TASKS = 20
_BATCH = 100
_REPEATS = 5


def timed(work: Callable[[], Any], repeats: int = _REPEATS) -> float:
    """The median time of some runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def baseline(
    bench: Bench, kind: str, known: cfopt.Explanation, rows: torch.Tensor
) -> tuple[list[Answer], list[float]]:
    """The baseline's answers to some rows of a bench, one at a time, and the seconds of each.

    Factual decisions are those of `known`, which explains the rows of the bench from the first on.
    """
    solver, answers, times = solver_for(bench.pipeline.problem), [], []
    for row in rows.tolist():
        start = time.perf_counter()
        answers.append(
            explain_one(
                kind,
                bench.pipeline.predictor,
                solver,
                bench.pipeline.problem.sense.sign,
                bench.contexts[row],
                known.factual[row],
                bench.alternatives[row],
                bench.settings,
            )
        )
        times.append(time.perf_counter() - start)
    return answers, times


def compare(bench: Bench, kinds: tuple[str, ...] = KINDS) -> list[dict[str, Any]]:
    """Time per task of both, over tasks that end before K; the others are reported apart."""
    return [_compare(bench, kind) for kind in kinds]


def _compare(bench: Bench, kind: str) -> dict[str, Any]:
    first = slice(0, _BATCH)
    search = bench.search()
    everything = cfopt.explain(bench.contexts, bench.pipeline, bench.criterion(kind), search=search)
    ends = (everything.steps < search.max_steps) & (everything.steps > 0)
    rows = ends.nonzero().flatten()[:_BATCH]

    def explain(which: slice | torch.Tensor) -> cfopt.Explanation:
        criterion = bench.criterion(kind, which)
        return cfopt.explain(bench.contexts[which], bench.pipeline, criterion, search=search)

    batch = timed(lambda: explain(rows)) / len(rows)
    with_limit = timed(lambda: explain(first), repeats=1) / _BATCH
    answers, times = baseline(bench, kind, everything, rows[:_BASELINE_TASKS])
    found = everything[rows[: len(answers)]]
    agree = sum(
        answer.x is not None and bool(torch.allclose(answer.x, x, atol=1e-6))
        for answer, x in zip(answers, found.x, strict=True)
    )
    limited = int((everything.steps[first] >= search.max_steps).sum())
    return {
        "task": f"{bench.name}, {kind}",
        "baseline ms/task": 1e3 * statistics.mean(times),
        "batch ms/task": 1e3 * batch,
        "ratio": statistics.mean(times) / batch,
        "steps": float(everything.steps[rows].double().mean()),
        "same answer": f"{agree} of {len(answers)}",
        "of 100 into K": limited,
        "batch with those, ms/task": 1e3 * with_limit,
    }


def batch_equals_loop(bench: Bench, count: int = 30) -> list[dict[str, Any]]:
    """The same tasks one by one: the largest difference in x, and whether statuses agree."""
    out = []
    for kind in KINDS:
        search = bench.search(max_steps=1500)
        rows = slice(0, count)
        together = cfopt.explain(
            bench.contexts[rows], bench.pipeline, bench.criterion(kind, rows), search=search
        )
        worst, statuses = 0.0, True
        for i in range(count):
            row = slice(i, i + 1)
            criterion = bench.criterion(kind, row)
            alone = cfopt.explain(bench.contexts[row], bench.pipeline, criterion, search=search)
            worst = max(worst, float((alone.x - together.x[row]).abs().max()))
            statuses &= alone.status[0] == together.status[i]
        out.append(
            {
                "task": f"{bench.name}, {kind}",
                "tasks": count,
                "largest difference in x": worst,
                "same statuses": statuses,
                "equal to 1e-6": worst <= 1e-6 and statuses,
            }
        )
    return out
