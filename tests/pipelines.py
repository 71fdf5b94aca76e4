"""Predictors, contexts and alternatives that many tests share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

import cfopt


def random_linear(features: int, costs: int, seed: int = 0, bias: float = 0.0) -> torch.nn.Linear:
    """A linear predictor in float64 with fixed weights of size one."""
    generator = torch.Generator().manual_seed(seed)
    layer = torch.nn.Linear(features, costs).double()
    with torch.no_grad():
        layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator))
        layer.bias.fill_(bias)
    return layer


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def another(pipeline: cfopt.Pipeline, x0: torch.Tensor) -> torch.Tensor:
    """Decisions of other contexts, each different from its row's own."""
    factual = pipeline.decide(x0)
    others = pipeline.decide(normal(50, x0.shape[1], seed=7))
    return torch.stack([others[(others != own).any(1)][k % 5] for k, own in enumerate(factual)])


def asking(e: cfopt.Explanation, **changes: Any) -> cfopt.Explanation:
    """An explanation as if something else had been asked."""
    other = replace(e, asked=replace(e.asked, **changes))
    alternative = getattr(other.criterion, "alternative", None)
    return other if alternative is None else replace(other, wanted=alternative)
