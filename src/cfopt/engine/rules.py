"""What a context must satisfy: a criterion and a margin, judged in minimisation form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch, are_all
from cfopt._typing import Array
from cfopt.engine.recall import Recall
from cfopt.engine.wish import Wish
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.problems.solved import ROUNDING, Solved, same_decision
from cfopt.question import Contrastive, Criterion
from cfopt.question.quantifier import Quantifier

#: A criterion holds when h exceeds 0 by no more than this fraction of `sum_j |price_j d_j|`.
TOLERANCE = 1e-6
#: A decision unseats the factual one only if it wins by this fraction of the largest price, for
#: each unit in which they differ.
_LEAD = 1e-9


class CriterionValue(NamedTuple):
    """What a criterion says of prices: the direction `(B, m)`, h and whether it holds `(B,)`."""

    direction: Tensor
    h: Tensor
    holds: Tensor


class Terms(NamedTuple):
    """The sum that a criterion bounds, and how exactly it is known.

    Arguments:
        direction: d, `(B, m)`.
        h: `<prices, d>`, `(B,)`.
        size: `sum_j |price_j d_j|`, `(B,)`.
        rounding: what h may be off because prices are rounded, `(B,)`.
    """

    direction: Tensor
    h: Tensor
    size: Tensor
    rounding: Tensor

    def hold(self, tolerance: float) -> Tensor:
        """Whether h exceeds 0 by no more than rounding and a fraction of its terms: `(B,)`."""
        return self.h <= tolerance * self.size + self.rounding


@dataclass(frozen=True, eq=False)
class Rules(Batch):
    """When prices count as an explanation, whatever contexts they belong to.

    Arguments:
        problem: what is solved.
        factual: the decisions taken, `(B, m)`.
        criterion: what prices must satisfy, bound to the rows.
        margin: the fraction of its value by which the alternative must win.
        size: the largest price at the origin, `(B,)`; rounding is measured against it.
        precise: the factual decisions before they were rounded to the dtype of the costs, if
            that matters, `(B, m)` in float64 on the CPU.
        dtype: the dtype of the contexts, which says how exactly prices can be known.
        passed_over: for each row decisions that must not be the one that is enough, nor better than
            that one, `(K, m)`, where the criterion asks for some; empty without any.
        wish: the plans among which the criterion has a choice, if it has one; read off the
            criterion.
    """

    problem: Problem
    factual: Tensor = field(metadata=ROWS)
    criterion: Criterion = field(metadata=ROWS)
    margin: float = 0.0
    size: Tensor | None = field(default=None, metadata=ROWS)
    precise: Tensor | None = field(default=None, metadata=ROWS)
    dtype: torch.dtype = torch.float64
    passed_over: tuple[Array, ...] = field(default=(), metadata=ROWS)
    wish: Wish | None = None

    def __post_init__(self) -> None:
        criterion = self.criterion
        if isinstance(criterion, Contrastive) and criterion.foil is not None and self.wish is None:
            object.__setattr__(self, "wish", Wish(self.problem, criterion.foil, self.margin))

    def __len__(self) -> int:
        return len(self.factual)

    def __getitem__(self, rows: Tensor) -> Self:
        return self if are_all(rows, len(self)) else super().__getitem__(rows)

    def at(self, prices: Tensor) -> Rules:
        """The same with the best plan at some prices in place of a wish: `(B, m) -> Rules`."""
        if self.wish is None:
            return self
        return self.about(self.wish.best(self.problem, prices).decisions.to(prices))

    def about(self, plans: Tensor) -> Rules:
        """The same with a plan for each row in place of a wish: `(B, m) -> Rules`."""
        assert isinstance(self.criterion, Contrastive)
        return replace(self, criterion=self.criterion.about(plans), wish=None)

    @property
    def calls_solver(self) -> bool:
        """Whether the criterion can only be judged with a solve."""
        return self.criterion.needs_optimum

    @property
    def rounding(self) -> float:
        """How exactly prices are known, as a fraction of the largest of them."""
        return max(ROUNDING, 4 * torch.finfo(self.dtype).eps)

    @property
    def lead(self) -> float:
        """The fraction of the largest price by which a decision must win to unseat another."""
        return max(_LEAD, torch.finfo(self.dtype).eps)

    @property
    def pivot(self) -> Tensor:
        """The decisions whose values the margin is a fraction of, `(B, m)`."""
        return self.criterion.pivot(self.factual)

    def turned(self, costs: Tensor) -> Tensor:
        """The prices of predicted costs, turned so that less is better: `(B, n) -> (B, m)`."""
        prices = self.problem.prices(costs)
        return prices if self.problem.sense is Sense.MIN else -prices

    def optimum(self, prices: Tensor, recall: Recall | None = None) -> Solved:
        """The best decisions for turned prices: `(B, m) -> Solved`.

        A solver may not distinguish decisions whose prices are 0 but for rounding: then they are 0.
        What is recalled is not solved again.
        """
        problem = self.problem
        turned = prices if problem.sense is Sense.MIN else -prices
        solved = problem.attempt(turned) if recall is None else recall.attempt(problem, turned)
        return self.snapped(self._retried(turned, solved) if solved.failures else solved)

    def _retried(self, turned: Tensor, solved: Solved) -> Solved:
        """Rows that failed solved again, with prices of 0 where they are 0 but for rounding."""
        tiny = turned.abs() <= self.rounding * self._largest(turned)[:, None]
        tiny &= (turned != 0) & turned.isfinite().all(1, keepdim=True)
        again = [row for row in solved.failures if tiny[row].any()]
        if not again:
            return solved
        retried = self.problem.attempt(turned.masked_fill(tiny, 0.0)[again])
        decisions = solved.decisions.clone()
        decisions[again] = retried.decisions
        failures = {row: why for row, why in solved.failures.items() if row not in again}
        failures |= {again[k]: why for k, why in retried.failures.items()}
        return Solved(decisions, failures, solved.shortfall)

    def snapped(self, solved: Solved) -> Solved:
        """Decisions that are known ones up to the solver's tolerance, made these.

        Otherwise the noise between the two would pass for a difference.
        """
        if self.problem.binary:
            return solved
        decisions = solved.decisions
        for known in (self.factual, *(() if self.wish else (self.pivot,))):
            decisions = torch.where(same_decision(decisions, known)[:, None], known, decisions)
        return Solved(decisions, solved.failures, solved.shortfall)

    def rival(self, prices: Tensor, optimum: Solved | None = None) -> Solved:
        """The decision against which the criterion is measured: `(B, m) -> Solved`."""
        if self.wish is not None:
            return self._rival_of_wish(self.wish, prices, optimum)
        if not self.calls_solver:
            return Solved(self.factual, {})
        solved = self.optimum(prices) if optimum is None else optimum
        return self.criterion.rival(self.problem, prices, solved, self.margin)

    def _rival_of_wish(self, wish: Wish, prices: Tensor, optimum: Solved | None) -> Solved:
        """The same for a wish: with a margin, the best decision that does not grant it."""
        lost, plain = wish.best(self.problem, prices).failures, self.at(prices)
        if not plain.calls_solver:
            return Solved(plain.factual, lost)
        if self.margin > 0:
            solved = wish.best_outside(self.problem, prices)
        else:
            solved = plain.optimum(prices) if optimum is None else plain.snapped(optimum)
        decisions = solved.decisions.to(self.factual.device, prices.dtype)
        return Solved(decisions, lost | solved.failures, solved.shortfall)

    def direction(self, prices: Tensor, rival: Tensor) -> Tensor:
        """The d of `h = <prices, d> <= 0`, the margin included: `(B, m), (B, m) -> (B, m)`.

        `h <= -margin |<theta, y>|`, with the pivot y, adds `margin sign(<theta, y>) y`.
        """
        plain = self.at(prices)
        direction = plain.criterion.direction(prices, rival, self.factual)
        if self.margin == 0:
            return direction
        pivot = plain.pivot
        return direction + self.margin * (prices * pivot).sum(1, keepdim=True).sign() * pivot

    def judge(
        self,
        prices: Tensor,
        rival: Tensor,
        tolerance: float = TOLERANCE,
        shortfall: Tensor | None = None,
    ) -> CriterionValue:
        """Whether the criterion holds, `h <= tolerance * sum_j |price_j d_j|`, and by how much.

        Where the prices that count are 0 but for rounding, so is h. A criterion that unseats the
        factual decision holds only where the rival has a lead over it. Where the rival may fall
        short of the best decision, the criterion must hold against the best value there may be
        as well, to within the same fraction of those terms or of the pivot's own, if these are
        larger.
        """
        if self.wish is not None:
            return self.at(prices).judge(prices, rival, tolerance, shortfall)
        terms = self.terms(prices, rival)
        holds = terms.hold(tolerance) & self.unseats(prices, rival)
        if shortfall is not None:
            against = [-multiple for multiple in self.criterion.multiples.get(Quantifier.EVERY, ())]
            worst = terms.h + max(against, default=0.0) * shortfall.to(terms.h)
            own = (prices * self.pivot).abs().sum(1)
            holds &= worst <= tolerance * terms.size.maximum(own) + terms.rounding
        return CriterionValue(terms.direction, terms.h, holds)

    def terms(self, prices: Tensor, rival: Tensor) -> Terms:
        """What the criterion compares, to be judged by several tolerances: `(B, m), (B, m)`."""
        if self.wish is not None:
            return self.at(prices).terms(prices, rival)
        direction = self.direction(prices, rival)
        each = prices * direction
        rounding = self.rounding * self._largest(prices) * direction.abs().sum(1)
        return Terms(direction, each.sum(1), each.abs().sum(1), rounding)

    def beats(
        self, prices: Tensor, left: Tensor, right: Tensor, blur: Tensor | float = 0.0
    ) -> Tensor:
        """Whether the left decision is another one than the right, and better by more than a blur.

        Three times `(B, m) -> (B,)`. Where only columns differ whose prices are 0 but for rounding,
        neither is better.
        """
        difference = left - right
        terms = prices * difference
        rounding = ROUNDING * self._largest(prices) * difference.abs().sum(1)
        better = terms.sum(1) < -TOLERANCE * terms.abs().sum(1) - rounding - blur
        return better & ~same_decision(left, right) if better.any() else better

    def unseats(self, prices: Tensor, rival: Tensor) -> Tensor:
        """True if a rival unseats the factual decision, or need not: `(B, m), (B, m) -> (B,)`."""
        if not self.criterion.unseats:
            return torch.ones_like(prices[:, 0], dtype=torch.bool)
        difference = self.factual - rival
        least = self.lead * self._largest(prices) * difference.abs().sum(1)
        better = (prices * difference).sum(1) > least
        return better & ~same_decision(rival, self.factual)

    def ties(self, prices: Tensor, optimum: Tensor) -> Tensor:
        """Whether a valid row is valid by equality only: `(B, m), (B, m) -> (B,)`."""
        if self.wish is not None and self.calls_solver:
            return self.wish.ties(self.problem, prices, optimum, TOLERANCE)
        plain = self.at(prices)
        return plain.criterion.ties(self.problem, prices, optimum, self.factual, TOLERANCE)

    def compared(self, prices: Tensor, rival: Tensor) -> Tensor:
        """The size of what the criterion compares, the values of two decisions: `(B,)`."""
        pivot = self.at(prices).pivot.to(prices)
        return (prices * rival).abs().sum(1) + (prices * pivot).abs().sum(1)

    def one_suffices(self, prices: Tensor, rival: Tensor) -> Tensor:
        """Whether one decision is enough to meet the criterion, near some prices: `(B,)`."""
        multiples = self.criterion.multiples
        if Quantifier.SOME in multiples and Quantifier.EVERY in multiples:
            # Above 0 the best value is to be reached by some decision, below it bounds them all.
            return (prices * rival).sum(1) >= 0
        return torch.full_like(prices[:, 0], Quantifier.SOME in multiples, dtype=torch.bool)

    def on_host(self) -> Rules:
        """The same for verification: decisions in float64 on the CPU, optima proven."""
        return self._host

    @cached_property
    def _host(self) -> Rules:
        factual = self.factual.to("cpu", torch.float64) if self.precise is None else self.precise
        criterion = self.criterion.bind(len(self), factual)
        return replace(
            self,
            problem=self.problem.exact(),
            factual=factual,
            criterion=criterion,
            wish=None if self.wish is None else self.wish.exact(),
        )

    def _largest(self, prices: Tensor) -> Tensor:
        """The largest price of each row, here or at the origin: `(B, m) -> (B,)`."""
        here = prices.abs().amax(1)
        return here if self.size is None else here.maximum(self.size.to(here))
