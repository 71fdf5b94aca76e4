"""A criterion from outside the package: when would my plan have been nearly the best?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from cfopt import registry
from cfopt.problems.sense import Sense
from cfopt.question import Contrastive, RowFacts, Slider


@registry.criteria.register
@dataclass(frozen=True, eq=False)
class NearBest(Contrastive):
    """`<theta, y_alt> <= v + tolerance |v|`."""

    tolerance: float = 0.1
    formula: ClassVar[str] = "<theta, y_alt> <= v + tolerance |v|"
    sliders: ClassVar[tuple[Slider, ...]] = (
        Slider("tolerance", "within", "of the best", usual=10),
    )

    def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
        sign = (prices * optimum).sum(1, keepdim=True).sign()
        return self.alternative - (1 + self.tolerance * sign) * optimum

    @property
    def _within(self) -> str:
        return f"within {100 * self.tolerance:g}% of the best"

    @classmethod
    def choice(cls, noun: str) -> tuple[str, str]:
        return "When would mine have been good enough?", "Mine would have been nearly the best."

    def ask(self) -> str:
        return f"When would the alternative have been {self._within}?"

    def answer(self, tie: bool, unbeaten: bool) -> str:
        return f"in this context the alternative is {self._within}"

    def miss(self, violation: float, sense: Sense) -> str:
        return f"the alternative is {violation:.3g} short of being {self._within}"

    def conflict(self, where: str, rivals: Sequence[str], margin: float) -> str:
        return f"in {where} is the alternative {self._within}"

    def ask_about(self, row: RowFacts) -> str:
        return f"When would {row.wanted} have been {self._within}{row.by}?"

    def success(self, row: RowFacts) -> str:
        return f"{row.wanted} would have been {self._within}{row.by}"
