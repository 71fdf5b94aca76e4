"""One row of an explanation in sentences: the question, the verdict, the proof, the plausibility.

Each function takes an explanation of a single row.
"""

from __future__ import annotations

import math

from scipy.special import gammainc

from cfopt.criteria import Absolute, Epsilon, Relative
from cfopt.errors import InputError
from cfopt.explanation import Explanation
from cfopt.latent import norms
from cfopt.plausibility import KAPPA, mean_norm, prior_mass
from cfopt.plots.parts import host, prices
from cfopt.problems.base import same_decision
from cfopt.report.naming import decision_name, listing, noun
from cfopt.task import TOLERANCE
from cfopt.types import Sense, Status, counted

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
    kind, criterion = noun(e.problem), e.criterion
    it = "it" if kind == "route" else "this"
    known = bool(e.factual.isfinite().all())
    by = f" by a margin of {100 * e.margin:g}%" if e.margin > 0 else ""
    if isinstance(criterion, Epsilon):
        which = decided if known else f"the {kind}"
        return f"What would have put {which} at least {100 * criterion.epsilon:g}% off the best?"
    if isinstance(criterion, Relative):
        rival = decided if known else f"the {kind} that was taken"
        return f"Why not {wanted}? When would {it} have beaten {rival}{by}?"
    return f"Why not {wanted}? What would have made {it} the best {kind}{by}?"


def verdict(e: Explanation) -> str:
    """How it ended, in a sentence."""
    if e.status[0] is Status.PROVED_INFEASIBLE:
        where = "No allowed context" if e.features.limited else "No context"
        if isinstance(e.criterion, Epsilon):
            return f"{where} puts it that far off the best."
        goal = (
            "lets it beat the decision"
            if isinstance(e.criterion, Relative)
            else f"makes it the best {noun(e.problem)}"
        )
        by = f" by a margin of {100 * e.margin:g}%" if e.margin > 0 else ""
        return f"{where} {goal}{by}."
    return (_success(e) if e.status[0] is Status.VALID else "") or _sentence(e.message[0])


def _sentence(message: str) -> str:
    message = message.rstrip(".")
    return message[:1].upper() + message[1:] + "."


def _success(e: Explanation) -> str:
    """What holds at x, with names; "" where the message itself must do."""
    decided, wanted = names(e)
    level, kind = _level(e), noun(e.problem)
    # The question above has named them: what is long is not said twice.
    decided = decided if len(decided) <= _SHORT else "the decision"
    wanted = wanted if len(wanted) <= _SHORT else "it"
    if isinstance(e.criterion, Absolute):
        how = f"been as good as any {kind}" if level else f"been the best {kind}"
        return f"With what changed below, {wanted} would have {how}."
    if isinstance(e.criterion, Relative):
        how = "been level with" if level else "beaten"
        return f"With what changed below, {wanted} would have {how} {decided}."
    if isinstance(e.criterion, Epsilon) and not bool(same_decision(e.decision, e.factual)[0]):
        off = f"{100 * e.criterion.epsilon:g}%"
        return f"With what changed below, {decided} would have been at least {off} off the best."
    return ""


def proof(e: Explanation) -> list[str]:
    """What is proved, in sentences; a plain word where nothing is."""
    status = e.status[0]
    if status is Status.REJECTED or status is Status.ALREADY_VALID:
        return []
    if status is Status.PROVED_INFEASIBLE:
        return _clash(e)
    return _nearness(e) + (["The two sides are level there."] if _level(e) else [])


def _level(e: Explanation) -> bool:
    """Whether the answer is valid by a tie, also one that the solver happens to settle well."""
    if not e.valid[0] or bool(e.tie[0]) or not e.criterion.contrasts:
        return bool(e.tie[0])
    try:
        terms = prices(e, "costs") * host(e.alternative[0] - e.factual[0])
    except InputError:  # read from a file, without the problem that knows the fixed costs
        return False
    return bool(abs(terms.sum()) <= TOLERANCE * abs(terms).sum())


def _nearness(e: Explanation) -> list[str]:
    """What is proved about how near an answer can be."""
    status = e.status[0]
    loss, bound = float(e.loss[0]), float(e.bound[0])
    if bool(e.optimal[0]):
        return ["No nearer context would do: this is the closest explanation there is."]
    if math.isfinite(bound) and bound > 0:
        if status is Status.VALID:
            return [
                f"No context can do it with a loss below {bound:.4g}; this one has {loss:.4g}, "
                f"at most {loss / bound - 1:.0%} more than the least possible."
            ]
        return [f"Any context that does it has a loss of at least {bound:.4g}."]
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
        parts.append(
            f"This is proved for every context within {clash.radius:.1g} units of this one."
        )
    return parts


def _first(parts: tuple[str, ...], last: str = "and") -> str:
    more = len(parts) - _NAMED
    return listing([*parts[:_NAMED], *([f"{more} more"] if more > 0 else [])], last)


def rating(e: Explanation) -> str:
    """One word for how plausible the code of the answer is; "" without codes."""
    if e.latent is None or e.status[0] is Status.REJECTED:
        return ""
    off = abs(float(norms(e.latent.z)[0]) - mean_norm(e.latent.z.shape[1]))
    # One of norm's standard deviations is about 0.7, whatever the number of latents.
    return "typical" if off <= 1 else "plausible" if off <= KAPPA else "unusual"


def plausibility(e: Explanation) -> list[str]:
    """How plausible the answer is under the generative model, in sentences."""
    word = rating(e)
    if not word or e.latent is None or e.status[0] is Status.PROVED_INFEASIBLE:
        return []
    n = e.latent.z.shape[1]
    size, own, radius = float(norms(e.latent.z)[0]), float(norms(e.latent.z0)[0]), mean_norm(n)
    mass = prior_mass(n, KAPPA)
    where = f"Its code has the norm {size:.3g}, where {radius:.3g} is typical"
    if word == "unusual":
        side = "less" if size < radius else "more"
        below = float(gammainc(n / 2, size**2 / 2))
        share = below if size < radius else 1 - below
        reading = (
            f"Unusual. {where}: only {_share(share)} of what the generative model makes "
            f"has {side}. Read the answer with care."
        )
    else:
        reading = (
            f"{word.capitalize()}. {where}; within {KAPPA:g} of that lies "
            f"{_share(mass)} of what the generative model makes."
        )
    parts = [reading, f"The code of the context itself has {own:.3g}."]
    if bool(e.reconstruction_moved[0]):
        parts.append(
            "The generative model alone, before any search, already changes the decision here."
        )
    return parts


def _share(part: float) -> str:
    return f"{100 * part:.3g}%" if part >= 0.001 else "less than 0.1%"


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
