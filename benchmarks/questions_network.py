"""Further questions behind a network of three layers: found, beside the nearest of many points.

Of wishes, few changes and balls nothing is proved there, so that the nearest of many drawn points
at which the question is answered, by the list of all decisions, is what answers are compared with.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

import cfopt
from benchmarks.networks import bench as trained
from cfopt.names import counted

#: Points that are drawn for each row, and how far away at most.
_SAMPLES, _FARTHEST = 20_000, 6.0
#: How far contexts may be off, at how many points that is tried, and of how many drawn points.
_RADIUS, _AROUND, _TRIED = 0.1, 200, 300
#: Changes that are asked about, options, the regret of epsilon, and the entries of the wish.
_MOST, _OPTIONS, _EPSILON, _THROUGH = 3, 3, 0.1, 5

#: Of one row: which of some contexts answer the question, `(N, p) -> (N,)`.
Holds: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class _Asked:
    """A question: its words, how it is asked, and what answers it in a row."""

    words: str
    criterion: cfopt.Criterion
    holds: Callable[[int], Holds]
    most: int | None = None
    robust: cfopt.Ball | None = None
    options: int = 1


def compare(tasks: int = 20, seed: int = 0) -> list[dict[str, Any]]:
    """Every kind of question about the 5x5 grid, of so many contexts."""
    pipeline, contexts, wanted, _ = trained("grid", 3)
    x0, wanted = contexts[:tasks], wanted[:tasks]
    return [
        _line(pipeline, x0, asked, torch.Generator().manual_seed(seed))
        for asked in _questions(pipeline, x0, wanted)
    ]


def _questions(pipeline: cfopt.Pipeline, x0: Tensor, wanted: Tensor) -> list[_Asked]:
    problem, factual = pipeline.problem, pipeline.decide(x0)
    listed = problem.decisions()
    foil = cfopt.Uses(_THROUGH)
    granted = torch.from_numpy(foil.conditions(problem).met(listed.numpy()))

    def values(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            costs = problem.sense.sign * pipeline.costs(x)
        return costs, costs @ listed.to(costs).T

    def relative(row: int, x: Tensor) -> Tensor:
        costs, _ = values(x)
        return costs @ wanted[row].to(costs) <= costs @ factual[row].to(costs)

    def absolute(row: int, x: Tensor) -> Tensor:
        costs, every = values(x)
        return costs @ wanted[row].to(costs) <= every.amin(1)

    def epsilon(row: int, x: Tensor) -> Tensor:
        costs, every = values(x)
        best = every.amin(1)
        return best + _EPSILON * best.abs() <= costs @ factual[row].to(costs)

    def wish(row: int, x: Tensor) -> Tensor:
        _, every = values(x)
        return every[:, granted].amin(1) <= every.amin(1)

    def of(one: Callable[[int, Tensor], Tensor]) -> Callable[[int], Holds]:
        return lambda row: partial(one, row)

    plan = cfopt.Absolute(wanted)
    return [
        _Asked("relative", cfopt.Relative(wanted), of(relative)),
        _Asked("absolute", plan, of(absolute)),
        _Asked("epsilon", cfopt.Epsilon(_EPSILON), of(epsilon)),
        _Asked(f"a wish: {foil.on(problem).phrase}", cfopt.Absolute(foil), of(wish)),
        *(
            _Asked(f"absolute, at most {counted(most, 'change')}", plan, of(absolute), most)
            for most in range(1, _MOST + 1)
        ),
        _Asked(f"absolute, a ball of {_RADIUS}", plan, of(absolute), robust=cfopt.Ball(_RADIUS)),
        _Asked(f"absolute, {_OPTIONS} options", plan, of(absolute), options=_OPTIONS),
    ]


def _line(
    pipeline: cfopt.Pipeline, x0: Tensor, asked: _Asked, generator: torch.Generator
) -> dict[str, Any]:
    began = time.process_time()
    e = cfopt.explain(
        x0,
        pipeline,
        asked.criterion,
        features=cfopt.Features(max_changes=asked.most),
        robust=asked.robust,
        options=asked.options,
    )
    seconds = time.process_time() - began
    best = torch.stack(
        [_nearest_drawn(x, asked.holds(row), asked, generator) for row, x in enumerate(x0)]
    )
    open_rows = torch.tensor([s is not cfopt.Status.ALREADY_VALID for s in e.status])
    found, drawn = e.answered & open_rows, best.isfinite() & open_rows
    both = found & drawn
    ratios = (e.loss[both] / best[both]).sqrt()
    proved = sum(s is cfopt.Status.PROVED_INFEASIBLE for s in e.status)
    return {
        "asked": asked.words,
        "rows": int(open_rows.sum()),
        "found": int(found.sum()),
        "found by drawing": int(drawn.sum()),
        "by both": int(both.sum()),
        "distance / nearest drawn, median": float(ratios.median()) if both.any() else "",
        "largest": float(ratios.max()) if both.any() else "",
        "optimal or proved": int((e.optimal & open_rows).sum()) + proved,
        "options": len(e.every_option()) if e.options is not None else "",
        "CPU s/row": seconds / len(x0),
    }


def _nearest_drawn(x0: Tensor, holds: Holds, asked: _Asked, generator: torch.Generator) -> Tensor:
    """The least squared distance of drawn points that answer a question about a context."""
    shape = (_SAMPLES, len(x0))
    step = torch.randn(shape, generator=generator, dtype=torch.float64)
    if asked.most is not None:  # whichever so few features change
        step *= torch.rand(shape, generator=generator).argsort(dim=1) < asked.most
    radius = _FARTHEST * torch.rand((_SAMPLES, 1), generator=generator, dtype=torch.float64)
    x = x0 + radius * step / step.norm(dim=1, keepdim=True)
    distance = torch.where(holds(x), (x - x0).square().sum(1), torch.inf)
    if asked.robust is None:
        return distance.amin()
    off = torch.randn((_AROUND, len(x0)), generator=generator, dtype=torch.float64)
    off *= _RADIUS / off.norm(dim=1, keepdim=True)
    for k in distance.argsort()[:_TRIED].tolist():
        if distance[k].isfinite() and holds(x[k] + off).all():
            return distance[k]
    return distance.new_tensor(torch.inf)
