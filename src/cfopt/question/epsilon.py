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
from cfopt.problems.sense import Sense
from cfopt.question.criterion import Criterion, Slider
from cfopt.question.quantifier import Quantifier
from cfopt.question.words import RowFacts


@registry.criteria.register
@dataclass(frozen=True)
class Epsilon(Criterion):
    """What would make this plan clearly wrong? `v + eps |v| <= <theta, y0>` (Definition 2.3).

    Where v = 0 this holds for any eps, even if the plan is still optimal: the result says so.

    Arguments:
        epsilon: the relative regret that the factual decision must have, > 0.
    """

    epsilon: float
    formula: ClassVar[str] = "v + eps |v| <= <theta, y0>"
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
        if unbeaten:
            return (
                "in this context the best value is 0, of which any regret is enough; the factual "
                "decision still attains it"
            )
        return f"in this context the regret of the factual decision is at least {self.epsilon:g}"

    def miss(self, violation: float, sense: Sense) -> str:
        return f"the factual decision is still {violation:.3g} too good"

    def conflict(self, where: str, rivals: Sequence[str], margin: float) -> str:
        return f"in {where} is the factual decision that far off the best"

    def ask_about(self, row: RowFacts) -> str:
        which = row.decided if row.known else f"the {row.noun}"
        return f"What would have put {which} at least {self._percent} off the best{row.by}?"

    def success(self, row: RowFacts) -> str:
        if row.unmoved:
            return ""
        return f"{row.decided} would have been at least {self._percent} off the best{row.by}"

    def failure(self, row: RowFacts) -> str:
        return f"puts it that far off the best{row.by}"

    def edge(self, row: RowFacts) -> str:
        if not row.tie or row.worthless:
            return ""
        return f"There the decision is exactly {self._percent} off the best."
