"""A pipeline: a predictor turns contexts into costs, a problem turns costs into decisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from cfopt.errors import PredictorError
from cfopt.pipeline.adapted import Adapted, as_predictor
from cfopt.pipeline.contexts import as_batch
from cfopt.pipeline.eval_mode import eval_mode
from cfopt.problems.base import Problem
from cfopt.problems.pyepo import PyEPOProblem
from cfopt.problems.sense import Sense


class Pipeline:
    """`x -> costs = predictor(x) -> best decision`.

    Arguments:
        predictor: a module, a fitted model of another library, or any function of tensors or
            arrays, `(B, ...) -> (B, n)`.
        problem: a `Problem`, or a PyEPO `optModel`.
    """

    def __init__(self, predictor: Any, problem: Problem | Any) -> None:
        self.predictor = as_predictor(predictor)
        self.problem = problem if isinstance(problem, Problem) else PyEPOProblem(problem)
        self.problem.sense = Sense(self.problem.sense)  # a new problem may say "max"

    @contextmanager
    def eval_mode(self) -> Iterator[None]:
        """The predictor in eval mode, and afterwards given back as it was."""
        with eval_mode(self.predictor):
            yield

    def predict(self, x: Tensor) -> Tensor:
        """The predictor's output as it is, checked for shape only: `(B, ...) -> (B, n)`."""
        return self._checked(x, self.predictor(x))

    def deployed(self, x: Tensor) -> Tensor:
        """The costs as the model itself predicts them, not a translation: `(B, ...) -> (B, n)`."""
        if isinstance(self.predictor, Adapted):
            return self._checked(x, self.predictor.deployed(x))
        return self.predict(x)

    def _checked(self, x: Tensor, costs: Tensor) -> Tensor:
        if not isinstance(costs, Tensor) or costs.shape != (len(x), self.problem.num_costs):
            got = tuple(costs.shape) if isinstance(costs, Tensor) else type(costs).__name__
            raise PredictorError(
                f"The predictor must return costs of shape ({len(x)}, {self.problem.num_costs}) "
                f"for contexts of shape {tuple(x.shape)}; got {got}."
            )
        return costs

    def costs(self, x: Any) -> Tensor:
        """Predicted costs, as the deployed predictor gives them: `(B, ...) -> (B, n)`.

        Arguments:
            x: contexts in any form that `explain` takes; a single one is a batch of one.
        """
        with self.eval_mode():
            return self.deployed(as_batch(x, self, "Pipeline"))

    def decide(self, x: Any) -> Tensor:
        """The best decisions for the predicted costs: `(B, ...) -> (B, m)`.

        Arguments:
            x: contexts in any form that `explain` takes; a single one is a batch of one.
        """
        with torch.no_grad():
            return self.problem.solve(self.costs(x))

    def regret(self, x: Any, decisions: Any) -> Tensor:
        """Relative regret of decisions in contexts: `(B, ...), (B, m) -> (B,)`.

        Arguments:
            x: contexts in any form that `explain` takes; a single one is a batch of one.
            decisions: a tensor or an array: one for each context, or one for all, `(m,)`.
        """
        with torch.no_grad():
            return relative_regret(self.problem, torch.as_tensor(decisions), self.costs(x))


def relative_regret(problem: Problem, decisions: Tensor, costs: Tensor) -> Tensor:
    """How much worse than the best a decision is: `(B, m), (B, n) -> (B,)`.

        reg(y, theta) = (<theta, y> - v) / |v|

    Computed in float64. Where v = 0 it is 0 for an optimal decision and infinite for any other.
    """
    prices = problem.prices(costs.detach().to("cpu", torch.float64))
    solved = problem.attempt(prices).decisions
    best = problem.sense.sign * (prices * solved).sum(1)
    terms = problem.sense.sign * prices * (decisions.to(prices) - solved)
    excess = terms.sum(1)
    # Rounding alone is not regret.
    excess = torch.where(excess.abs() <= 1e-12 * terms.abs().sum(1), 0.0, excess)
    ratio = torch.where(excess == 0, 0.0, excess / best.abs())
    return torch.where(solved.isnan().any(1), torch.nan, ratio).to(costs.device)
