"""Few changes and several options behind affine predictors: claims, and time beside one answer.

Some claims about absolute questions are checked by quadprog: for every set of so many features, the
nearest context that moves no others, with cuts of listed decisions until none is violated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import quadprog

import cfopt
from benchmarks.independent import Array, by_interior_point, cuts, is_feasible
from benchmarks.tasks import Bench
from cfopt.names import counted

#: Tasks of each kind, those of them that are checked, and for how many changes at most.
_TASKS, _CHECKED, _CHECKED_CHANGES = 20, 3, 2
#: Changes that are asked about, and options.
_MOST, _OPTIONS = 5, 5
#: How much more CPU time than the plain question each may take.
_BAR_CHANGES, _BAR_OPTIONS = 10, 8


def compare(bench: Bench) -> list[dict[str, Any]]:
    """20 tasks of two kinds: at most 1 to 5 changes, and five options, beside the plain one."""
    rows = slice(0, _TASKS)
    x0, lines = bench.contexts[rows], []
    for kind in ("absolute", "epsilon"):
        criterion = bench.criterion(kind, rows)

        def explain(criterion: cfopt.Criterion = criterion, **given: Any) -> cfopt.Explanation:
            return cfopt.explain(x0, bench.pipeline, criterion, **given)

        explain()  # so that nothing is loaded or listed while the clock runs
        _, plain = _timed(explain)
        for most in range(1, _MOST + 1):
            features = cfopt.Features(max_changes=most)
            e, seconds = _timed(lambda limited=features, ask=explain: ask(features=limited))
            checked, refuted = _refuted(bench, e, most) if kind == "absolute" else (0, 0)
            lines.append(
                _line(f"{bench.name}, {kind}", f"at most {counted(most, 'change')}", e)
                | {"checked": checked, "refuted": refuted}
                | _ratio(seconds, plain, _BAR_CHANGES)
            )
        e, seconds = _timed(lambda ask=explain: ask(options=_OPTIONS))
        lines.append(
            _line(f"{bench.name}, {kind}", f"{_OPTIONS} options", e.every_option())
            | {"checked": 0, "refuted": 0}
            | _ratio(seconds, plain, _BAR_OPTIONS)
        )
    return lines


def _timed(ask: Callable[[], cfopt.Explanation]) -> tuple[cfopt.Explanation, float]:
    """An answer, and the CPU time of this process that it took."""
    began = time.process_time()
    e = ask()
    return e, time.process_time() - began


def _line(tasks: str, asked: str, e: cfopt.Explanation) -> dict[str, Any]:
    optimal = int(e.optimal.sum())
    infeasible = sum(status is cfopt.Status.PROVED_INFEASIBLE for status in e.status)
    return {
        "tasks": tasks,
        "asked": asked,
        "answers": len(e),
        "optimal": optimal,
        "proved infeasible": infeasible,
        "other": len(e) - optimal - infeasible,
    }


def _ratio(seconds: float, plain: float, bar: float) -> dict[str, Any]:
    return {
        "CPU ms/task": 1e3 * seconds / _TASKS,
        "CPU / plain": seconds / plain,
        "bar": bar,
        "kept": "yes" if seconds <= bar * plain else "no",
    }


def _refuted(bench: Bench, e: cfopt.Explanation, most: int) -> tuple[int, int]:
    """How many claims were checked, and how many of them are false."""
    if most > _CHECKED_CHANGES:
        return 0, 0
    listed, refuted = bench.pipeline.problem.decisions().numpy(), 0
    for row in range(_CHECKED):
        x, wanted = e.x0[row].double().numpy(), e.alternative[row].double().numpy()
        g, h = cuts(bench.pipeline, x, wanted - listed)
        supports = map(list, combinations(range(len(x)), most))
        best = min(nearest_with_few_rows(g[:, support], h) for support in supports)
        if e.status[row] is cfopt.Status.PROVED_INFEASIBLE:
            refuted += int(best < np.inf)
        elif e.optimal[row]:
            refuted += int(abs(float(e.loss[row]) - best) > 1e-4 * max(best, 1e-6))
    return _CHECKED, refuted


def nearest_with_few_rows(g: Array, h: Array) -> float:
    """`min |u|^2` subject to `g u <= h`, by quadprog, with rows until none is violated."""
    size, rows = g.shape[1], [int(h.argmin())]
    slack = 1e-9 * max(1.0, float(np.abs(h).max()))
    if h[rows[0]] >= -slack:
        return 0.0
    while True:
        try:
            u = quadprog.solve_qp(2 * np.eye(size), np.zeros(size), -g[rows].T, -h[rows])[0]
        except ValueError:  # inconsistent, or degenerate
            if not is_feasible(g[rows], h[rows]):
                return np.inf
            return by_interior_point(g, h, np.ones(size)) if is_feasible(g, h) else np.inf
        excess = g @ u - h
        worst = int(excess.argmax())
        if excess[worst] <= slack * max(1.0, float(np.abs(u).max())) or worst in rows:
            return float(u @ u)
        rows.append(worst)
