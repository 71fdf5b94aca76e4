"""Explanations of maps: what a step costs, latent searches beside MDMM, naive and plausible."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import cfopt
from cfopt import metrics
from cfopt.engine.latent import LatentSpace
from cfopt.search import LatentReference
from cfopt.search.mdmm import _Run

TASKS = 40
#: Where the maps begin that played no role in the choice of any setting of a search.
HELD_OUT = 80
BETA = 10.0
#: By how much distances may differ and still count as the same.
_AS_NEAR = 1.0001
#: The paper's search, with the settings that the comparison asks for.
PAPER_SEARCH = cfopt.MDMM(step=0.003, max_steps=3000)


@dataclass(frozen=True)
class Bench:
    """40 unseen maps, and the best paths of 40 other unseen maps, different from their own."""

    models: cfopt.TerrainModels
    x0: Tensor
    wanted: Tensor
    references: Tensor

    @property
    def criterion(self) -> cfopt.Absolute:
        return cfopt.Absolute(self.wanted)


def bench(first: int = 0) -> Bench:
    """Maps from `first` on, with the best paths of others."""
    models = cfopt.load_terrain(300)
    decisions = models.pipeline.decide(models.maps)
    chosen = []
    for row in range(first, first + TASKS):
        other = row + 150
        while (decisions[other] == decisions[row]).all():
            other += 1
        chosen.append(other)
    return Bench(models, models.maps[first : first + TASKS], decisions[chosen], models.maps[chosen])


def step_cost(tasks: Bench, rounds: int = 12, steps: int = 12) -> list[dict[str, Any]]:
    """One MDMM step beside its bare passes through decoder and predictor, in turns."""
    pipeline, vae = tasks.models.pipeline, tasks.models.cost_aware_vae
    with torch.no_grad():
        codes = vae.encode(tasks.x0)
    factual = pipeline.decide(tasks.x0)
    criterion = tasks.criterion.bind(TASKS, factual)
    rules = cfopt.Rules(pipeline.problem, factual, criterion, dtype=tasks.x0.dtype)
    latent = LatentSpace(vae, codes, cfopt.Sphere(BETA))
    task = cfopt.Task(rules, cfopt.Space(tasks.x0, cfopt.L2(), latent=latent), pipeline.predictor)
    run = _Run(cfopt.MDMM(step=0.003, patience=10**6), task)
    weight = torch.rand(TASKS, 144)

    def bare() -> None:
        z = codes.clone().requires_grad_()
        x = vae.decode(z)
        costs = pipeline.predictor(x)
        torch.autograd.grad((costs, x), z, (weight, x.detach()))

    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(_clock(bare, steps))
        ours.append(_clock(lambda: run.advance(1), steps))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return [
        {
            "rows": TASKS,
            "MDMM step, ms": 1e3 * statistics.median(ours),
            "bare passes, ms": 1e3 * statistics.median(theirs),
            "ratio, median": statistics.median(ratios),
            "of the fastest": min(ours) / min(theirs),
        }
    ]


def searches(tasks: Bench) -> list[dict[str, Any]]:
    """The default search, alone and with the references, beside the paper's."""
    alone, seconds = _explain(tasks)
    helped, helped_seconds = _explain(tasks, reference=tasks.references)
    references, reference_seconds = _explain(tasks, search=LatentReference(tasks.references))
    theirs, their_seconds = _explain(tasks, search=PAPER_SEARCH)
    rows = []
    for name, e, took in (
        ("MDMM, K = 3000", theirs, their_seconds),
        ("auto", alone, seconds),
        ("auto, references", helped, helped_seconds),
        ("from references only", references, reference_seconds),
    ):
        with_mdmm, with_auto = e.valid & theirs.valid, e.valid & alone.valid
        rows.append(
            {
                "search": name,
                f"valid of {TASKS}": int(e.valid.sum()),
                "mean loss": float(e.loss[e.valid].mean()),
                "loss / MDMM's, both valid": _ratio(e, theirs, with_mdmm),
                "both": int(with_mdmm.sum()),
                "loss / auto's, both valid": _ratio(e, alone, with_auto),
                "passes a task": float(e.passes.double().mean()),
                "passes / MDMM's": float(e.passes.sum() / theirs.passes.sum()),
                "seconds": took,
                "time / MDMM's": took / their_seconds,
                "in sphere": int(e.in_sphere()[e.valid].sum()),
                "moved by model": int(e.reconstruction_moved.sum()),
            }
        )
    return rows


