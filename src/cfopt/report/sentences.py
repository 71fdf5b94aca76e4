"""One row of an explanation in sentences: the question, the verdict, the proof.

Each function takes an explanation of a single row.
"""

from __future__ import annotations

import math

from cfopt.criteria import Absolute, Epsilon, Relative
from cfopt.drawing.panel import host, prices
from cfopt.errors import InputError
from cfopt.explanation import Explanation
from cfopt.problems.base import same_decision
from cfopt.report.measure import measured
from cfopt.report.naming import decision_name, listing, noun
from cfopt.report.numbers import percent_up
from cfopt.task import TOLERANCE
from cfopt.types import Sense, Status, counted
from cfopt.wording import rounded_down

#: What each status means, for the legend.
MEANING = {
    Status.VALID: "a context was found in which it would be so, and checked by a fresh solve",
    Status.ALREADY_VALID: "it is so without any change",
    Status.BEST_EFFORT: "no such context was found, and none was ruled out",
    Status.PROVED_INFEASIBLE: "it was proved that no allowed context makes it so",
    Status.REJECTED: "the question could not be posed; the row says why",
}
#: How many rivals and limits a proof names.
_NAMED = 6
#: Names up to this length are repeated in a verdict.
_SHORT = 32


def names(e: Explanation) -> tuple[str, str]:
    """The decision, and the one that it is compared with, each told apart from the other."""
    factual, other = host(e.factual[0]), host(e.alternative[0])
    return decision_name(e.problem, factual, other), decision_name(e.problem, other, factual)


def question(e: Explanation) -> str:
    """What was asked: "Why not B-C-F? What would have made it the best route?"."""
    decided, wanted = names(e)
    kind, criterion, by = noun(e.problem), e.criterion, _by_margin(e)
    it = "it" if kind == "route" else "this"
    known = bool(e.factual.isfinite().all())
    if isinstance(criterion, Epsilon):
        which = decided if known else f"the {kind}"
        off = f"{100 * criterion.epsilon:g}%"
        return f"What would have put {which} at least {off} off the best{by}?"
    if isinstance(criterion, Relative):
        if same(e):
            return f"Why not {wanted}? It is what was decided."
        rival = decided if known else f"the {kind} that was taken"
        return f"Why not {wanted}? When would {it} have beaten {rival}{by}?"
    if same(e):
        is_so = e.margin == 0 or e.status[0] is Status.ALREADY_VALID
        asked = f"is {it}" if is_so else f"what would have made {it}"
        return f"The decision was {wanted}: {asked} the best {kind}{by}?"
    return f"Why not {wanted}? What would have made {it} the best {kind}{by}?"


def same(e: Explanation) -> bool:
    """Whether a row compares a decision with itself."""
    return bool(same_decision(e.alternative, e.factual)[0])


def _by_margin(e: Explanation) -> str:
    return f" by a margin of {100 * e.margin:g}%" if e.margin > 0 else ""


def verdict(e: Explanation) -> str:
    """How it ended, in a sentence."""
    if e.status[0] is Status.PROVED_INFEASIBLE:
        where = "No allowed context" if e.features.limited else "No context"
        by = _by_margin(e)
        if isinstance(e.criterion, Epsilon):
            return f"{where} puts it that far off the best{by}."
        goal = (
            "lets it beat the decision"
            if isinstance(e.criterion, Relative)
            else f"makes it the best {noun(e.problem)}"
        )
        return f"{where} {goal}{by}."
    return (_success(e) if e.status[0] is Status.VALID else "") or _sentence(e.message[0])


def _sentence(message: str) -> str:
    message = message.rstrip(".")
    return message[:1].upper() + message[1:] + "."


def _success(e: Explanation) -> str:
    """What holds at x, with names; "" where the message itself must do."""
    decided, wanted = names(e)
    level, kind, by = _level(e), noun(e.problem), _by_margin(e)
    # The question above has named them: what is long is not said twice.
    decided = decided if len(decided) <= _SHORT else "the decision"
    wanted = wanted if len(wanted) <= _SHORT else "it"
    if isinstance(e.criterion, Absolute):
        how = f"been as good as any {kind}" if level else f"been the best {kind}"
        return f"With what changed below, {wanted} would have {how}{by}."
    if isinstance(e.criterion, Relative):
        how = "been level with" if level else "beaten"
        return f"With what changed below, {wanted} would have {how} {decided}{by}."
    if isinstance(e.criterion, Epsilon) and not bool(same_decision(e.decision, e.factual)[0]):
        off = f"{100 * e.criterion.epsilon:g}%"
        return (
            f"With what changed below, {decided} would have been at least {off} off the best{by}."
        )
    return ""


def proof(e: Explanation, measure: str | None = None) -> list[str]:
    """What is proved, in sentences; a plain word where nothing is.

    Arguments:
        e: one row.
        measure: how nearness was measured, as `measured` says it of all rows together.
    """
    status = e.status[0]
    if status is Status.REJECTED or status is Status.ALREADY_VALID:
        return []
    if status is Status.PROVED_INFEASIBLE:
        return _clash(e)
    return _nearness(e, measured(e) if measure is None else measure) + _on_the_edge(e)


