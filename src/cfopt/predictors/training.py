"""Training a predictor, with the loss of one's choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cfopt.errors import InputError
from cfopt.images import as_floats
from cfopt.pipeline import Pipeline, relative_regret
from cfopt.predictors.losses import Loss

#: Contexts that are evaluated at once.
_AT_ONCE = 256


def fit(
    predictor: nn.Module,
    contexts: Tensor,
    costs: Tensor,
    loss: Loss,
    *,
    epochs: int,
    learning_rate: float = 1e-3,
    batch_size: int = 32,
    validation: tuple[Tensor, Tensor] | None = None,
    patience: int | None = None,
    generator: torch.Generator | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train with Adam, in place, and return the mean loss of each epoch.

    Arguments:
        predictor: what to train, `(B, ...) -> (B, n)`.
        contexts, costs: the data, `(N, ...)` and `(N, n)`; uint8 images are turned into floats
            batch by batch.
        loss: `MSE()` or `SPOPlus(problem)`.
        epochs, learning_rate, batch_size: as ever.
        validation: contexts and costs to judge each epoch by; the best weights are kept.
        patience: how many epochs without a better validation loss end the training.
        generator: decides the order of the data.
        on_epoch: called with the number of each epoch, from 1, and its mean loss: of the validation
            data if there are any.
    """
    _check(contexts, costs, "contexts")
    if validation is not None:
        _check(*validation, "validation contexts")
    elif patience is not None:
        raise InputError("patience needs validation=(contexts, costs) to judge epochs by.")
    targets = loss.targets(costs)
    judged = None if validation is None else loss.targets(validation[1])
    optimiser = torch.optim.Adam(predictor.parameters(), lr=learning_rate)
    history, best, idle = [], float("inf"), 0
    kept: dict[str, Tensor] = {}
    for epoch in range(1, epochs + 1):
        predictor.train()
        total = 0.0
        order = torch.randperm(len(contexts), generator=generator).to(contexts.device)
        for rows in torch.split(order, batch_size):
            value = loss(predictor(as_floats(contexts[rows])), costs[rows], targets[rows])
            optimiser.zero_grad()
            torch.autograd.backward(value)
            optimiser.step()
            total += value.item() * len(rows)
        predictor.eval()
        mean = total / len(contexts)
        if validation is not None and judged is not None:
            with torch.no_grad():
                predicted = _predict(predictor, validation[0])
                mean = loss(predicted, validation[1], judged).item()
            idle = 0 if mean < best else idle + 1
            if mean < best:
                best = mean
                kept = {name: value.clone() for name, value in predictor.state_dict().items()}
        history.append(mean)
        if on_epoch is not None:
            on_epoch(epoch, mean)
        if patience is not None and idle >= patience:
            break
    if kept:
        predictor.load_state_dict(kept)
    predictor.eval()
    return history


@dataclass(frozen=True)
class Quality:
    """How good a pipeline is on data that it has not seen.

    Arguments:
        cost_error: mean squared error of a predicted cost.
        absolute_error: mean absolute error of a predicted cost.
        regret: mean relative regret of its decisions, by the true costs.
        optimal: the share of decisions that are the best there are.
    """

    cost_error: float
    absolute_error: float
    regret: float
    optimal: float


def assess(pipeline: Pipeline, contexts: Tensor, costs: Tensor) -> Quality:
    """Compare a pipeline with true costs.

    Arguments:
        pipeline: predictor and problem.
        contexts, costs: data that were not trained on, `(N, ...)` and `(N, n)`.
    """
    _check(contexts, costs, "contexts")
    with torch.no_grad(), pipeline.deployed():
        predicted = _predict(pipeline.predict, contexts)
        error = predicted - costs
        decisions = pipeline.problem.solve(predicted)
        regret = relative_regret(pipeline.problem, decisions, costs)
    return Quality(
        cost_error=error.square().mean().item(),
        absolute_error=error.abs().mean().item(),
        regret=regret.mean().item(),
        optimal=(regret <= 1e-9).double().mean().item(),
    )


def _predict(predictor: Callable[[Tensor], Tensor], contexts: Tensor) -> Tensor:
    return torch.cat([predictor(as_floats(part)) for part in contexts.split(_AT_ONCE)])


def _check(contexts: Tensor, costs: Tensor, name: str) -> None:
    if len(contexts) != len(costs) or len(contexts) == 0:
        raise InputError(
            f"Training and assessment need as many {name} as costs and at least one, got "
            f"{len(contexts)} and {len(costs)}."
        )
