"""One row of an explanation in sentences: the question, the verdict, the proof.

Each function takes an explanation of a single row.
"""

from __future__ import annotations

import math
from dataclasses import replace

from cfopt._batch import once
from cfopt.drawing.panel import chosen_elsewhere, decisions, host, prices, same, scene_of, unmoved
from cfopt.engine.rules import TOLERANCE
from cfopt.errors import InputError
from cfopt.names import counted, join_words
from cfopt.problems.sense import Sense
from cfopt.question import RowFacts
from cfopt.report.numbers import percent_up
from cfopt.result.explanation import Explanation
from cfopt.result.nearness import compared, length_of, units_of
from cfopt.result.status import Status
from cfopt.result.wording import rounded_down

#: What each status means, for the legend.
MEANING = {
    Status.VALID: "a context in which it would be so was found, and checked by a fresh solve",
    Status.ALREADY_VALID: "it is so without any change",
    Status.SAMPLED: "it was so at every point that was tried around a context, which is no proof",
    Status.BEST_EFFORT: "no such context was found, and none was ruled out",
    Status.PROVED_INFEASIBLE: "it was proved that no allowed context makes it so",
    Status.REJECTED: "the question could not be asked; the row says why",
}
#: The same in a word or two, where rows are listed.
PLAIN = {
    Status.VALID: "Found",
    Status.ALREADY_VALID: "Already so",
    Status.SAMPLED: "Found, not proved",
    Status.BEST_EFFORT: "Not found",
    Status.PROVED_INFEASIBLE: "Impossible",
    Status.REJECTED: "Not asked",
}
#: How many limits a proof names.
_NAMED = 6
#: Names up to this length are repeated in a verdict.
_SHORT = 32


@once
def names(e: Explanation) -> tuple[str, str]:
    """The decision and the one that it is compared with, each distinguished from the other."""
    factual, other, _ = decisions(e)
    name = scene_of(e).name_of
    return name(factual, other), name(other, factual)


@once
def facts(e: Explanation) -> RowFacts:
    """What sentences about a row need to know."""
    decided, wanted = names(e)
    return RowFacts(
        decided=decided,
        wanted=wanted,
        noun=scene_of(e).noun,
        margin=e.margin,
        known=bool(e.factual.isfinite().all()),
        same=same(e),
        unmoved=unmoved(e),
        settled=e.status[0] is Status.ALREADY_VALID,
        level=_contested(e) and (bool(e.tie[0]) or _even(e)),
        even=_contested(e) and _even(e),
        tie=bool(e.tie[0]),
        elsewhere=chosen_elsewhere(e),
        worthless=not _has_value(e),
    )


def _brief(known: RowFacts) -> RowFacts:
    """The same where long names have been said before, and are not said again."""
    decided = known.decided if len(known.decided) <= _SHORT else "the decision"
    wanted = known.wanted if len(known.wanted) <= _SHORT else "it"
    return replace(known, decided=decided, wanted=wanted)


def question(e: Explanation) -> str:
    """What was asked: "Why not B-C-F? What would have made it the best route?"."""
    return e.criterion.ask_about(facts(e))


def verdict(e: Explanation) -> str:
    """How it ended, in a sentence."""
    if e.status[0] is Status.PROVED_INFEASIBLE:
        where = "No allowed context" if e.features.limited else "No context"
        return f"{where} {e.criterion.failure(facts(e))}."
    if e.status[0].is_found:
        holds = e.criterion.success(_brief(facts(e)))
        if holds:
            return f"With the changes below, {holds}.{_taken_instead(e)}"
    return _sentence(e.message[0])


