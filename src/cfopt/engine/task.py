"""One explanation task for a batch of contexts, in minimisation form: what searches work on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from cfopt.engine.latent import LatentSpace
from cfopt.engine.recall import Recall
from cfopt.pipeline import Pipeline
from cfopt.problems.base import Solved, same_decision
from cfopt.problems.sense import Sense
from cfopt.question import Criterion
from cfopt.question.domain import Domain
from cfopt.question.proximity import Latent, Proximity
from cfopt.question.quantifier import Quantifier

#: A criterion holds when h exceeds 0 by no more than this fraction of `sum_j |price_j d_j|`.
TOLERANCE = 1e-6
#: How exactly prices are known at best, as a fraction of the largest of them.
_ROUNDING = 1e-12


class CriterionValue(NamedTuple):
    """What a criterion says of prices: the direction `(B, m)`, h and whether it holds `(B,)`."""

    direction: Tensor
    h: Tensor
    holds: Tensor


class Evaluation(NamedTuple):
    """A context judged by a fresh solve; everything `(B, ...)`.

    `holds` only where the context is allowed as well, and the solver did not fail.
    """

    prices: Tensor
    rival: Tensor
    direction: Tensor
    h: Tensor
    holds: Tensor
    loss: Tensor
    allowed: Tensor
    failures: dict[int, str]

    @staticmethod
    def gather(parts: list[Evaluation]) -> Evaluation:
        """Join looks at consecutive rows."""
        names = [name for name in Evaluation._fields if name != "failures"]
        failures: dict[int, str] = {}
        before = 0
        for part in parts:
            failures |= {before + row: reason for row, reason in part.failures.items()}
            before += len(part.h)
        tensors = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
        return Evaluation(**tensors, failures=failures)


class LossAndGradient(NamedTuple):
    """What is minimised, `(B,)`, and its gradients: by contexts `(B, ...)`, and by codes `(B, n)`.

    None stands for a gradient of 0.
    """

    loss: Tensor
    by_context: Tensor | None
    by_point: Tensor | None = None


@dataclass(frozen=True)
class Task:
    """Find, for each row, the nearest context in which the criterion holds.

    Searches move through points. These are the contexts themselves, or their codes where a
    generative model is used.

    Arguments:
        origin: the factual contexts, `(B, ...)`.
        factual: the decisions taken there, `(B, m)`.
        pipeline: predictor and problem; the predictor is in eval mode while a search runs.
        criterion: what a context must satisfy, bound to the rows.
        proximity: what to keep small.
        margin: the fraction of its value by which the alternative must win.
        domain: the contexts that are allowed; None if all are.
        start: the points where to begin, `(B, ...)`; at home by default.
        size: the largest price at the origin, `(B,)`; rounding is measured against it.
        latent: the codes that are searched instead of contexts, if any.
        precise: the factual decisions before they were rounded to the dtype of the contexts, if
            that matters, `(B, m)` in float64 on the CPU.
        recall: what verification has solved before, if it should not be solved again.
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
    recall: Recall | None = None
    latent: LatentSpace | None = None

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
            latent=None if self.latent is None else self.latent[rows],
        )

    @property
    def calls_solver(self) -> bool:
        """Whether the criterion can only be judged with a solve."""
        return self.criterion.needs_optimum

    @property
    def rounding(self) -> float:
        """How exactly prices are known, as a fraction of the largest of them."""
        return max(_ROUNDING, 4 * torch.finfo(self.origin.dtype).eps)

    @property
    def home(self) -> Tensor:
        """The point of each factual context: itself, or its code, `(B, ...)`."""
        return self.origin if self.latent is None else self.latent.codes

    @property
    def beginning(self) -> Tensor:
        """The points where searches begin, `(B, ...)`."""
        return self.home if self.start is None else self.start

    def context(self, point: Tensor) -> Tensor:
        """The contexts of points: themselves, or what codes are decoded to, `(B, ...)`."""
        return point if self.latent is None else self.latent.model.decode(point)

    def pull(self, point: Tensor, x: Tensor) -> LossAndGradient:
        """What is minimised, at points and their contexts: proximity, and plausibility of codes."""
        if self.latent is None:
            return LossAndGradient(*self.proximity.evaluate(x, self.origin))
        if isinstance(self.proximity, Latent):
            loss, by_point = self.proximity.evaluate(point, self.latent.codes)
            by_context = None
        else:
            loss, by_context = self.proximity.evaluate(x, self.origin)
            by_point = None
        if self.latent.plausibility is not None:
            penalty, slope = self.latent.plausibility.evaluate(point)
            loss, by_point = loss + penalty, slope if by_point is None else by_point + slope
        return LossAndGradient(loss, by_context, by_point)

    def loss(self, point: Tensor) -> Tensor:
        """What is minimised: `(B, ...) -> (B,)`."""
        with torch.no_grad():
            return self.pull(point, self.context(point)).loss

    def gradient(
        self, point: Tensor, x: Tensor, pull: LossAndGradient, prices: Tensor, weight: Tensor
    ) -> Tensor:
        """That of `loss + <weight, prices>` with respect to points, in one backward pass.

        Arguments:
            point: `(B, ...)`; x and prices were computed from it with a graph.
            pull: the loss there.
            weight: one for each price, `(B, m)`.
        """
        if self.latent is None:
            (push,) = torch.autograd.grad(prices, point, weight)
            return push if pull.by_context is None else push + pull.by_context
        outputs, seeds = [prices], [weight]
        if pull.by_context is not None:
            outputs, seeds = [*outputs, x], [*seeds, pull.by_context]
        (push,) = torch.autograd.grad(outputs, point, seeds)
        return push if pull.by_point is None else push + pull.by_point

    def prices(self, x: Tensor) -> Tensor:
        """Predicted prices, turned so that less is better: `(B, ...) -> (B, m)`."""
        return self.turned(self.pipeline.predict(x))

    def turned(self, costs: Tensor) -> Tensor:
        """The prices of predicted costs, turned so that less is better: `(B, n) -> (B, m)`."""
        prices = self.pipeline.problem.prices(costs)
        return prices if self.pipeline.problem.sense is Sense.MIN else -prices

    def optimum(self, prices: Tensor, recall: Recall | None = None) -> Solved:
        """The best decisions for turned prices: `(B, m) -> Solved`.

        A solver may not distinguish decisions whose prices are 0 but for rounding: then they are 0.
        What is recalled is not solved again.
        """
        problem = self.pipeline.problem
        turned = prices if problem.sense is Sense.MIN else -prices
        solved = problem.attempt(turned) if recall is None else recall.attempt(problem, turned)
        tiny = turned.abs() <= self.rounding * self._largest(turned)[:, None]
        tiny &= (turned != 0) & turned.isfinite().all(1, keepdim=True)
        again = [row for row in solved.failures if tiny[row].any()]
        if again:
            retried = problem.attempt(turned.masked_fill(tiny, 0.0)[again])
            decisions, failures = solved.decisions.clone(), dict(solved.failures)
            decisions[again] = retried.decisions
            failures = {row: why for row, why in failures.items() if row not in again}
            failures |= {again[k]: why for k, why in retried.failures.items()}
            solved = Solved(decisions, failures, solved.shortfall)
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
        return Solved(decisions, solved.failures, solved.shortfall)

    def rival(self, prices: Tensor, optimum: Solved | None = None) -> Solved:
        """The decision against which the criterion is measured: `(B, m) -> Solved`."""
        if not self.calls_solver:
            return Solved(self.factual, {})
        solved = self.optimum(prices) if optimum is None else optimum
        return self.criterion.rival(self.pipeline.problem, prices, solved, self.margin)

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

    def judge(
        self,
        prices: Tensor,
        rival: Tensor,
        tolerance: float = TOLERANCE,
        shortfall: Tensor | None = None,
    ) -> CriterionValue:
        """Whether the criterion holds, `h <= tolerance * sum_j |price_j d_j|`, and by how much.

        Where the prices that count are 0 but for rounding, so is h. Where the rival may fall short
        of the best decision, the criterion must hold against the best value there may be as well,
        to within the same fraction of those terms or of the pivot's own, if these are larger.
        """
        direction = self.direction(prices, rival)
        terms = prices * direction
        h, size = terms.sum(1), terms.abs().sum(1)
        rounding = self.rounding * self._largest(prices) * direction.abs().sum(1)
        holds = h <= tolerance * size + rounding
        if shortfall is not None:
            against = [-multiple for multiple in self.criterion.multiples.get(Quantifier.EVERY, ())]
            worst = h + max(against, default=0.0) * shortfall.to(h)
            own = (prices * self.criterion.pivot(self.factual)).abs().sum(1)
            holds &= worst <= tolerance * size.maximum(own) + rounding
        return CriterionValue(direction, h, holds)

    def beats(
        self, prices: Tensor, left: Tensor, right: Tensor, blur: Tensor | float = 0.0
    ) -> Tensor:
        """Whether the left decision is another one than the right, and better by more than a blur.

        Three times `(B, m) -> (B,)`. Where only columns differ whose prices are 0 but for rounding,
        neither is better.
        """
        terms = prices * (left - right)
        rounding = _ROUNDING * self._largest(prices) * (left - right).abs().sum(1)
        better = terms.sum(1) < -TOLERANCE * terms.abs().sum(1) - rounding - blur
        return better & ~same_decision(left, right)

    def _largest(self, prices: Tensor) -> Tensor:
        """The largest price of each row, here or at the origin: `(B, m) -> (B,)`."""
        here = prices.abs().amax(1)
        return here if self.size is None else here.maximum(self.size.to(here))

    def look(self, point: Tensor) -> Evaluation:
        """Predict, solve and judge points, with half of what verification grants."""
        with torch.no_grad():
            x = self.context(point)
            prices = self.prices(x)
        rival = self.rival(prices)
        direction, h, holds = self.judge(prices, rival.decisions, TOLERANCE / 2, rival.shortfall)
        if rival.failures:
            holds[list(rival.failures)] = False
        allowed = self.allows(x)
        loss = self.pull(point, x).loss
        return Evaluation(
            prices, rival.decisions, direction, h, holds & allowed, loss, allowed, rival.failures
        )

    def proven(self) -> Task:
        """The task whose optima are proven, for searches whose claims should hold."""
        problem = self.pipeline.problem
        if problem.exact() is problem:
            return self
        return replace(self, pipeline=self.pipeline.with_problem(problem.exact()))

    def ties(self, prices: Tensor, optimum: Tensor) -> Tensor:
        """Whether a valid row is valid by equality only: `(B, m), (B, m) -> (B,)`."""
        return self.criterion.ties(prices, optimum, self.factual, TOLERANCE)

    def on_host(self) -> Task:
        """The same task for verification: decisions in float64 on the CPU, optima proven."""
        factual = self.factual.to("cpu", torch.float64) if self.precise is None else self.precise
        criterion = self.criterion.bind(len(self), factual)
        pipeline = self.pipeline.with_problem(self.pipeline.problem.exact())
        return replace(self, factual=factual, criterion=criterion, pipeline=pipeline)
