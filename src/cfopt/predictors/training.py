"""Training a predictor, with the loss of one's choice."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cfopt.errors import InputError
from cfopt.predictors.losses import Loss


def fit(
    predictor: nn.Module,
    contexts: Tensor,
    costs: Tensor,
    loss: Loss,
    *,
    epochs: int,
    learning_rate: float = 1e-3,
    batch_size: int = 32,
    generator: torch.Generator | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train with Adam, in place, and return the mean loss of each epoch.

    Arguments:
        predictor: what to train, `(B, ...) -> (B, n)`.
        contexts, costs: the data, `(N, ...)` and `(N, n)`.
        loss: `MSE()` or `SPOPlus(problem)`.
        epochs, learning_rate, batch_size: as ever.
        generator: decides the order of the data.
        on_epoch: called with the number of each epoch, from 1, and its mean loss.
    """
    if len(contexts) != len(costs) or len(contexts) == 0:
        raise InputError(
            f"fit needs as many contexts as costs and at least one, got {len(contexts)} and "
            f"{len(costs)}."
        )
    targets = loss.targets(costs)
    optimiser = torch.optim.Adam(predictor.parameters(), lr=learning_rate)
    history = []
    predictor.train()
    for epoch in range(1, epochs + 1):
        total = 0.0
        order = torch.randperm(len(contexts), generator=generator).to(contexts.device)
        for rows in torch.split(order, batch_size):
            value = loss(predictor(contexts[rows]), costs[rows], targets[rows])
            optimiser.zero_grad()
            torch.autograd.backward(value)
            optimiser.step()
            total += value.item() * len(rows)
        history.append(total / len(contexts))
        if on_epoch is not None:
            on_epoch(epoch, history[-1])
    predictor.eval()
    return history
