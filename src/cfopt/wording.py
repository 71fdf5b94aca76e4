"""Criteria and outcomes in plain words, for messages, summaries and pictures."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal

from cfopt.certificate import Clash
from cfopt.criteria import Absolute, Criterion, Epsilon, Relative
from cfopt.task import Task
from cfopt.types import Sense

#: What is added where reconstruction, before any search, changes the decision.
BY_THE_MODEL = (
    "; what the generative model alone makes of the context, before any search, already changes "
    "the decision"
)
#: How many decisions of a clash are described.
_NAMED = 3


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


def nearness(loss: float, bound: float, optimal: bool) -> str:
    """What is proved about how near an explanation can be, to follow an answer; "" if nothing."""
    if optimal:
        return ", and in no nearer one"
    if bound > 0:
        return f" (loss {loss:.4g}; none can have less than {bound:.4g})"
    return ""


def impossible(task: Task, clash: Clash) -> str:
    """Why a row has no explanation: the decisions and limits whose cuts clash."""
    problem, criterion = task.pipeline.problem, task.criterion
    where = "no allowed context" if task.domain is not None else "no context"
    wins = "wins by its margin against" if task.margin > 0 else "beats"
    beat = "win by its margin against" if task.margin > 0 else "beat"
    described = [problem.describe(decision) for decision in clash.decisions]
    letters = [chr(ord("A") + k) if k < 26 else f"A{k}" for k in range(len(described))]
    if isinstance(criterion, Epsilon):
        text = f"in {where} is the factual decision that far off the best"
    elif isinstance(criterion, Relative) or len(described) == 1:
        rival = "the factual decision" if isinstance(criterion, Relative) else "A"
        text = f"in {where} does the alternative {beat} {rival}"
    elif not described:
        text = f"in {where} is the alternative the best of all"
    elif len(described) == 2:
        then = "it does not win by it against B" if task.margin > 0 else "B beats it"
        text = f"whenever the alternative {wins} A, {then}"
    else:
        text = f"{where} lets the alternative {beat} {_listing(letters)} at once"
    if isinstance(criterion, Absolute) and described:
        shown = [f"{a} is {b}" for a, b in zip(letters, described, strict=True)][:_NAMED]
        more = [f"{len(described) - _NAMED} more"] if len(described) > _NAMED else []
        text += f": {_listing(shown + more)}"
    if clash.limits:
        text += f"; the limits of {_listing(list(clash.limits))} take part"
    if clash.locked:
        text += f"; unlocking {_listing(list(clash.locked), 'or')} could help"
    if math.isfinite(clash.radius):
        within = rounded_down(clash.radius, 1)
        text += f" (proved for every context within {within} units of this one)"
    return text


def rounded_down(value: float, digits: int) -> str:
    """A finite number with so many significant digits, and no more than it is."""
    context = Context(prec=digits, rounding=ROUND_FLOOR)
    return f"{float(context.create_decimal(Decimal(repr(value)))):.{digits}g}"


def _listing(parts: list[str], last: str = "and") -> str:
    return " ".join([", ".join(parts[:-1]), last, parts[-1]]) if len(parts) > 1 else "".join(parts)


def miss(task: Task, violation: float) -> str:
    """What a row without an answer lacks, in the units of the objective."""
    criterion, sense = task.criterion, task.pipeline.problem.sense
    if task.margin > 0:
        return f"it lacks {violation:.3g} to hold with a margin of {100 * task.margin:g}%"
    if isinstance(criterion, Epsilon):
        return f"the factual decision is still {violation:.3g} too good"
    rival = "the best decision" if isinstance(criterion, Absolute) else "the factual decision"
    how = "costs" if sense is Sense.MIN else "is worth"
    more = "more" if sense is Sense.MIN else "less"
    return f"the alternative still {how} {violation:.3g} {more} than {rival}"
