"""Questions and outcomes in plain words, for messages, summaries and pictures.

What a criterion asks and answers it says itself; here is what all of them have in common.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

from torch import Tensor

from cfopt.exact.certificate import Clash
from cfopt.names import counted, join_words
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.question import Contrastive, Criterion, Question
from cfopt.question.proximity import Proximity

#: What is added where reconstruction, before any search, changes the decision.
BY_THE_MODEL = (
    "; what the generative model alone makes of the context, before any search, already changes "
    "the decision"
)

#: A radius up to this is rounding: the answer lies on a boundary.
_NOTHING = 1e-6


def question(criterion: Criterion, margin: float = 0.0) -> str:
    """What the user asked."""
    asked = criterion.ask()
    return f"{asked} (With a margin of {100 * margin:g}%.)" if margin > 0 else asked


def terms(asked: Question) -> str:
    """What else an answer has to be like, in sentences to follow the question; "" if nothing."""
    said, most = [], asked.features.max_changes
    if most is not None:
        said.append(f" No more than {counted(most, 'feature')} may change.")
    if asked.robust is not None:
        said.append(f" It has to hold {asked.robust.words}.")
    return "".join(said)


def moved_words(feature: str, before: Any, after: Any, change: float) -> str:
    """How one feature changed: "city: Rome -> Milan", "size: 2 -> 3 (+1)"."""
    if math.isnan(change):
        return f"{feature}: {before} -> {after}"
    return f"{feature}: {before:.4g} -> {after:.4g} ({change:+.3g})"


def price_words(name: str, before: float, after: float) -> str:
    """How one cost would have to change: "A-B would have to cost 12% less"."""
    change = after - before
    if before == 0 or before * after < 0:
        return f"{name} would have to cost {after:.3g} instead of {before:.3g}"
    less = "less" if abs(after) < abs(before) else "more"
    percent = 100 * abs(change / before)
    said = f"{percent:.2g}" if percent < 99.5 else f"{percent:,.0f}"
    return f"{name} would have to cost {said}% {less}"


def resolved(problem: Problem, criterion: Criterion, plans: Tensor, row: int) -> str:
    """The plan that a wish comes down to, to follow an answer; "" if the plan was given."""
    if not isinstance(criterion, Contrastive) or criterion.foil is None:
        return ""
    return f"; the plan would be {problem.describe(plans[row].double().cpu().numpy())}"


#: What precedes the message of an option that another plan makes valid.
ANOTHER_PLAN = "another plan takes over"


def radius_words(radius: float, kind: str) -> str:
    """How far a context may be off, in a sentence; "" if that is not known, or by nothing."""
    if not kind or not radius > _NOTHING:
        return ""
    if radius == math.inf:
        return "It holds however far the context is off."
    least = rounded_down(radius, 3)
    if kind == "at most":
        return f"It stops holding in a context {radius:.3g} away, perhaps in a nearer one."
    up_to = "at least " if kind == "at least" else ""
    return f"It holds in every context within {up_to}{least} of this one."


def nearness(loss: Tensor, bound: Tensor, optimal: bool, near: Proximity | None) -> str:
    """What is proved about how near an explanation can be, to follow an answer; "" if nothing.

    Arguments:
        loss, bound: what was minimised, and the least that it can be.
        optimal: whether they are the same.
        near: the proximity, if nothing else was minimised.
    """
    if optimal:
        return ", and no nearer context would do"
    if not bound > 0:
        return ""
    if near is None:
        return f" (loss {loss:.4g}; none can have less than {bound:.4g})"
    least = rounded_down(float(near.length(bound)), 4)
    return f" (distance {near.length(loss):.4g}; none can be nearer than {least})"


def impossible(
    problem: Problem, criterion: Criterion, margin: float, clash: Clash, limited: bool
) -> str:
    """Why a row has no explanation: the decisions and limits whose cuts clash."""
    where = "no allowed context" if limited else "no context"
    rivals = [problem.describe(decision) for decision in clash.decisions]
    text = criterion.conflict(where, rivals, margin)
    if clash.why:
        text += f"; {clash.why}"
    if clash.limits:
        text += f"; the limits of {join_words(clash.limits)} are involved"
    if clash.locked:
        text += f"; unlocking {join_words(clash.locked, 'or')} could help"
    if math.isfinite(clash.radius):
        within = rounded_down(clash.radius, 1)
        text += f" (proved for every context within {within} units of this one)"
    return text


def miss(criterion: Criterion, margin: float, violation: float, sense: Sense) -> str:
    """What a row without an answer lacks, in the units of the objective."""
    if margin > 0:
        return f"it falls {violation:.3g} short of holding with a margin of {100 * margin:g}%"
    return criterion.miss(violation, sense)


def rounded_down(value: float, digits: int) -> str:
    """A finite number rounded down to `digits` significant digits."""
    context = Context(prec=digits, rounding=ROUND_FLOOR)
    return f"{float(context.create_decimal(Decimal(repr(value)))):.{digits}g}"
