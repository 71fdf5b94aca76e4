"""What is said about a criterion: the question, the answer, and why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cfopt import registry
from cfopt.problems.sense import Sense


@dataclass(frozen=True)
class RowFacts:
    """One row of an explanation, as sentences about it need to know it.

    Arguments:
        decided, wanted: what the factual decision and the one compared with it are called.
        noun: what a decision is called, such as "route".
        margin: the fraction by which the criterion must hold.
        known: whether the factual decision is known.
        same: whether the two decisions are the same.
        unmoved: whether the decision in the answer is still the factual one.
        settled: whether nothing needs to change.
        level: whether the one argued for is only as good as another in the answer.
        even: whether the two are equally good in the answer.
        tie: whether the answer is valid by equality only.
        elsewhere: whether the decision in the answer is neither of the two.
        worthless: whether the decision in the answer has the value 0, or an unknown one.
    """

    decided: str
    wanted: str
    noun: str
    margin: float
    known: bool
    same: bool
    unmoved: bool
    settled: bool
    level: bool
    even: bool
    tie: bool
    elsewhere: bool
    worthless: bool

    @property
    def it(self) -> str:
        """The pronoun of the alternative."""
        return "it" if self.noun == "route" else "this"

    @property
    def by(self) -> str:
        """The margin in words, to follow a verb."""
        return f" by a margin of {100 * self.margin:g}%" if self.margin > 0 else ""

    @property
    def beat(self) -> str:
        """To win, with the margin if there is one."""
        return "win by the margin against" if self.margin > 0 else "beat"


class Words:
    """What a criterion says: of all rows, of an outcome, and of a row whose decisions have names.

    By default it states the formula; a criterion should say what the formula means.
    """

    #: The inequality, for sentences; y0 is the factual decision, v the best value.
    formula: ClassVar[str] = "h(x) <= 0"

    @classmethod
    def kind(cls) -> str:
        """The name by which the configuration, the explorer and JSON know it."""
        return registry.criteria.name_of(cls) or cls.__name__

    @classmethod
    def choice(cls, noun: str) -> tuple[str, str]:
        """The question in the words of someone who has a plan, and what an answer would mean.

        Arguments:
            noun: what a decision is called.
        """
        return f"When does {cls.formula} hold?", f"A criterion of kind {cls.kind()}."

    def ask(self) -> str:
        """The question."""
        return f"When does {self.formula} hold?"

    def answer(self, tie: bool, unbeaten: bool) -> str:
        """What holds in a valid context.

        Arguments:
            tie: whether it holds by equality only.
            unbeaten: whether the factual decision is still among the best.
        """
        return f"in this context {self.formula} holds{', as an equality' if tie else ''}"

    def miss(self, violation: float, sense: Sense) -> str:
        """What a context lacks in which it does not hold, in the units of the objective."""
        return f"h is still {violation:.3g} above 0 (the criterion is {self.formula})"

    def conflict(self, where: str, rivals: Sequence[str], margin: float) -> str:
        """Why no context will do.

        Arguments:
            where: "no context" or "no allowed context".
            rivals: the decisions whose cuts contradict each other, described.
            margin: the fraction by which the criterion must hold.
        """
        return f"in {where} does {self.formula} hold"

    def ask_about(self, row: RowFacts) -> str:
        """The question about one row."""
        return f"When does {self.formula} hold{row.by}?"

    def success(self, row: RowFacts) -> str:
        """What holds in the answer of a row; "" to have the plain answer instead."""
        return ""

    def failure(self, row: RowFacts) -> str:
        """What no context does, to follow "No context"."""
        return f"makes {self.formula} hold{row.by}"

    def edge(self, row: RowFacts) -> str:
        """What is said of an answer that is valid by equality only; "" for others."""
        return "Both sides of the criterion are equal there." if row.tie else ""

    def obstacle(self, row: RowFacts, rivals: Sequence[str]) -> str:
        """What stands in the way of a row without an answer: rivals that contradict each other."""
        return "Each decision that could do it was ruled out in turn."

    def third_role(self, tie: bool) -> str:
        """What a decision in the answer that is neither of the two is to them."""
        return "chosen after"


def worse_by(violation: float, sense: Sense) -> str:
    """By how much an alternative is worse, to be followed by "than" and another."""
    if sense is Sense.MIN:
        return f"costs {violation:.3g} more"
    return f"is worth {violation:.3g} less"
