"""Training losses: how wrong predicted costs are, as numbers or as decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from cfopt.problems.base import Problem


class Loss(ABC):
    """A mean over the batch of what predicted costs are worth."""

    @abstractmethod
    def __call__(self, predicted: Tensor, costs: Tensor, decisions: Tensor) -> Tensor:
        """Predicted and true costs `(B, n)`, and the true costs' best decisions `(B, m)`."""


@dataclass(frozen=True)
class MSE(Loss):
    """The mean squared error of the costs."""

    def __call__(self, predicted: Tensor, costs: Tensor, decisions: Tensor) -> Tensor:
        """`mean (predicted - costs)^2`, over rows and costs."""
        return (predicted - costs).square().mean()


@dataclass(frozen=True)
class SPOPlus(Loss):
    """The SPO+ loss of Elmachtoub and Grigas (2022), on the batched solver.

        -min_y <2 p - c, y> + 2 <p, y*(c)> - <c, y*(c)>

    for predicted prices p and true prices c, in minimisation form. The minimiser is piecewise
    constant, so that with it detached autograd gives the subgradient `2 (y*(c) - y*(2 p - c))`.

    Arguments:
        problem: whose decisions count.
    """

    problem: Problem

    def __call__(self, predicted: Tensor, costs: Tensor, decisions: Tensor) -> Tensor:
        """The loss, averaged over rows; one batched solve."""
        prices, true = self.problem.prices(predicted), self.problem.prices(costs)
        shifted = 2 * prices - true
        solved = self.problem.attempt(shifted)
        loss = (2 * prices - true) * (decisions - solved.decisions)
        return self.problem.sense.sign * loss.sum(1).mean()
