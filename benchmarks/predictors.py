"""Predictors without a gradient: exact answers behind tree ensembles, and other means beside them.

Seconds are those of one core, of the whole call: search, verification and the check of the proof.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import torch

import cfopt
from benchmarks.cp_sat import ForestModel
from benchmarks.forests import SETTINGS, ForestTasks, Setting, seconds_of, warm_up
from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.running.threads import of_torch
from cfopt.search import DerivativeFree, TreeCells

_CP_SAT_ROWS, _CP_SAT_SECONDS = 6, 60.0
_FREE_ROWS, _IN_ONE_CALL = 24, 24
#: How many times as fast as CP-SAT answers are promised to be.
_FASTER = 50


def exact(settings: Sequence[Setting] = SETTINGS) -> list[dict[str, Any]]:
    """Absolute questions one at a time: how many are answered and proved, and how fast."""
    with of_torch(1):
        warm_up()
        return [_measure(ForestTasks.of(setting)) for setting in settings]


def _measure(tasks: ForestTasks) -> dict[str, Any]:
    setting = tasks.setting
    search = TreeCells(seconds_a_row=setting.seconds)
    timed = [
        seconds_of(lambda k=k: tasks.explain(slice(k, k + 1), search)) for k in range(setting.rows)
    ]
    seconds = [one for _, one in timed]
    found = cfopt.Explanation.concat([one for one, _ in timed])
    # A bound of nothing is a gap of everything; where nothing has to change there is none.
    moved = found.valid & (found.loss > 0)
    gap = torch.zeros(len(found.x), dtype=torch.float64)
    gap[moved] = (1 - found.bound.nan_to_num(0.0) / found.loss)[moved]
    gap = gap[found.valid]
    answered, proved = int(found.valid.sum()), int((found.optimal & found.valid).sum())
    return {
        "predictor": setting.name,
        "rows": setting.rows,
        "seconds allowed": setting.seconds,
        "answered": answered,
        "proved": proved,
        "median s": statistics.median(seconds),
        "largest s": max(seconds),
        "mean gap": float(gap.clamp(min=0).mean()),
        "largest gap": float(gap.clamp(min=0).max()),
        "bar": str(setting.bar),
        "kept": setting.bar.kept(setting.rows, answered, proved, seconds),
    }


def second_opinion(
    rows: int = _CP_SAT_ROWS,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The same optimum by CP-SAT, on the smallest forest, with cuts until the solver agrees.

    Neither is told of other contexts, and both are timed from the question to the answer. Ours has
    been verified and its proof checked by then; so the search alone is timed as well, which does
    what CP-SAT does. A second table has medians, and whether they keep the bar; and the time of
    each question where many are asked in one call.
    """
    tasks = ForestTasks.of(SETTINGS[0])
    model, search = ForestModel(tasks.model), _TimedTreeCells(seconds_a_row=_CP_SAT_SECONDS)
    lines = []
    with of_torch(1):
        warm_up()
        for k in range(rows):
            row = slice(k, k + 1)
            ours, own = seconds_of(lambda row=row: tasks.explain(row, search, reference=False))
            x0, wanted = tasks.contexts[k].numpy(), tasks.alternative(row)[0].numpy()
            problem, factual = tasks.pipeline.problem, tasks.decisions[k].numpy()
            theirs = model.nearest(x0, wanted, factual, problem, _CP_SAT_SECONDS)
            loss = float(ours.loss[0])
            lines.append(
                {
                    "row": k,
                    "loss": loss,
                    "proved": bool(ours.optimal[0]),
                    "CP-SAT proved": theirs.proved,
                    "CP-SAT's loss / ours - 1": theirs.loss / loss - 1,
                    "same to 1e-6": theirs.proved and abs(theirs.loss / loss - 1) <= 1e-6,
                    "cuts": theirs.cuts,
                    "s": own,
                    "search s": search.spent[-1],
                    "CP-SAT s": theirs.seconds,
                    "last solve, with all cuts": theirs.last,
                    "CP-SAT s / s": theirs.seconds / own,
                    "CP-SAT s / search s": theirs.seconds / search.spent[-1],
                    "last solve / s": theirs.last / own,
                }
            )
        every = slice(0, _IN_ONE_CALL)
        _, together = seconds_of(lambda: tasks.explain(every, TreeCells(), reference=False))
    return lines, [_together(lines, together / _IN_ONE_CALL)]


def _together(lines: list[dict[str, Any]], in_one_call: float) -> dict[str, Any]:
    """The medians of all lines, and whether they keep the bar; asked one by one, or in one call."""
    numbers = ("s", "search s", "CP-SAT s", "CP-SAT s / s", "CP-SAT s / search s")
    middle = {name: statistics.median(line[name] for line in lines) for name in numbers}
    agree = all(line["same to 1e-6"] for line in lines)
    faster = {f"{_FASTER:g} times faster": middle["CP-SAT s / s"] >= _FASTER}
    search = {f"{_FASTER:g} times, search alone": middle["CP-SAT s / search s"] >= _FASTER}
    whole = {"s in one call": in_one_call, "CP-SAT s / that": middle["CP-SAT s"] / in_one_call}
    return {"rows": len(lines), "same to 1e-6": agree, **middle, **whole, **faster, **search}


@dataclass(frozen=True)
class _TimedTreeCells(TreeCells):
    """`TreeCells` that notes its seconds of a core."""

    spent: list[float] = field(default_factory=list, compare=False)

    def steps(self, task: Task) -> Iterator[Progress]:
        start = process_time()
        found = list(super().steps(task))
        self.spent.append(process_time() - start)
        yield from found


def derivative_free(rows: int = _FREE_ROWS) -> list[dict[str, Any]]:
    """The search that needs nothing but costs, beside the exact distance on the smallest forest."""
    tasks, all_rows = ForestTasks.of(SETTINGS[0]), slice(0, rows)
    with of_torch(1):
        warm_up()
        best = tasks.explain(all_rows, TreeCells())
        return [_beside(best, tasks, all_rows, reference) for reference in (True, False)]


def _beside(
    best: cfopt.Explanation, tasks: ForestTasks, rows: slice, reference: bool
) -> dict[str, Any]:
    found, seconds = seconds_of(lambda: tasks.explain(rows, DerivativeFree(), reference))
    # Where the factual context is an answer itself there is no distance.
    both = best.optimal & best.valid & found.valid & (best.loss > 0)
    # Distances, not their squares.
    ratio = (found.loss[both] / best.loss[both]).sqrt()
    return {
        "start": "training data" if reference else "nothing known",
        "rows": len(found.x),
        "have an answer": int(best.valid.sum()),
        "answered": int(found.valid.sum()),
        "compared": int(both.sum()),
        "median distance / exact": float(torch.quantile(ratio, 0.5)),
        "worst": float(ratio.max()),
        "s/row": seconds / len(found.x),
    }
