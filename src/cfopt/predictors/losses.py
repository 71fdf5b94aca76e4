"""Training losses: how wrong predicted costs are, as numbers or as decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from cfopt.errors import SolverError
from cfopt.problems.base import Problem


class Loss(ABC):
    """How good predicted costs are, averaged over the batch."""

    def targets(self, costs: Tensor) -> Tensor:
        """What the loss needs to know about the true costs, computed once: `(N, n) -> (N, ...)`."""
        return costs

    @abstractmethod
    def __call__(self, predicted: Tensor, costs: Tensor, targets: Tensor) -> Tensor:
        """Predicted and true costs `(B, n)`, and the targets of the same rows."""


@dataclass(frozen=True)
class MSE(Loss):
    """The mean squared error of the costs."""

    def __call__(self, predicted: Tensor, costs: Tensor, targets: Tensor) -> Tensor:
        """`mean (predicted - costs)^2`, over rows and costs."""
        return (predicted - costs).square().mean()


@dataclass(frozen=True)
class SPOPlus(Loss):
    """The SPO+ loss of Elmachtoub and Grigas (2022), on the batched solver.

        -min_y <2 p - c, y> + 2 <p, y*(c)> - <c, y*(c)>

    for predicted prices p and true prices c, in minimisation form. The minimiser is piecewise
    constant, so that with it detached autograd gives the subgradient `2 (y*(c) - y*(2 p - c))`.

    Arguments:
        problem: the problem whose decisions count.
    """

    problem: Problem

    def targets(self, costs: Tensor) -> Tensor:
        """The best decisions for the true costs: `(N, n) -> (N, m)`."""
        return self.problem.solve(costs)

    def __call__(self, predicted: Tensor, costs: Tensor, targets: Tensor) -> Tensor:
        """The loss, averaged over rows; one batched solve."""
        shifted = 2 * self.problem.prices(predicted) - self.problem.prices(costs)
        solved = self.problem.attempt(shifted)
        if solved.failures:
            reason = next(iter(solved.failures.values()))
            raise SolverError(f"SPO+ needs an optimum for 2 predicted - true costs: {reason}")
        loss = shifted * (targets - solved.decisions)
        return self.problem.sense.sign * loss.sum(1).mean()
