"""One explanation task for a batch of contexts, in minimisation form: what searches work on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from cfopt.criteria import Absolute, Criterion
from cfopt.domain import Domain
from cfopt.pipeline import Pipeline
from cfopt.problems.base import Solved, same_decision
from cfopt.proximity import Proximity
from cfopt.types import Sense

#: A criterion holds when h exceeds 0 by no more than this part of `sum_j |price_j d_j|`.
TOLERANCE = 1e-6
#: How exactly prices are known at best, as a part of the largest of them.
_ROUNDING = 1e-12


class Judgement(NamedTuple):
    """What a criterion says of prices: the direction `(B, m)`, h and whether it holds `(B,)`."""

    direction: Tensor
    h: Tensor
    holds: Tensor


class Look(NamedTuple):
    """A context judged by a fresh solve; everything `(B, ...)`.

    `holds` only where the context is allowed as well, and the solver did not fail.
    """

    prices: Tensor
    rival: Tensor
    direction: Tensor
    h: Tensor
    holds: Tensor
    loss: Tensor
    failures: dict[int, str]


@dataclass(frozen=True)
class Task:
    """Find, for each row, the nearest context in which the criterion holds.

    Arguments:
        origin: the factual contexts, `(B, ...)`.
        factual: the decisions taken there, `(B, m)`.
        pipeline: predictor and problem; the predictor is in eval mode while a search runs.
        criterion: what a context must satisfy, bound to the rows.
        proximity: what to keep small.
        margin: by which part of its value the alternative must win.
        domain: the contexts that are allowed; None if all are.
        start: where to begin, `(B, ...)`; at the origin by default.
        size: the largest price at the origin, `(B,)`, beside which rounding is told.
        precise: the factual decisions before they were rounded to the dtype of the contexts, if
            that matters, `(B, m)` in float64 on the CPU.
    """

    origin: Tensor
    factual: Tensor
    pipeline: Pipeline
    criterion: Criterion
    proximity: Proximity
    margin: float = 0.0
    domain: Domain | None = None
    start: Tensor | None = None
    size: Tensor | None = None
    precise: Tensor | None = None

    def __len__(self) -> int:
        return len(self.origin)

    def __getitem__(self, rows: Tensor) -> Task:
        """The task of some rows, given by index or mask."""
        return replace(
            self,
            origin=self.origin[rows],
            factual=self.factual[rows],
            criterion=self.criterion[rows],
            domain=None if self.domain is None else self.domain[rows],
            start=None if self.start is None else self.start[rows],
            size=None if self.size is None else self.size[rows],
            precise=None if self.precise is None else self.precise[rows.cpu()],
        )

    @property
    def calls_solver(self) -> bool:
        """Whether the criterion can only be judged with a solve."""
        return self.criterion.needs_optimum

    def prices(self, x: Tensor) -> Tensor:
        """Predicted prices, turned so that less is better: `(B, ...) -> (B, m)`."""
        return self.turned(self.pipeline.predict(x))

    def turned(self, costs: Tensor) -> Tensor:
        """The prices of predicted costs, turned so that less is better: `(B, n) -> (B, m)`."""
        prices = self.pipeline.problem.prices(costs)
        return prices if self.pipeline.problem.sense is Sense.MIN else -prices

    def optimum(self, prices: Tensor) -> Solved:
        """The best decisions for turned prices: `(B, m) -> Solved`."""
        problem = self.pipeline.problem
        solved = problem.attempt(prices if problem.sense is Sense.MIN else -prices)
        return self.snapped(solved)

    def snapped(self, solved: Solved) -> Solved:
        """Decisions that are known ones up to the solver's tolerance, made these.

        Otherwise the noise between the two would pass for a difference.
        """
        if self.pipeline.problem.binary:
            return solved
        decisions = solved.decisions
        for known in (self.factual, self.criterion.pivot(self.factual)):
            decisions = torch.where(same_decision(decisions, known)[:, None], known, decisions)
        return Solved(decisions, solved.failures)

    def rival(self, prices: Tensor, optimum: Solved | None = None) -> Solved:
        """The decision against which the criterion is measured: `(B, m) -> Solved`.

        The optimum; but where an alternative must win by a margin and is the optimum already, the
        best other decision.
        """
        if not self.calls_solver:
            return Solved(self.factual, {})
        solved = self.optimum(prices) if optimum is None else optimum
        if self.margin == 0 or not isinstance(self.criterion, Absolute):
            return solved
        alternative = self.criterion.alternative
        reached = same_decision(solved.decisions, alternative).nonzero().flatten()
        if not len(reached):
            return solved
        problem = self.pipeline.problem
        costs = problem.sense.sign * prices[reached]
        others = problem.runner_up(costs, alternative[reached])
        decisions = solved.decisions.index_copy(0, reached, others.decisions)
        lost = {int(reached[row]): reason for row, reason in others.failures.items()}
        return Solved(decisions, solved.failures | lost)

    def direction(self, prices: Tensor, rival: Tensor) -> Tensor:
        """The d of `h = <prices, d> <= 0`, the margin included: `(B, m), (B, m) -> (B, m)`.

        `h <= -margin |<theta, y>|`, with the pivot y, adds `margin sign(<theta, y>) y`.
        """
        direction = self.criterion.direction(prices, rival, self.factual)
        if self.margin == 0:
            return direction
        pivot = self.criterion.pivot(self.factual)
        return direction + self.margin * (prices * pivot).sum(1, keepdim=True).sign() * pivot

    def allows(self, x: Tensor) -> Tensor:
        """Whether each context is allowed: `(B, ...) -> (B,)`."""
        if self.domain is None:
            return torch.ones(len(x), dtype=torch.bool, device=x.device)
        return self.domain.allows(x)

    def judge(self, prices: Tensor, rival: Tensor, tolerance: float = TOLERANCE) -> Judgement:
        """Whether the criterion holds, `h <= tolerance * sum_j |price_j d_j|`, and by how much.

        Where the prices that count are 0 but for rounding, so is h.
        """
        direction = self.direction(prices, rival)
        terms = prices * direction
        h = terms.sum(1)
        known = max(_ROUNDING, 4 * torch.finfo(self.origin.dtype).eps)
        size = prices.abs().amax(1)
        size = size if self.size is None else size.maximum(self.size.to(size))
        rounding = known * size * direction.abs().sum(1)
        return Judgement(direction, h, h <= tolerance * terms.abs().sum(1) + rounding)

    def look(self, x: Tensor) -> Look:
        """Predict, solve and judge contexts, with half of what verification grants."""
        with torch.no_grad():
            prices = self.prices(x)
        rival = self.rival(prices)
        direction, h, holds = self.judge(prices, rival.decisions, TOLERANCE / 2)
        if rival.failures:
            holds[list(rival.failures)] = False
        if self.domain is not None:
            holds = holds & self.domain.allows(x)
        loss = self.proximity(x, self.origin)
        return Look(prices, rival.decisions, direction, h, holds, loss, rival.failures)

    def proven(self) -> Task:
        """The task whose optima are proven, for searches whose claims should hold."""
        problem = self.pipeline.problem
        if problem.exact() is problem:
            return self
        return replace(self, pipeline=Pipeline(self.pipeline.predictor, problem.exact()))

    def ties(self, prices: Tensor, optimum: Tensor) -> Tensor:
        """Whether a valid row is valid by equality only: `(B, m), (B, m) -> (B,)`.

        For an absolute explanation: the solver returned another decision of the same value. For
        the others: both sides of the criterion, margin apart, are level.
        """
        if isinstance(self.criterion, Absolute):
            return ~same_decision(optimum, self.criterion.alternative)
        terms = prices * self.criterion.direction(prices, optimum, self.factual)
        return terms.sum(1).abs() <= TOLERANCE * terms.abs().sum(1)

    def on_host(self) -> Task:
        """The same task for verification: decisions in float64 on the CPU, optima proven."""
        factual = self.factual.to("cpu", torch.float64) if self.precise is None else self.precise
        criterion = self.criterion.bind(len(self), factual)
        pipeline = Pipeline(self.pipeline.predictor, self.pipeline.problem.exact())
        return replace(self, factual=factual, criterion=criterion, pipeline=pipeline)
