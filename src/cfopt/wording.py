"""Criteria and outcomes in plain words, for messages, summaries and pictures."""

from __future__ import annotations

from cfopt.criteria import Absolute, Criterion, Epsilon, Relative
from cfopt.task import Task
from cfopt.types import Sense


def question(criterion: Criterion, margin: float = 0.0) -> str:
    """What the user asked."""
    asked = _asked(criterion)
    return f"{asked} (With a margin of {100 * margin:g}%.)" if margin > 0 else asked


def _asked(criterion: Criterion) -> str:
    if isinstance(criterion, Epsilon):
        return f"What would have put the decision {100 * criterion.epsilon:g}% off the best?"
    if isinstance(criterion, Relative):
        return "When would the alternative have beaten the decision?"
    return "When would the alternative have been the best of all?"


def answer(criterion: Criterion, tie: bool, unbeaten: bool) -> str:
    """What a valid row says."""
    if isinstance(criterion, Epsilon):
        if unbeaten:
            return (
                "in this context the best value is 0, of which any regret is enough; the factual "
                "decision still attains it"
            )
        return (
            f"in this context the regret of the factual decision is at least {criterion.epsilon:g}"
        )
    if isinstance(criterion, Relative):
        how = "is level with" if tie else "beats"
        return f"in this context the alternative {how} the factual decision"
    if tie:
        return "in this context the alternative is optimal, level with what the solver returned"
    return "in this context the alternative is optimal"


def miss(task: Task, violation: float) -> str:
    """What a row without an answer lacks, in the units of the objective."""
    criterion, sense = task.criterion, task.pipeline.problem.sense
    if task.margin > 0:
        return f"{violation:.3g} is missing to the margin of {task.margin:g}"
    if isinstance(criterion, Epsilon):
        return f"the factual decision is still {violation:.3g} too good"
    rival = "the best decision" if isinstance(criterion, Absolute) else "the factual decision"
    how = "costs" if sense is Sense.MIN else "is worth"
    more = "more" if sense is Sense.MIN else "less"
    return f"the alternative still {how} {violation:.3g} {more} than {rival}"
