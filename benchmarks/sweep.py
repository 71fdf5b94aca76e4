"""Random tasks, and every claim about them checked by brute force: `python -m benchmarks sweep`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import cfopt
from benchmarks.sweep_tasks import PROBLEMS, ROWS, SweepTask, make_task
from benchmarks.sweep_truth import Truth

VIOLATIONS = (
    "false valid",
    "false optimum",
    "false bound",
    "false infeasibility",
    "missed",
    "wrong factual",
)
#: Limits on the search for an answer, so that rows without one do not take long.
_SEARCH = cfopt.Auto(
    sequential=cfopt.Sequential(restarts=0),
    mdmm=cfopt.MDMM(max_steps=60),
)

#: Seconds for each task, of which the first search may take half.
_TIME_LIMIT = 20.0


def sweep(
    rows: int = 3000, seed: int = 0, report: Callable[[str], None] = print
) -> list[dict[str, Any]]:
    """A table with a line for each problem; violations are reported as they are found.

    Arguments:
        rows: the number of contexts that are explained, in tasks of a few each.
        seed: the seed of the tasks; another one gives others.
        report: called with each violation in words, and how to repeat it:
            `check(make_task(seed, task))`.
    """
    counts = {name: Counter() for name in PROBLEMS}
    for number in range(-(-rows // ROWS)):
        task = make_task(seed, number)
        start = time.perf_counter()
        for row, kind, text in check(task, counts[task.name]):
            counts[task.name][kind] += 1
            if kind in VIOLATIONS:
                report(f"{kind}: seed {seed}, task {number}, row {row}: {text}")
        counts[task.name]["seconds"] += time.perf_counter() - start
    table = []
    for name, count in counts.items():
        line: dict[str, Any] = {"problem": name}
        for column in ("rows", "affine", "valid", "optimal", "infeasible", "undecided", "rejected"):
            line[column] = count[column]
        line |= {kind: count[kind] for kind in VIOLATIONS}
        line["violations"] = sum(count[kind] for kind in VIOLATIONS)
        line["seconds"] = float(count["seconds"])
        table.append(line)
    return table


def check(task: SweepTask, counts: Counter) -> list[tuple[int, str, str]]:
    """What is to be counted of each row of a task: row, kind and words."""
    e = cfopt.explain(
        task.x0,
        task.pipeline,
        task.criterion,
        features=task.limits.features,
        proximity=task.proximity,
        margin=task.margin,
        search=_SEARCH,
        time_limit=_TIME_LIMIT,
    )
    single = task.x0.dtype == torch.float32
    tolerance = 1e-3 if single else 1e-5
    # Noise moves a distance as it moves values, beside what they differ by.
    tolerance += 1e3 * task.given.noise
    where = f"{task.name}, {task.kind}, {task.x0.dtype}, L{task.power}, margin {task.margin:g}"
    out: list[tuple[int, str, str]] = []
    for row, status in enumerate(e.status):
        counts["rows"] += 1
        counts["affine"] += task.affine

        def note(kind: str, row: int = row, more: str = "") -> None:
            out.append((row, kind, f"{where}: {e.status[row]}, {e.message[row]} {more}"))

        if status is cfopt.Status.REJECTED:
            note("rejected")
            continue
        truth = Truth(task, row, _exact(task, e.factual[row].double().numpy()))
        if not _is_best(truth):
            note("wrong factual")
        valid, bound, loss = status.is_valid, float(e.bound[row]), float(e.loss[row])
        optimal, infeasible = bool(e.optimal[row]), status is cfopt.Status.PROVED_INFEASIBLE
        if valid and not truth.holds(e.x[row]):
            note("false valid")
        for kind, so in (("valid", valid), ("optimal", optimal), ("infeasible", infeasible)):
            if so:
                note(kind)
        if not task.affine:
            if infeasible or bound > 0:
                note("false bound", more="of a network")
            continue
        if truth.same_but_for_noise():
            continue  # what is then compared is less than the result's dtype may hold
        best, x = truth.nearest()
        if x is not None and not truth.holds(torch.from_numpy(x).to(task.x0)):
            best = np.inf  # only what brute force verifies refutes a claim
        if optimal and loss > best * (1 + tolerance) + 1e-9:
            note("false optimum", more=f"(loss {loss:.9g}, but {best:.9g} will do)")
        elif bound > best * (1 + tolerance) + 1e-9:
            kind = "false infeasibility" if infeasible else "false bound"
            note(kind, more=f"(bound {bound:.9g}, but {best:.9g} will do)")
        if not valid and not infeasible:
            note("missed" if best < np.inf and _promised(task) else "undecided")
    return out


def _exact(task: SweepTask, decision: np.ndarray) -> np.ndarray:
    """The listed decision that float32 has rounded; with noise the decision as it is."""
    if task.given.noise:
        return decision
    listed = task.given.listed
    off = np.abs(listed - decision).max(axis=1)
    return listed[off.argmin()] if off.min() < 1e-5 else decision


def _is_best(truth: Truth) -> bool:
    """Whether the factual decision is a best one, where the solver is exact."""
    if not truth.task.given.promised:
        return True
    prices = truth.prices(truth.task.x0[truth.row])
    values = truth.task.given.listed @ prices
    scale = np.abs(prices).sum() * max(1.0, np.abs(truth.factual).max())
    return bool(truth.factual @ prices <= values.min() + 1e-6 * scale)


def _promised(task: SweepTask) -> bool:
    """Whether an exact search serves every affine task of the kind."""
    contrastive = task.kind in ("relative", "absolute")
    return task.given.promised and (contrastive or task.pipeline.problem.decisions() is not None)
