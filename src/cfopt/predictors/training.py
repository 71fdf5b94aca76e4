"""Training a predictor, with any loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cfopt.errors import InputError
from cfopt.pipeline import Pipeline, relative_regret
from cfopt.pipeline.images import as_floats
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
        epochs, learning_rate, batch_size: as usual.
        validation: contexts and costs to judge each epoch by; the best weights are kept.
        patience: how many epochs without a better validation loss end the training.
        generator: decides the order of the data.
        on_epoch: called with the number of each epoch, from 1, and its mean loss: of the validation
            data if there are any.
    """
    examples = _Examples.of(contexts, costs, loss, "contexts")
    held_out = validation and _Examples.of(*validation, loss, "validation contexts")
    if patience is not None and (held_out is None or patience < 1):
        raise InputError(
            "patience needs validation=(contexts, costs) to judge epochs by, and to be at least 1; "
            f"got {patience}{' without validation' if held_out is None else ''}."
        )
    optimiser = torch.optim.Adam(predictor.parameters(), lr=learning_rate)
    history, best = [], _Best()
    for epoch in range(1, epochs + 1):
        order = torch.randperm(len(contexts), generator=generator).to(contexts.device)
        predictor.train()
        mean = _learn(predictor, loss, examples, torch.split(order, batch_size), optimiser)
        predictor.eval()
        if held_out is not None:
            mean = _judge(predictor, loss, held_out)
            best.offer(mean, predictor)
        history.append(mean)
        if on_epoch is not None:
            on_epoch(epoch, mean)
        if patience is not None and best.idle >= patience:
            break
    best.restore(predictor)
    predictor.eval()
    return history


@dataclass(frozen=True)
class _Examples:
    """Contexts, their true costs, and what a loss needs to know about these."""

    contexts: Tensor
    costs: Tensor
    targets: Tensor

    @classmethod
    def of(cls, contexts: Tensor, costs: Tensor, loss: Loss, name: str) -> _Examples:
        _check(contexts, costs, name)
        return cls(contexts, costs, loss.targets(costs))


@dataclass
class _Best:
    """The weights with the lowest loss so far, and how many epochs ago that was."""

    loss: float = math.inf
    idle: int = 0
    weights: dict[str, Tensor] | None = None

    def offer(self, loss: float, predictor: nn.Module) -> None:
        self.idle += 1
        if loss < self.loss:
            self.loss, self.idle = loss, 0
            self.weights = {name: w.clone() for name, w in predictor.state_dict().items()}

    def restore(self, predictor: nn.Module) -> None:
        if self.weights is not None:
            predictor.load_state_dict(self.weights)


def _learn(
    predictor: nn.Module,
    loss: Loss,
    examples: _Examples,
    batches: Sequence[Tensor],
    optimiser: torch.optim.Optimizer,
) -> float:
    """One step for each batch of rows; the mean loss on the way."""
    total = 0.0
    for rows in batches:
        costs = examples.costs[rows]
        predicted = predictor(as_floats(examples.contexts[rows]))
        if predicted.shape != costs.shape:  # MSE would stretch one column to all
            raise InputError(
                f"The predictor must return costs of shape {tuple(costs.shape)}, as the data have; "
                f"got {tuple(predicted.shape)}."
            )
        value = loss(predicted, costs, examples.targets[rows])
        optimiser.zero_grad()
        torch.autograd.backward(value)
        optimiser.step()
        total += value.item() * len(rows)
    return total / len(examples.costs)


def _judge(predictor: nn.Module, loss: Loss, examples: _Examples) -> float:
    """The loss on data that are not trained on."""
    with torch.no_grad():
        predicted = _predict(predictor, examples.contexts)
        return loss(predicted, examples.costs, examples.targets).item()


@dataclass(frozen=True)
class Quality:
    """How good a pipeline is on data that it has not seen.

    Arguments:
        cost_error: mean squared error of a predicted cost.
        absolute_error: mean absolute error of a predicted cost.
        regret: mean relative regret of its decisions, by the true costs.
        optimal: the fraction of decisions that are optimal.
    """

    cost_error: float
    absolute_error: float
    regret: float
    optimal: float


def assess(pipeline: Pipeline, contexts: Tensor, costs: Tensor) -> Quality:
    """Compare a pipeline with true costs of data that it has not seen: `(N, ...)` and `(N, n)`."""
    _check(contexts, costs, "contexts")
    with torch.no_grad(), pipeline.eval_mode():
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
    return torch.cat([predictor(as_floats(part)) for part in torch.split(contexts, _AT_ONCE)])


def _check(contexts: Tensor, costs: Tensor, name: str) -> None:
    if len(contexts) != len(costs) or len(contexts) == 0:
        raise InputError(
            f"Training and assessment need as many {name} as costs and at least one, got "
            f"{len(contexts)} and {len(costs)}."
        )
