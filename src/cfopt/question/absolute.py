"""When would my plan have been the best of all?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from cfopt import registry
from cfopt.errors import InputError
from cfopt.names import join_words
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.problems.solved import Solved, same_decision
from cfopt.question.criterion import Contrastive
from cfopt.question.quantifier import Quantifier
from cfopt.question.words import RowFacts, worse_by

#: How many decisions that contradict each other a message and a report name.
_DESCRIBED, _NAMED = 3, 6


@registry.criteria.register
class Absolute(Contrastive):
    """When would my plan have been the best of all? `<theta, y_alt> <= v` (Definition 2.2)."""

    formula = "<theta, y_alt> <= v"

    @property
    def multiples(self) -> Mapping[Quantifier, tuple[float, ...]]:
        """`y_alt - y` for every y."""
        return {Quantifier.EVERY: (-1.0,)}

    def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
        """`y_alt - y*`."""
        return self.alternative - optimum

    def check(self, problem: Problem, margin: float) -> None:
        """With a margin, the best other decision must be one that can be asked for."""
        super().check(problem, margin)
        if margin > 0 and self.foil is None and not problem.ranks_decisions:
            raise InputError(
                "A margin on an absolute explanation needs binary or listed decisions, which those "
                f"of {type(problem).__name__} are not known to be. Use margin=0, or binary=True "
                "where the problem takes it."
            )

    def rival(self, problem: Problem, prices: Tensor, solved: Solved, margin: float) -> Solved:
        """Where the alternative is the optimum and must win by a margin, the best other one."""
        if margin == 0:
            return solved
        reached = same_decision(solved.decisions, self.alternative).nonzero().flatten()
        if not len(reached):
            return solved
        costs = problem.sense.sign * prices[reached]
        others = problem.runner_up(costs, self.alternative[reached])
        decisions = solved.decisions.index_copy(0, reached, others.decisions)
        lost = {int(reached[row]): reason for row, reason in others.failures.items()}
        shortfall = solved.shortfall
        if shortfall is not None and others.shortfall is not None:
            shortfall = shortfall.index_copy(0, reached, others.shortfall)
        return Solved(decisions, solved.failures | lost, shortfall)

    def ties(
        self,
        problem: Problem,
        prices: Tensor,
        optimum: Tensor,
        factual: Tensor,
        tolerance: float,
    ) -> Tensor:
        """Another decision has the same value, whether the solver returned it or not."""
        tie = ~same_decision(optimum, self.alternative)
        rest = (~tie).nonzero().flatten()
        if len(rest):
            costs = problem.sense.sign * prices[rest]
            tie[rest] = problem.has_equal(costs, self.alternative[rest], tolerance)
        return tie

    @classmethod
    def choice(cls, noun: str) -> tuple[str, str]:
        best = (
            "No other route would have cost less."
            if noun == "route"
            else "No other choice would have been better."
        )
        return "What would have made mine the best?", best

    def ask(self) -> str:
        why = "" if self.foil is None else f"Why not {self.foil.phrase}? "
        return f"{why}When would {self.subject} have been the best of all?"

    def answer(self, tie: bool, unbeaten: bool) -> str:
        level = ", level with another decision" if tie else ""
        return f"in this context {self.subject} is optimal{level}"

    def miss(self, violation: float, sense: Sense) -> str:
        return f"{self.subject} still {worse_by(violation, sense)} than the best decision"

    def conflict(self, where: str, rivals: Sequence[str], margin: float) -> str:
        beat = "win by its margin against" if margin > 0 else "beat"
        letters = [chr(ord("A") + k) if k < 26 else f"A{k}" for k in range(len(rivals))]
        if not rivals:
            return f"in {where} is {self.subject} the best of all"
        if len(rivals) == 1:
            text = f"in {where} does {self.subject} {beat} A"
        elif len(rivals) == 2:
            wins = "wins by its margin against" if margin > 0 else "beats"
            then = "it does not win by it against B" if margin > 0 else "B beats it"
            text = f"whenever {self.subject} {wins} A, {then}"
        else:
            text = f"{where} lets {self.subject} {beat} {join_words(letters)} at once"
        named = [f"{letter} is {rival}" for letter, rival in zip(letters, rivals, strict=True)]
        return f"{text}: {join_words(named, most=_DESCRIBED)}"

    def ask_about(self, row: RowFacts) -> str:
        if self.foil is not None:
            wish = self.foil.phrase
            return f"Why not {wish}? What would have made a {row.noun} {wish} the best{row.by}?"
        if row.same:
            is_so = row.margin == 0 or row.settled
            asked = f"is {row.it}" if is_so else f"what would have made {row.it}"
            return f"The decision was {row.wanted}: {asked} the best {row.noun}{row.by}?"
        made = f"What would have made {row.it} the best {row.noun}{row.by}?"
        return f"Why not {row.wanted}? {made}"

    def success(self, row: RowFacts) -> str:
        how = f"been as good as any {row.noun}" if row.level else f"been the best {row.noun}"
        return f"{row.wanted} would have {how}{row.by}"

    def failure(self, row: RowFacts) -> str:
        if self.foil is not None:
            return f"makes a {row.noun} {self.foil.phrase} the best{row.by}"
        return f"makes it the best {row.noun}{row.by}"

    def edge(self, row: RowFacts) -> str:
        if not row.level:
            return ""
        if row.elsewhere:
            return f"It is level there with another {row.noun}, which the solver returns."
        if not row.even:
            other = f"It is level there with another {row.noun}"
            return f"{other}, and the solver returns the one asked for."
        which = "the one that was decided before" if row.unmoved else "the one asked for"
        return f"The two are level there, and the solver returns {which}."

    def obstacle(self, row: RowFacts, rivals: Sequence[str]) -> str:
        if not rivals:
            return super().obstacle(row, rivals)
        if len(rivals) == 1:
            return f"In its way is {rivals[0]}, which {row.wanted} cannot {row.beat}."
        shown = join_words(rivals, most=_NAMED)
        return (
            f"To be the best, {row.wanted} would have to {row.beat} {shown} at once. "
            "Each may be possible on its own, but not all of them together."
        )

    def third_role(self, tie: bool) -> str:
        return "level with it" if tie else super().third_role(tie)
