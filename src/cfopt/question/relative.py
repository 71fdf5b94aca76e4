"""When would my plan have beaten yours?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from cfopt import registry
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.problems.solved import same_decision
from cfopt.question.criterion import Contrastive
from cfopt.question.quantifier import Quantifier
from cfopt.question.words import RowFacts, worse_by


@registry.criteria.register
class Relative(Contrastive):
    """When would my plan have beaten yours? `<theta, y_alt> <= <theta, y0>` (Definition 2.1)."""

    formula = "<theta, y_alt> <= <theta, y0>"
    needs_optimum = False

    @property
    def multiples(self) -> Mapping[Quantifier, tuple[float, ...]]:
        """`y_alt - y` for the factual y."""
        return {Quantifier.GIVEN: (-1.0,)}

    def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
        """`y_alt - y0`."""
        return self.alternative - factual

    def faults(self, problem: Problem, factual: Tensor, margin: float) -> list[str]:
        """Those of every alternative; and a decision cannot beat itself by a margin."""
        faults = super().faults(problem, factual, margin)
        if margin == 0 or self.foil is not None:
            return faults
        own = "With a margin, the alternative needs to differ from the factual decision"
        same = same_decision(self.alternative, factual).tolist()
        return [fault or (own if equal else "") for fault, equal in zip(faults, same, strict=True)]

    @classmethod
    def choice(cls, noun: str) -> tuple[str, str]:
        better = (
            "Mine would have cost less than the route decided."
            if noun == "route"
            else "Mine would have been better than the decision."
        )
        return "When would mine have beaten this one?", better

    def ask(self) -> str:
        why = "" if self.foil is None else f"Why not {self.foil.phrase}? "
        return f"{why}When would {self.subject} have beaten the decision?"

    def answer(self, tie: bool, unbeaten: bool) -> str:
        how = "is level with" if tie else "beats"
        return f"in this context {self.subject} {how} the factual decision"

    def miss(self, violation: float, sense: Sense) -> str:
        return f"{self.subject} still {worse_by(violation, sense)} than the factual decision"

    def conflict(self, where: str, rivals: Sequence[str], margin: float) -> str:
        beat = "win by its margin against" if margin > 0 else "beat"
        return f"in {where} does {self.subject} {beat} the factual decision"

    def ask_about(self, row: RowFacts) -> str:
        rival = row.decided if row.known else f"the {row.noun} that was taken"
        if self.foil is not None:
            wish = self.foil.phrase
            return f"Why not {wish}? When would a {row.noun} {wish} have beaten {rival}{row.by}?"
        if row.same:
            return f"Why not {row.wanted}? It is what was decided."
        return f"Why not {row.wanted}? When would {row.it} have beaten {rival}{row.by}?"

    def success(self, row: RowFacts) -> str:
        how = "been level with" if row.level else "beaten"
        return f"{row.wanted} would have {how} {row.decided}{row.by}"

    def failure(self, row: RowFacts) -> str:
        it = "it" if self.foil is None else f"a {row.noun} {self.foil.phrase}"
        return f"lets {it} beat the decision{row.by}"

    def edge(self, row: RowFacts) -> str:
        return "The two are level there." if row.level else ""

    def obstacle(self, row: RowFacts, rivals: Sequence[str]) -> str:
        what = row.wanted if self.foil is None else f"no {row.noun} {self.foil.phrase}"
        does = "does not" if self.foil is None else "is there that could"
        return f"Whatever the context, {what} {does} {row.beat} {row.decided}."
