"""Predictors with several layers: the default search beside MDMM, with and without references.

The search alone: what it takes to prove that answers are the nearest is in the group predictors.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

import cfopt
from cfopt.datasets import synthetic
from cfopt.predictors import MSE, fit, mlp
from cfopt.search.fallback import Fallback, Refined

_TASKS = 100
#: What the default search does for a network, but for its proofs.
_UNPROVED = Fallback(
    (cfopt.Sequential(), Refined(cfopt.MDMM(max_steps=1000), cfopt.Sequential(restarts=0)))
)
DEPTHS = (2, 3, 4, 5)


def compare() -> list[dict[str, Any]]:
    """100 absolute and 100 epsilon tasks for each problem and depth, and all of them together."""
    rows = []
    sums = dict.fromkeys(
        ("auto", "MDMM", "found", "theirs", "both", "farther", "loss", "their"), 0.0
    )
    for name in ("grid", "knapsack"):
        for depth in DEPTHS:
            pipeline, x0, wanted, known = bench(name, depth)
            epsilon = cfopt.Epsilon(1.0 if name == "grid" else 0.1)
            for kind, criterion in (("absolute", cfopt.Absolute(wanted)), ("epsilon", epsilon)):
                rows.append(
                    _row(f"{name}, L = {depth}, {kind}", pipeline, x0, criterion, known, sums)
                )
    rows.append(
        {
            "tasks": "all",
            "found": int(sums["found"]),
            "by MDMM": int(sums["theirs"]),
            "both": int(sums["both"]),
            "no farther, %": 100 * (1 - sums["farther"] / sums["both"]),
            "loss / MDMM's": sums["loss"] / sums["their"],
            "seconds": sums["auto"],
            "MDMM seconds": sums["MDMM"],
            "time / MDMM's": sums["auto"] / sums["MDMM"],
            "valid reference": "",
            "answered with it": "",
        }
    )
    return rows


def _row(
    title: str,
    pipeline: cfopt.Pipeline,
    x0: Tensor,
    criterion: cfopt.Criterion,
    known: Tensor,
    sums: dict[str, float],
) -> dict[str, Any]:
    step = 0.1 if "grid" in title else 0.01
    ours, seconds = _timed(lambda: cfopt.explain(x0, pipeline, criterion, search=_UNPROVED))
    search = cfopt.MDMM(step=step)
    theirs, their_seconds = _timed(lambda: cfopt.explain(x0, pipeline, criterion, search=search))
    answered = ours.valid.clone()
    rest = (~answered).nonzero().flatten()
    if len(rest):
        asked = criterion[rest]
        own_units = cfopt.Features(scale=[1.0] * x0.shape[1])
        helped = cfopt.explain(
            x0[rest], pipeline, asked, search=_UNPROVED, reference=known, features=own_units
        )
        answered[rest] = helped.valid
    possible = _has_valid_reference(pipeline, criterion, ours.factual, known)
    both = ours.valid & theirs.valid
    # As far as the tolerance of validity moves a boundary.
    farther = int((ours.loss[both] > theirs.loss[both] * (1 + 1e-4)).sum())
    loss, their_loss = float(ours.loss[both].sum()), float(theirs.loss[both].sum())
    for name, value in (
        ("auto", seconds),
        ("MDMM", their_seconds),
        ("found", int(ours.valid.sum())),
        ("theirs", int(theirs.valid.sum())),
        ("both", int(both.sum())),
        ("farther", farther),
        ("loss", loss),
        ("their", their_loss),
    ):
        sums[name] += value
    return {
        "tasks": title,
        "found": int(ours.valid.sum()),
        "by MDMM": int(theirs.valid.sum()),
        "both": int(both.sum()),
        "no farther, %": 100 * (1 - farther / int(both.sum())),
        "loss / MDMM's": loss / their_loss,
        "seconds": seconds,
        "MDMM seconds": their_seconds,
        "time / MDMM's": seconds / their_seconds,
        "valid reference": int(possible.sum()),
        "answered with it": int((answered & possible).sum()),
    }


def _has_valid_reference(
    pipeline: cfopt.Pipeline, criterion: cfopt.Criterion, factual: Tensor, known: Tensor
) -> Tensor:
    """For which tasks some reference is itself an explanation, by definition."""
    sign = pipeline.problem.sense.sign
    costs = sign * pipeline.costs(known).detach()
    best = (costs * pipeline.decide(known)).sum(1)
    if isinstance(criterion, cfopt.Epsilon):
        value = costs @ factual.T
        return (best + criterion.epsilon * best.abs() <= value.T).any(1)
    return (costs @ criterion.alternative.T <= best[:, None] + 1e-9).any(0)


def _timed(work: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def bench(name: str, depth: int) -> tuple[cfopt.Pipeline, Tensor, Tensor, Tensor]:
    """A network trained with the mean squared error, as for the paper's figures against depth."""
    if name == "grid":
        data, train = synthetic.grid(1000 + 2 * _TASKS, 10, 5, 5), 1000
        epochs, learning_rate = 70, 3e-3
    else:
        data, train = synthetic.knapsack(5000 + 2 * _TASKS, 5, 16), 5000
        epochs, learning_rate = 30, 1e-3
    contexts, costs = data.contexts.double(), data.costs.double()
    torch.manual_seed(depth)
    predictor = mlp(contexts.shape[1], data.problem.num_costs, depth).double()
    generator = torch.Generator().manual_seed(0)
    known = contexts[:train]
    fit(
        predictor,
        known,
        costs[:train],
        MSE(),
        epochs=epochs,
        learning_rate=learning_rate,
        generator=generator,
    )
    pipeline = cfopt.Pipeline(predictor, data.problem)
    x0 = contexts[train : train + _TASKS]
    optima = data.problem.solve(costs[train + _TASKS :])
    factual = pipeline.decide(x0)
    wanted = [
        next(y for y in optima.roll(-i, 0) if (y != own).any()) for i, own in enumerate(factual)
    ]
    return pipeline, x0, torch.stack(wanted), known