def plausibility(tasks: Bench) -> list[dict[str, Any]]:
    """Naive and plausible explanations judged with the cost-aware VAE, found without it."""
    naive = cfopt.explain(tasks.x0, tasks.models.pipeline, tasks.criterion, search=cfopt.MDMM())
    plausible, _ = _explain(tasks, generative=tasks.models.plain_vae)
    judge, pipeline = tasks.models.cost_aware_vae, tasks.models.pipeline
    rows = []
    for name, e in (("naive, among pixels", naive), ("plausible, alpha = 0", plausible)):
        x = e.x[e.valid]
        regret = 100 * metrics.decision_focused_error(x, pipeline, judge)
        error = metrics.reconstruction_error(x, judge)
        rows.append(
            {
                "explanations": name,
                "valid": int(e.valid.sum()),
                "distance, median": float(e.distance[e.valid].median()),
                "decision-focused error, median %": float(regret.median()),
                "mean %": float(regret.mean()),
                "reconstruction error, median": float(error.median()),
            }
        )
    medians = [row["decision-focused error, median %"] for row in rows]
    for row, value in zip(rows, medians, strict=True):
        row["naive / this"] = medians[0] / max(value, 1e-9)
    return rows


def naive(count: int = 12, first: int = 100) -> list[dict[str, Any]]:
    """Maps explained pixel by pixel, without a generative model: the default beside MDMM.

    Settings of `Tangents` were chosen on maps before these.
    """
    models = cfopt.load_terrain(300)
    maps = models.maps[first : first + count]
    wanted = models.pipeline.decide(models.maps[first + 150 : first + 150 + count])
    criteria = (
        cfopt.Relative(wanted),
        cfopt.Absolute(wanted),
        cfopt.Epsilon(0.1),
        cfopt.Epsilon(0.5),
    )
    return [line for one in criteria for line in beside_mdmm(maps, models.pipeline, one)]


def beside_mdmm(
    maps: Tensor, pipeline: cfopt.Pipeline, criterion: cfopt.Criterion
) -> list[dict[str, Any]]:
    """The default search among pixels, and MDMM, which takes all of its steps, of two lengths."""
    whole = cfopt.MDMM(max_steps=1000, patience=1000, counting=cfopt.Counting.ALL_STEPS)
    ways = {
        "auto": cfopt.Auto(),
        "MDMM, to its end": whole,
        "MDMM, a third of the step": replace(whole, step=whole.step / 3),
    }
    found = {}
    for name, search in ways.items():
        start = time.process_time()
        e = cfopt.explain(maps, pipeline, criterion, search=search)
        found[name] = e, time.process_time() - start
    theirs = [e for name, (e, _) in found.items() if name != "auto"]
    # What MDMM has not found is no nearer.
    distances = [e.distance.double().masked_fill(~e.valid, torch.inf) for e in theirs]
    least = torch.stack(distances).amin(0)
    kind = type(criterion).__name__
    if isinstance(criterion, cfopt.Epsilon):
        kind += f"({criterion.epsilon:g})"
    rows = []
    for name, (e, took) in found.items():
        distance = e.distance[e.valid].double()
        near = least.isinf() | (e.valid & (e.distance <= _AS_NEAR * least))
        rows.append(
            {
                "criterion": kind,
                "search": name,
                f"valid of {len(maps)}": int(e.valid.sum()),
                "distance, median": float(distance.quantile(0.5)) if len(distance) else "-",
                "mean": float(distance.mean()) if len(distance) else "-",
                "no farther than MDMM": int(near.sum()),
                "passes a task": float(e.passes.double().mean()),
                "passes / MDMM's": float(e.passes.sum() / theirs[0].passes.sum()),
                "CPU seconds": took,
            }
        )
    return rows


def reconstruction() -> list[dict[str, Any]]:
    """What is left of 1,000 test maps and their paths after each VAE."""
    models = cfopt.load_terrain(1000)
    rows = []
    for alpha, vae in ((0, models.plain_vae), (2, models.cost_aware_vae)):
        with torch.no_grad():
            rebuilt = torch.cat([vae(batch) for batch in torch.split(models.maps, 250)])
        true = models.pipeline.problem.solve(models.costs.double())
        regret = metrics.decision_focused_error(models.maps, models.pipeline, vae)
        rows.append(
            {
                "alpha": alpha,
                "regret, predicted costs, %": 100 * float(regret.mean()),
                "regret, true costs, %": 100 * float(models.pipeline.regret(rebuilt, true).mean()),
                "squared reconstruction error": float(
                    metrics.reconstruction_error(models.maps, vae).mean()
                ),
                "paper: regret, %": {0: 6.5, 2: 2.9}[alpha],
            }
        )
    return rows


def _explain(tasks: Bench, **changes: Any) -> tuple[cfopt.Explanation, float]:
    options = {
        "generative": tasks.models.cost_aware_vae,
        "plausibility": cfopt.Sphere(BETA),
    } | changes
    start = time.perf_counter()
    e = cfopt.explain(tasks.x0, tasks.models.pipeline, tasks.criterion, **options)
    return e, time.perf_counter() - start


def _ratio(e: cfopt.Explanation, other: cfopt.Explanation, rows: Tensor) -> float:
    return float(e.loss[rows].mean() / other.loss[rows].mean())


def _clock(work: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times
