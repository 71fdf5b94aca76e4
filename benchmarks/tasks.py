"""The pipelines and tasks that are measured, as in the paper's tabular experiments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import cfopt
from benchmarks.baseline import Settings
from cfopt.datasets import synthetic
from cfopt.predictors import SPOPlus, fit, linear

KINDS = ("relative", "absolute", "epsilon")


@dataclass(frozen=True)
class Bench:
    """A trained pipeline with contexts and alternatives, and the settings to explain it with."""

    name: str
    pipeline: cfopt.Pipeline
    contexts: Tensor
    alternatives: Tensor
    settings: Settings

    def criterion(self, kind: str, rows: slice | Tensor = slice(None)) -> cfopt.Criterion:
        if kind == "epsilon":
            return cfopt.Epsilon(self.settings.epsilon)
        return {"relative": cfopt.Relative, "absolute": cfopt.Absolute}[kind](
            self.alternatives[rows]
        )

    def search(self, **changes: object) -> cfopt.MDMM:
        given = {
            "step": self.settings.step,
            "damping": self.settings.damping,
            "max_steps": self.settings.max_steps,
            "patience": self.settings.patience,
            "improvement": self.settings.improvement,
        }
        return cfopt.MDMM(**(given | changes))


def grid(
    size: int = 5, features: int = 10, *, epochs: int = 70, seed: int = 135, pool: int = 200
) -> Bench:
    """The paper's grid: SPO+, 1,000 training points, Adam at 3e-4; step 0.1, epsilon 1."""
    data = synthetic.grid(1000 + 2 * pool, features, size, size, seed=seed)
    return _bench(f"grid {size}x{size}", data, 1000, pool, epochs, 3e-4, Settings(0.1, 1.0))


def knapsack(
    items: int = 16, features: int = 5, *, epochs: int = 30, seed: int = 135, pool: int = 200
) -> Bench:
    """The paper's knapsack: SPO+, 5,000 training points, Adam at 1e-3; step 0.01, epsilon 0.1."""
    data = synthetic.knapsack(5000 + 2 * pool, features, items, seed=seed)
    return _bench(f"knapsack {items}", data, 5000, pool, epochs, 1e-3, Settings(0.01, 0.1))


def untrained(data: synthetic.Synthetic) -> cfopt.Pipeline:
    """A linear predictor of mostly positive costs, as it is initialised."""
    torch.manual_seed(0)
    predictor = torch.nn.Linear(data.contexts.shape[1], data.problem.num_costs).double()
    with torch.no_grad():
        predictor.bias += 2
    return cfopt.Pipeline(predictor, data.problem)


def _bench(
    name: str,
    data: synthetic.Synthetic,
    train: int,
    pool: int,
    epochs: int,
    learning_rate: float,
    settings: Settings,
) -> Bench:
    contexts, costs = data.contexts.double(), data.costs.double()
    torch.manual_seed(0)
    predictor = linear(contexts.shape[1], data.problem.num_costs).double()
    fit(
        predictor,
        contexts[:train],
        costs[:train],
        SPOPlus(data.problem),
        epochs=epochs,
        learning_rate=learning_rate,
        generator=torch.Generator().manual_seed(0),
    )
    pipeline = cfopt.Pipeline(predictor, data.problem)
    x0 = contexts[train : train + pool]
    # The alternative is the true optimum of another test point, other than the factual decision.
    optima = data.problem.solve(costs[train + pool :])
    factual = pipeline.decide(x0)
    alternatives = torch.stack([_another(optima, i, own) for i, own in enumerate(factual)])
    return Bench(name, pipeline, x0, alternatives, settings)


def _another(optima: Tensor, first: int, own: Tensor) -> Tensor:
    """Of `(N, m)` decisions, looked through from one on, the first that is not a given one."""
    turns = (optima[(first + k) % len(optima)] for k in range(len(optima)))
    return next(y for y in turns if (y != own).any())
