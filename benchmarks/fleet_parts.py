"""Where the CPU time of parts goes: solver, predictor and master, and all else."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cfopt
from benchmarks import tasks
from cfopt.exact.geometry import Master
from cfopt.fleet.folder import RunFolder
from cfopt.fleet.part import keep_part
from cfopt.pipeline import Pipeline
from cfopt.problems import MILP, Problem
from cfopt.running.threads import of_torch
from cfopt.search import tangents


def inside_parts(scale: float = 1.0) -> list[dict[str, Any]]:
    """Where the CPU time of parts goes: solver, predictor and master, and all else.

    Whole parts, read, explained and written, in batches as large as those of a run of 100,000 rows
    (of the model of 100 columns smaller ones, since a row takes so long). The solver is
    `Problem.attempt`; the predictor its forward and backward passes; the master the quadratic
    program over cuts or tangent planes, from which the next point comes, with the rows that are
    added to it. What makes these rows, verification, the check of proofs, and reading and writing
    are all else.
    """
    lines = []
    for name, build in _PIPELINES.items():
        clock, total, rows = _Clock(), 0.0, 0
        with tempfile.TemporaryDirectory() as folder, of_torch(1):
            work = cfopt.fleet.explain_dataset(**build(scale), folder=folder).work
            kept = RunFolder(Path(folder), work)
            kept.make()
            work.explain(range(1))  # loads what is loaded once
            largest = max(len(part) for part in work.parts)
            with clock.watching():
                for k, part in enumerate(work.parts):
                    if len(part) == largest:
                        start = time.process_time()
                        keep_part(kept, k)
                        total += time.process_time() - start
                        rows += len(part)
        total, spent = clock.without_itself(total)
        outside = total - sum(spent.values())
        lines.append(
            {
                "pipeline": name,
                "rows": rows,
                "batch": work.batch,
                "ms of CPU a row": 1000 * total / rows,
                **{f"{what}, %": 100 * seconds / total for what, seconds in spent.items()},
                "outside, %": 100 * outside / total,
                "outside, ms a row": 1000 * outside / rows,
            }
        )
    return lines


def _cost_of_a_call(calls: int = 2000) -> tuple[float, float]:
    """What the clock adds to a call that it times, and what of it the clock itself sees."""
    own = _Clock()
    nothing = own._timed(lambda: None, "solver")
    start = time.process_time()
    for _ in range(calls):
        nothing()
    return (time.process_time() - start) / calls, own.spent["solver"] / calls


class _Clock:
    """CPU time within some functions, the outermost of them only; without its own."""

    def __init__(self) -> None:
        self.spent = {"solver": 0.0, "predictor": 0.0, "master": 0.0}
        self._inside = False
        self._calls = dict.fromkeys(self.spent, 0)

    def without_itself(self, total: float) -> tuple[float, dict[str, float]]:
        """A total, and what of it was spent where, less what reading the clock takes.

        That is a call of the system, and there are a dozen of them for each row.
        """
        # The least of some measurements: whatever disturbs them only adds to them.
        around, within = map(min, zip(*(_cost_of_a_call() for _ in range(20)), strict=True))
        spent = {what: self.spent[what] - within * n for what, n in self._calls.items()}
        return total - around * sum(self._calls.values()), spent

    @contextmanager
    def watching(self) -> Iterator[None]:
        places = [
            (Problem, "attempt", "solver"),
            (Pipeline, "predict", "predictor"),
            (Pipeline, "deployed", "predictor"),
            (torch.autograd, "grad", "predictor"),
            (Master, "solve", "master"),
            (Master, "hurry", "master"),
            (Master, "add", "master"),
            (tangents, "nearest_by_dual", "master"),
        ]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        for (owner, name, what), (_, _, call) in zip(places, before, strict=True):
            setattr(owner, name, self._timed(call, what))
        try:
            yield
        finally:
            for owner, name, call in before:
                setattr(owner, name, call)

    def _timed(self, call: Callable[..., Any], what: str) -> Callable[..., Any]:
        def timed(*given: Any, **more: Any) -> Any:
            if self._inside:
                return call(*given, **more)
            self._inside, start = True, time.process_time()
            try:
                return call(*given, **more)
            finally:
                self._inside = False
                self._calls[what] += 1
                self.spent[what] += time.process_time() - start

        return timed


def _grid(scale: float) -> dict[str, Any]:
    rows = 2048 * (2 + max(1, round(10 * scale)))  # the first and last parts are smaller
    bench = tasks.grid(pool=rows)
    return {
        "data": bench.contexts,
        "pipeline": bench.pipeline,
        "criterion": cfopt.Absolute(bench.alternatives),
    }


def _milp(scale: float) -> dict[str, Any]:
    """A mixed-integer model of 100 columns: a knapsack with two rows."""
    rows = 16 * max(1, round(4 * scale))
    generator = np.random.default_rng(0)
    weights = generator.integers(1, 20, (2, 100)).astype(float)
    problem = MILP(
        weights, np.full(2, -np.inf), weights.sum(1) / 4, upper=1.0, integer=True, sense="max"
    )
    layer = torch.nn.Linear(10, 100).double()
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(generator.standard_normal((100, 10))))
        layer.bias.fill_(8.0)
    pipeline = Pipeline(layer, problem)
    x = torch.from_numpy(generator.standard_normal((rows, 10)))
    plans = pipeline.decide(x + 0.05 * torch.from_numpy(generator.standard_normal(x.shape)))
    criterion = cfopt.Relative(plans)
    return {"data": x, "pipeline": pipeline, "criterion": criterion, "batch": 16, "part": 16}


def _terrain(scale: float) -> dict[str, Any]:
    rows = 16 * max(1, round(4 * scale))
    models = cfopt.load_terrain(2 * rows)
    plans = models.pipeline.decide(models.maps[rows:])
    return {
        "data": models.maps[:rows],
        "pipeline": models.pipeline,
        "criterion": cfopt.Absolute(plans),
        "part": 16,
    }


_PIPELINES = {"grid, 5x5": _grid, "MILP, 100 columns": _milp, "terrain, pixels": _terrain}
