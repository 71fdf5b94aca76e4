"""One task in several scenarios at once, in a form that every search can work on.

The predictor gives the costs of all scenarios side by side, the problem is solved in each of them,
and the criterion is measured where it holds least: `h(x) = max_k h_k(x)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cfopt._batch import ROWS
from cfopt._typing import Array
from cfopt.engine.rules import Rules
from cfopt.engine.task import Task
from cfopt.pipeline import Adapted, Deployed, Predictor
from cfopt.problems.base import Problem
from cfopt.problems.solved import Solved
from cfopt.question import Criterion


@dataclass(frozen=True, eq=False)
class Scenario:
    """How things may turn out.

    Arguments:
        predictor: what predicts.
        shift: by how much the context is off, in the shape of one; None if it is not.
    """

    predictor: Predictor
    shift: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """The costs: `(B, ...) -> (B, n)`."""
        return self.predictor(x if self.shift is None else x + self.shift)


class _SideBySide(nn.Module):
    """The costs of all scenarios: `(B, ...) -> (B, K n)`."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        super().__init__()
        self._scenarios = tuple(scenarios)

    def forward(self, x: Tensor) -> Tensor:
        """One after the other."""
        return torch.cat([scenario(x) for scenario in self._scenarios], dim=1)


class _Copies(Problem):
    """The same problem K times, each with prices of its own."""

    def __init__(self, problem: Problem, count: int) -> None:
        self.of, self._count = problem, count
        self.num_costs = count * problem.num_costs
        self.sense, self.tolerance = problem.sense, problem.tolerance
        self.binary, self.deadline = problem.binary, problem.deadline
        self.rowwise = problem.rowwise

    @property
    def num_columns(self) -> int:
        return self._count * self.of.num_columns

    def prices(self, costs: Tensor) -> Tensor:
        parts = costs.reshape(-1, self.of.num_costs)
        return self.of.prices(parts).reshape(len(costs), -1)

    def optimise(self, prices: Array) -> Array:
        parts = prices.reshape(-1, self.of.num_columns)
        return self.of.optimise(parts).reshape(prices.shape)

    def faults(self, decisions: Array) -> list[str]:
        faults = self.of.faults(decisions.reshape(-1, self.of.num_columns))
        rows = [faults[k : k + self._count] for k in range(0, len(faults), self._count)]
        return [next((fault for fault in row if fault), "") for row in rows]

    def exact(self) -> Problem:
        exact = self.of.exact()
        return self if exact is self.of else _Copies(exact, self._count)


@dataclass(frozen=True, eq=False)
class _Everywhere(Criterion):
    """A criterion in each of K scenarios, margin included: the direction is that of the worst.

    Arguments:
        inner: the criterion, bound to the rows.
        margin: the fraction by which it must hold.
        count: K.
    """

    inner: Criterion = field(metadata=ROWS)
    margin: float
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs_optimum", self.inner.needs_optimum)

    def bind(self, count: int, factual: Tensor) -> _Everywhere:
        own = factual[:, : factual.shape[1] // self.count]
        return replace(self, inner=self.inner.bind(count, own))

    def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
        """That of the scenario in which h is the largest fraction of its terms, 0 in the others."""
        each = self._each(factual)
        parts = [values.reshape(len(each), -1) for values in (prices, optimum)]
        direction = each.direction(*parts)
        terms = (parts[0] * direction).reshape(len(prices), self.count, -1)
        size = terms.abs().sum(2)
        worst = torch.where(size > 0, terms.sum(2) / size, 0.0).argmax(1)
        chosen = nn.functional.one_hot(worst, self.count).bool()[:, :, None]
        split = direction.reshape(len(prices), self.count, -1)
        return torch.where(chosen, split, 0.0).reshape(prices.shape)

    def rival(self, problem: Problem, prices: Tensor, solved: Solved, margin: float) -> Solved:
        if self.margin == 0 or not isinstance(problem, _Copies):
            return solved
        each = self._each(solved.decisions)
        failed = [row * self.count + k for row in solved.failures for k in range(self.count)]
        parts = Solved(solved.decisions.reshape(len(each), -1), dict.fromkeys(failed, ""))
        found = each.criterion.rival(problem.of, prices.reshape(len(each), -1), parts, self.margin)
        lost = {row // self.count: why for row, why in found.failures.items() if why}
        return Solved(found.decisions.reshape(prices.shape), solved.failures | lost)

    def _each(self, factual: Tensor) -> Rules:
        """The rules of every scenario of every row, one after the other."""
        rows = torch.arange(len(factual), device=factual.device).repeat_interleave(self.count)
        own = factual.reshape(len(rows), -1)
        return Rules(_NOTHING, own, self.inner[rows], self.margin)


class _Nothing(Problem):
    """Stands where no problem is asked."""

    num_costs = 0

    def optimise(self, prices: Array) -> Array:
        return np.empty_like(prices)

    def faults(self, decisions: Array) -> list[str]:
        return [""] * len(decisions)


_NOTHING = _Nothing()


def joint(task: Task, scenarios: Sequence[Scenario]) -> Task:
    """The task of all scenarios at once: an answer to it is one in each of them.

    Its costs are not affine, whatever the predictors are, as the criterion is the worst of several.
    """
    rules, count = task.rules, len(scenarios)

    def tiled(decisions: Tensor | None) -> Tensor | None:
        return None if decisions is None else decisions.repeat(1, count)

    stacked = replace(
        rules,
        problem=_Copies(rules.problem, count),
        factual=rules.factual.repeat(1, count),
        criterion=_Everywhere(rules.criterion, rules.margin, count),
        margin=0.0,
        precise=tiled(rules.precise),
    )
    if not task.differentiable:
        scenarios = [replace(one, predictor=_deployed(one.predictor)) for one in scenarios]
    return replace(
        task, rules=stacked, predictor=_SideBySide(scenarios), recall=None, variation=None
    )


def _deployed(predictor: Any) -> Predictor:
    return Deployed(predictor) if isinstance(predictor, Adapted) else predictor