def _level(e: Explanation) -> bool:
    """Whether the alternative is only as good as another, also where the solver returned it.

    Unlike `tie`, which for `Absolute` tells only that the solver returned another.
    """
    if e.margin > 0 or not e.criterion.contrasts or not e.valid[0] or same(e):
        return False
    if bool(e.tie[0]):
        return True
    try:
        terms = prices(e, "costs") * host(e.alternative[0] - e.factual[0])
    except InputError:  # read from a file, without the problem that knows the fixed costs
        return False
    return bool(abs(terms.sum()) <= TOLERANCE * abs(terms).sum())


def _on_the_edge(e: Explanation) -> list[str]:
    """What is told of an answer that is valid by equality only."""
    if isinstance(e.criterion, Epsilon):
        if not bool(e.tie[0]) or not _has_value(e):
            return []
        return [f"There the decision is exactly {100 * e.criterion.epsilon:g}% off the best."]
    if not _level(e):
        return []
    if isinstance(e.criterion, Relative):
        return ["The two are level there."]
    if chosen_elsewhere(e):
        return [f"It is level there with another {noun(e.problem)}, which the solver returns."]
    which = "the one that was decided before" if bool(e.tie[0]) else "the one asked for"
    return [f"The two are level there, and the solver returns {which}."]


def _has_value(e: Explanation) -> bool:
    """Whether what is decided at x has a value other than 0, of which there can be a part."""
    try:
        terms = prices(e, "costs") * host(e.decision[0])
    except InputError:  # read from a file, without the problem that knows the fixed costs
        return False
    return bool(abs(terms.sum()) > TOLERANCE * abs(terms).sum())


def _nearness(e: Explanation, measure: str) -> list[str]:
    """What is proved about how near an answer can be."""
    status = e.status[0]
    loss, bound = float(e.loss[0]), float(e.bound[0])
    if bool(e.optimal[0]):
        so = f", measured {measure}" if measure else ""
        by_that = "by that, " if measure else ""
        return [
            f"No nearer context would do{so}: {by_that}this is the closest explanation there is."
        ]
    if math.isfinite(bound) and bound > 0:
        least = rounded_down(bound, 4)
        if status is Status.VALID:
            return [
                f"No context can do it with a loss below {least}; this one has {loss:.4g}, "
                f"at most {percent_up(loss / bound - 1)} more than the least possible."
            ]
        return [f"Any context that does it has a loss of at least {least}."]
    if status is Status.VALID:
        return ["Nothing is proved about nearer ones: there may be a smaller change."]
    return ["Nothing is proved: there may be an answer that the search did not find."]


def _clash(e: Explanation) -> list[str]:
    """Which decisions and limits stand against each other."""
    clash = e.clash[0]
    if clash is None:
        return ["It was proved, but what clashes was not kept."]
    wanted = names(e)[1]
    beat = "win by the margin against" if e.margin > 0 else "beat"
    parts = []
    if isinstance(e.criterion, Absolute) and len(clash.decisions):
        rivals = [decision_name(e.problem, y, host(e.alternative[0])) for y in clash.decisions]
        more = len(rivals) - _NAMED
        shown = rivals[:_NAMED] + ([f"{more} more"] if more > 0 else [])
        if len(rivals) == 1:
            parts.append(f"In its way is {rivals[0]}, which {wanted} cannot {beat}.")
        else:
            parts.append(
                f"To be the best, {wanted} would have to {beat} {listing(shown)} at once. "
                "Each may be possible, all together are not."
            )
    elif isinstance(e.criterion, Relative):
        parts.append(f"Whatever the context, {wanted} does not {beat} {names(e)[0]}.")
    else:
        parts.append("Each decision that could do it was ruled out in turn.")
    if clash.limits:
        parts.append(f"The limits of {_first(clash.limits)} take part.")
    if clash.locked:
        parts.append(f"Unlocking {_first(clash.locked, 'or')} could help.")
    if not clash.limits and not clash.locked:
        parts.append("No limit on the context takes part.")
    if math.isfinite(clash.radius):
        radius = rounded_down(clash.radius, 1)
        parts.append(f"This is proved for every context within {radius} units of this one.")
    return parts


def _first(parts: tuple[str, ...], last: str = "and") -> str:
    more = len(parts) - _NAMED
    return listing([*parts[:_NAMED], *([f"{more} more"] if more > 0 else [])], last)


def effort(e: Explanation) -> str:
    """How the answer was found, and what it took."""
    if e.status[0] in (Status.REJECTED, Status.ALREADY_VALID):
        return ""
    steps, solves = int(e.steps[0]), int(e.solves[0])
    by = f"{e.method[0]}, " if e.method[0] else ""
    return f"{by}{counted(steps, 'step')}, {counted(solves, 'solver call')}"


def value_word(e: Explanation) -> str:
    """What a decision's value is called."""
    return "Cost" if e.sense is Sense.MIN else "Worth"


def third_role(e: Explanation) -> str:
    """What a decision at x that is neither of the two is: as good as the alternative, or chosen."""
    level = isinstance(e.criterion, Absolute) and bool(e.tie[0])
    return "level with it" if level else "chosen after"


def chosen_elsewhere(e: Explanation) -> bool:
    """Whether what is decided at x is neither of the two decisions that are compared."""
    known = bool(e.decision.isfinite().all())
    either = same_decision(e.decision, e.factual) | same_decision(e.decision, e.alternative)
    return known and not bool(either[0])