def _taken_instead(e: Explanation) -> str:
    """What would be taken where neither of the two compared decisions is, and at what value."""
    if e.criterion.needs_optimum or not chosen_elsewhere(e):
        return ""
    name = scene_of(e).name_of(host(e.decision[0]), host(e.factual[0]))
    try:
        worth = prices(e, "costs")
    except InputError:  # read from a file, without the problem that knows the fixed costs
        return f" Neither would be taken: {name} is better than both."
    best, other = (float(worth @ host(y[0])) for y in (e.decision, e.alternative))
    off = f" by {percent_up(abs(other - best) / abs(best))}" if best else ""
    better = "cheaper" if e.sense is Sense.MIN else "worth more"
    return f" Neither would be taken, though: {name} is {better} than both{off}."


def _sentence(message: str) -> str:
    message = message.rstrip(".")
    return message[:1].upper() + message[1:] + "."


def proof(e: Explanation, measure: str | None = None) -> list[str]:
    """What is proved, in sentences; plainly said where nothing is.

    Arguments:
        e: one row.
        measure: how proofs measure, as `compared` says it of all rows together.
    """
    status = e.status[0]
    if status is Status.REJECTED or status is Status.ALREADY_VALID:
        return []
    if status is Status.PROVED_INFEASIBLE:
        remedy = e.remedy[0] if e.remedy else None
        return [*_clash(e), *([] if remedy is None else [f"{remedy.words}."])]
    return [
        *_nearness(e, compared(e) if measure is None else measure),
        *filter(None, [e.criterion.edge(facts(e))]),
    ]


def _contested(e: Explanation) -> bool:
    """Whether an answer argues for another decision, and without a margin."""
    return e.margin == 0 and e.criterion.contrasts and bool(e.answered[0]) and not same(e)


@once
def _even(e: Explanation) -> bool:
    """Whether the two decisions that are compared are equally good at x."""
    try:
        terms = prices(e, "costs") * (decisions(e).other - decisions(e).factual)
    except InputError:  # read from a file, without the problem that knows the fixed costs
        return False
    return bool(abs(terms.sum()) <= TOLERANCE * abs(terms).sum())


def _has_value(e: Explanation) -> bool:
    """Whether what is decided at x has a value other than 0, of which there can be a fraction."""
    try:
        terms = prices(e, "costs") * decisions(e).there
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
            f"No nearer context would do{so}: {by_that}this is the closest possible explanation."
        ]
    if math.isfinite(bound) and bound > 0:
        bound, loss = length_of(e, bound), length_of(e, loss)
        least, how = rounded_down(bound, 4), f", measured {measure}" if measure else ""
        if status.is_found:
            return [
                f"No context nearer than {least} would do{how}; this one is {loss:.4g} away, at "
                f"most {percent_up(loss / bound - 1)} more than the least possible."
            ]
        return [f"Any context that would do is at least {least} away{how}."]
    if status.is_found:
        return ["Nothing is proved about nearer ones: there may be a smaller change."]
    return ["Nothing is proved: there may be an answer that the search did not find."]


def _clash(e: Explanation) -> list[str]:
    """Which decisions and limits contradict each other."""
    clash = e.clash[0]
    if clash is None:
        return ["It was proved, but the proof's details were not kept."]
    rivals = [scene_of(e).name_of(y, host(e.alternative[0])) for y in clash.decisions]
    parts = [e.criterion.obstacle(facts(e), rivals)]
    if clash.why:
        parts.append(f"{clash.why[0].upper()}{clash.why[1:]}.")
    if clash.limits:
        parts.append(f"The limits of {join_words(clash.limits, most=_NAMED)} are involved.")
    if clash.locked:
        parts.append(f"Unlocking {join_words(clash.locked, 'or', _NAMED)} could help.")
    if not clash.limits and not clash.locked:
        parts.append("No limit on the context is involved.")
    if math.isfinite(clash.radius):
        radius = rounded_down(clash.radius, 1)
        units = units_of(e).removeprefix("in ") or "units"
        parts.append(f"This is proved for every context within {radius} {units} of this one.")
    return parts


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
    return e.criterion.third_role(bool(e.tie[0]))
