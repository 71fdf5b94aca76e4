"""What would make this plan clearly wrong?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from torch import Tensor

from cfopt import registry
from cfopt.errors import InputError
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.question.criterion import Criterion, Slider
from cfopt.question.quantifier import Quantifier
from cfopt.question.words import RowFacts


@registry.criteria.register
@dataclass(frozen=True)
class Epsilon(Criterion):
    """What would make this plan clearly wrong? `v + eps |v| <= <theta, y0>` and `v < <theta, y0>`.

    The regret of Definition 2.3, of a plan y0 that another one beats. Where the best value v is not
    0 the first inequality implies the second; where it is 0, a plan that attains it has no regret,
    and any other an infinite one. That another plan costs less must be more than rounding, which
    closes the set of answers, so that there is a nearest one: with `d = y0 - y*`,

        <theta, d> > 1e-9 max_k |theta_k| sum_j |d_j|

    The largest price is that in the answer or at x0; contexts in float32 need 1.2e-7 of it.

    Arguments:
        epsilon: the relative regret that the factual decision must have, > 0. With a small one,
            such as 1e-9, the question is merely when another plan is better.
    """

    epsilon: float
    formula: ClassVar[str] = "v + eps |v| <= <theta, y0> and v < <theta, y0>"
    unseats: ClassVar[bool] = True
    sliders: ClassVar[tuple[Slider, ...]] = (Slider("epsilon", "at least", "off the best"),)

    def __post_init__(self) -> None:
        value = self.epsilon
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not (value > 0 and math.isfinite(value)):
            raise InputError(
                f"Epsilon needs a finite number > 0, the relative regret asked for; got {value!r}."
            )
        object.__setattr__(self, "epsilon", float(value))

    @property
    def multiples(self) -> Mapping[Quantifier, tuple[float, ...]]:
        """`v + eps |v| <= a` is `(1 + eps) v <= a` and `(1 - eps) v <= a`, with `a = <theta, y0>`.

        A multiple >= 0 of the minimum is reached by some y; a negative one bounds every y.
        """
        more, less = 1 + self.epsilon, 1 - self.epsilon
        if less >= 0:
            return {Quantifier.SOME: (more, less)}
        return {Quantifier.SOME: (more,), Quantifier.EVERY: (less,)}

    def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
        """`(1 + sign(v) eps) y* - y0`."""
        sign = (prices * optimum).sum(1, keepdim=True).sign()
        return (1 + self.epsilon * sign) * optimum - factual

    def faults(self, problem: Problem, factual: Tensor, margin: float) -> list[str]:
        """A decision of nothing but zeros costs 0 anywhere: its regret is 1 at the most."""
        why = (
            "Epsilon needs at most 1 here: the decision costs nothing in any context, so that its "
            f"regret is never above 1; got {self.epsilon:g}"
        )
        never = (factual == 0).all(1) & (self.epsilon > 1)
        return [why if one else "" for one in never.tolist()]

    @property
    def _percent(self) -> str:
        return f"{100 * self.epsilon:g}%"

    @classmethod
    def choice(cls, noun: str) -> tuple[str, str]:
        needed = "route of yours" if noun == "route" else "alternative"
        return "What would have made this one clearly wrong?", f"No {needed} is needed."

    def ask(self) -> str:
        return f"What would have put the decision {self._percent} off the best?"

    def answer(self, tie: bool, unbeaten: bool) -> str:
        return f"in this context the regret of the factual decision is at least {self.epsilon:g}"

    def miss(self, violation: float, sense: Sense) -> str:
        return f"the factual decision is still {violation:.3g} too good"

    def conflict(self, where: str, rivals: Sequence[str], margin: float) -> str:
        return f"in {where} is the factual decision that far off the best"

    def ask_about(self, row: RowFacts) -> str:
        which = row.decided if row.known else f"the {row.noun}"
        return f"What would have put {which} at least {self._percent} off the best{row.by}?"

    def success(self, row: RowFacts) -> str:
        return f"{row.decided} would have been at least {self._percent} off the best{row.by}"

    def failure(self, row: RowFacts) -> str:
        return f"puts it that far off the best{row.by}"

    def edge(self, row: RowFacts) -> str:
        if not row.tie or row.worthless:
            return ""
        return f"There the decision is exactly {self._percent} off the best."
