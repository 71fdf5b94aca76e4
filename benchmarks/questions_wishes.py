"""Partial wishes: whether claims about them hold, and their time beside that of a full plan.

Claims are checked by listing all decisions: every answer must be one, and none of the contexts that
are drawn nearer to x0 than a bound, or anywhere where nothing is said to be possible, may be one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

import cfopt
from cfopt import Absolute, AtLeast, AtMost, Avoids, Condition, Features, Relative, Uses
from cfopt.datasets import synthetic
from cfopt.predictors import MSE, fit, mlp
from cfopt.problems import Problem
from cfopt.problems.foil import Foil

#: Contexts that each wish is asked about, and points that are drawn to contradict a claim.
_ROWS, _POINTS = 25, 400
#: Points that are drawn to find what a search behind a network should have found.
_SAMPLES = 4000


def affine(tasks: int = 1000, seed: int = 0) -> list[dict[str, Any]]:
    """Wishes of an affine pipeline, on the 5x5 grid and for 16 items: one line for each kind."""
    kinds = [(*named, kind) for named in _pipelines() for kind in (Absolute, Relative)]
    return [_checked(name, pipeline, kind, tasks, seed) for name, pipeline, kind in kinds]


def behind_a_network(tasks: int = 100, seed: int = 0) -> list[dict[str, Any]]:
    """Wishes of a network of three layers beside the nearest of many points."""
    torch.manual_seed(seed)
    data = synthetic.grid(1000, 10, 5, 5, seed=seed)
    network = mlp(10, data.problem.num_costs, depth=3).double()
    generator = torch.Generator().manual_seed(seed)
    contexts, costs = data.contexts.double(), data.costs.double()
    fit(network, contexts, costs, MSE(), epochs=70, learning_rate=3e-3, generator=generator)
    pipeline = cfopt.Pipeline(network, data.problem)
    count = found = met = both = 0
    ours = drawn = 0.0
    for foil, x0 in _asked(pipeline, tasks, seed):
        e = cfopt.explain(x0, pipeline, Absolute(foil))
        open_rows = ~torch.tensor([s is cfopt.Status.ALREADY_VALID for s in e.status])
        best = torch.stack([_nearest_drawn(pipeline, foil, x, seed) for x in x0])
        known = e.valid & open_rows & best.isfinite()
        count += int(open_rows.sum())
        found += int((e.valid & open_rows).sum())
        met += int((best.isfinite() & open_rows).sum())
        both += int(known.sum())
        ours, drawn = ours + float(e.loss[known].sum()), drawn + float(best[known].sum())
    return [
        {
            "tasks": "grid 5x5, 3 layers",
            "asked": count,
            "found": found,
            "found by drawing": met,
            "by both": both,
            "loss / that of the nearest drawn": ours / drawn if drawn else float("nan"),
        }
    ]


def _checked(
    name: str, pipeline: cfopt.Pipeline, kind: type[cfopt.Contrastive], tasks: int, seed: int
) -> dict[str, Any]:
    count = settled = refuted = 0
    wish_seconds = plan_seconds = 0.0
    generator = torch.Generator().manual_seed(seed)
    for k, (foil, x0) in enumerate(_asked(pipeline, tasks, seed)):
        features = Features(lower=-3.0, upper=3.0) if k % 3 == 1 else None
        near = cfopt.L1() if k % 4 == 3 else None
        start = time.perf_counter()
        e = cfopt.explain(x0, pipeline, kind(foil), features=features, proximity=near)
        wish_seconds += time.perf_counter() - start
        start = time.perf_counter()
        cfopt.explain(x0, pipeline, kind(e.wanted), features=features, proximity=near)
        plan_seconds += time.perf_counter() - start
        hopeless = torch.tensor([s is cfopt.Status.PROVED_INFEASIBLE for s in e.status])
        count += len(e)
        settled += int((e.optimal | hopeless).sum())
        holds = _holds(pipeline, kind, foil, e.factual[:, None], e.x[:, None], slack=1e-5)[:, 0]
        refuted += int((e.valid & ~holds).sum())
        refuted += int(_contradicted(e, pipeline, kind, foil, near, features, generator).sum())
    return {
        "tasks": name,
        "question": kind.__name__,
        "asked": count,
        "optimal or proved, %": 100 * settled / count,
        "refuted": refuted,
        "seconds": wish_seconds,
        "seconds with the full plan": plan_seconds,
        "time / with the full plan": wish_seconds / plan_seconds,
    }


def _pipelines() -> Iterator[tuple[str, cfopt.Pipeline]]:
    for name, data in (
        ("grid 5x5", synthetic.grid(1, 10, 5, 5, seed=1)),
        ("knapsack 16", synthetic.knapsack(1, 5, 16, seed=1)),
    ):
        torch.manual_seed(0)
        predictor = torch.nn.Linear(data.contexts.shape[1], data.problem.num_costs).double()
        with torch.no_grad():
            predictor.bias += 2
        yield name, cfopt.Pipeline(predictor, data.problem)


def wishes(problem: Problem, seed: int) -> Iterator[Foil]:
    """Random wishes that some decision grants, without end."""
    rng, listed = np.random.default_rng(seed), problem.decisions().numpy()
    while True:
        foil = _wish(rng, problem.num_columns)
        if foil.conditions(problem).met(listed).any():
            yield foil


def _asked(pipeline: cfopt.Pipeline, tasks: int, seed: int) -> Iterator[tuple[Foil, Tensor]]:
    """Random wishes that are not empty, each with contexts."""
    size = next(pipeline.predictor.parameters()).shape[1]
    generator = torch.Generator().manual_seed(seed)
    given, asked = 0, wishes(pipeline.problem, seed)
    while given < tasks:
        foil = next(asked)
        rows = min(_ROWS, tasks - given)
        given += rows
        x0 = torch.randn((rows, size), generator=generator, dtype=torch.float64)
        yield foil, x0.clamp(-3, 3)


def _wish(rng: np.random.Generator, columns: int) -> Foil:
    def some(k: int) -> list[int]:
        return [int(j) for j in rng.choice(columns, k, replace=False)]

    kinds = [
        lambda: Uses(*some(int(rng.integers(1, 3)))),
        lambda: Avoids(*some(int(rng.integers(1, 4)))),
        lambda: AtLeast(2, some(6)),
        lambda: AtMost(1, some(6)),
        lambda: Condition(dict(zip(some(4), rng.integers(-2, 3, 4) * 1.0, strict=True)), lower=1),
        lambda: Uses(*some(1)) & Avoids(*some(2)),
    ]
    return kinds[int(rng.integers(len(kinds)))]()


def _holds(
    pipeline: cfopt.Pipeline,
    kind: type[cfopt.Contrastive],
    foil: Foil,
    factual: Tensor,
    x: Tensor,
    slack: float,
) -> Tensor:
    """Whether some plan is good enough, by the list of all decisions: `(B, K, p) -> (B, K)`."""
    problem = pipeline.problem
    listed = problem.decisions()
    granted = torch.from_numpy(foil.conditions(problem).met(listed.numpy()))
    with torch.no_grad():
        costs = problem.sense.sign * pipeline.costs(x.flatten(0, 1))
    values = costs @ listed.T
    rival = values.amin(1)
    if kind is Relative:
        rival = (costs * factual.expand(-1, x.shape[1], -1).flatten(0, 1)).sum(1)
    excess = values[:, granted].amin(1) - rival
    return (excess <= slack * costs.abs().sum(1)).view(x.shape[:2])


def _contradicted(
    e: cfopt.Explanation,
    pipeline: cfopt.Pipeline,
    kind: type[cfopt.Contrastive],
    foil: Foil,
    near: cfopt.Proximity | None,
    features: Features | None,
    generator: torch.Generator,
) -> Tensor:
    """Which bounds and proofs are refuted by one of many points drawn where they say none is."""
    shape = (len(e), _POINTS, e.x.shape[1])
    step = torch.randn(shape, generator=generator, dtype=torch.float64)
    size = step.abs().sum(2) if near is not None else step.norm(dim=2)
    reach = e.bound if near is not None else e.bound.sqrt()
    reach = torch.where(reach.isinf(), 4.0, reach)[:, None]
    length = reach * torch.rand(shape[:2], generator=generator, dtype=torch.float64) ** 0.2
    x = e.x0[:, None] + step * (0.999 * length / size)[..., None]
    allowed = torch.ones(shape[:2], dtype=torch.bool)
    if features is not None:
        allowed = (x.abs() <= 3).all(2)
    holds = _holds(pipeline, kind, foil, e.factual[:, None], x, slack=-1e-9)
    return (holds & allowed).any(1) & (e.bound > 0)


def _nearest_drawn(pipeline: cfopt.Pipeline, foil: Foil, x0: Tensor, seed: int) -> Tensor:
    """The least squared distance of points drawn around a context that are valid, or inf."""
    generator = torch.Generator().manual_seed(seed)
    step = torch.randn((_SAMPLES, len(x0)), generator=generator, dtype=torch.float64)
    radius = 6 * torch.rand((_SAMPLES, 1), generator=generator, dtype=torch.float64)
    x = x0 + radius * step / step.norm(dim=1, keepdim=True)
    holds = _holds(pipeline, Absolute, foil, x0.new_zeros((1, 1, 1)), x[None], slack=0.0)[0]
    return torch.where(holds, (x - x0).square().sum(1), torch.inf).amin()
