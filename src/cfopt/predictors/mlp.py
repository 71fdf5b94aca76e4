"""The paper's tabular predictors: linear regression, and a network of depth L."""

from __future__ import annotations

from torch import nn

from cfopt import registry
from cfopt.errors import InputError


@registry.predictors.register
def linear(num_features: int, num_costs: int) -> nn.Linear:
    """Linear regression: one affine layer."""
    return nn.Linear(num_features, num_costs)


@registry.predictors.register
def costs() -> nn.Identity:
    """No prediction: contexts are the costs themselves, for questions about prices."""
    return nn.Identity()


@registry.predictors.register
def mlp(num_features: int, num_costs: int, depth: int) -> nn.Sequential:
    """L >= 1 affine layers with ReLU between them; hidden layers are as wide as the input."""
    if depth < 1:
        raise InputError(f"mlp needs a depth of at least 1, got {depth}.")
    hidden: list[nn.Module] = []
    for _ in range(depth - 1):
        hidden += [nn.Linear(num_features, num_features), nn.ReLU()]
    return nn.Sequential(*hidden, linear(num_features, num_costs))
