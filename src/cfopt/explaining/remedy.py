"""remedies(): for rows that limits make impossible, the fewest limits to lift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from cfopt import clock
from cfopt.clock import Limit, is_over
from cfopt.explaining.again import ask_again
from cfopt.pipeline import Pipeline
from cfopt.question import LocalOutlier
from cfopt.question.domain import Domain
from cfopt.question.relaxing import LimitOfOne, involved, single_limits, without
from cfopt.result.explanation import Explanation
from cfopt.result.remedy import Remedy
from cfopt.result.status import Status

#: How many sets of limits are tried for a row.
_MOST_TRIES = 40
#: How many limits are lifted together at most.
_MOST_LIFTED = 4


def remedies(
    explanation: Explanation, pipeline: Pipeline, *, time_limit: float | None = None
) -> Explanation:
    """The explanation with `remedy` for each row that was proved to have no answer under limits.

    A clash names the limits that it needs, and whatever helps must lift one of them. So a smallest
    set that meets all clashes so far is lifted and tried: it has an answer, which is verified, or
    gives another clash. No smaller set can have an answer, as far as all tries were proved.

    Arguments:
        explanation: as `explain` returned it.
        pipeline: the pipeline that it explains.
        time_limit: seconds for all rows together, by default as many as the explanation had; rows
            whose turn does not come by then have no remedy.
    """
    limit = explanation.asked.time_limit if time_limit is None else time_limit
    deadline = Limit.of(limit, clock.now()).end
    found = tuple(
        _of_row(explanation, row, pipeline, deadline)
        if status is Status.PROVED_INFEASIBLE
        else None
        for row, status in enumerate(explanation.status)
    )
    return replace(explanation, remedy=found)


def _of_row(e: Explanation, row: int, pipeline: Pipeline, deadline: float) -> Remedy | None:
    size = e.x0[0].numel()
    limits = single_limits(e.features, size)
    clash = e.clash[row]
    domain = Domain.of(e.features, e.x0[row : row + 1])
    if domain is None or clash is None or not limits:
        return None
    if isinstance(e.asked.plausibility, LocalOutlier):
        return None  # the known contexts, which answers must be like, are not kept
    sums = [domain.describe_sum(k) for k in range(len(domain.sums()[0]))]
    first = involved(limits, (*clash.limits, *clash.locked), sums)
    # Where a proof does not say which, all may be.
    clashes, tried, proved = [first or frozenset(limits)], set[frozenset[LimitOfOne]](), True
    for _ in range(_MOST_TRIES):
        lifted = next((one for one in _meeting(limits, clashes) if one not in tried), None)
        if lifted is None or is_over(deadline):
            return None
        tried.add(lifted)
        one = ask_again(e, [row], pipeline, without(e.features, size, lifted), deadline)
        if one.valid[0]:
            order = [limit for limit in limits if limit in lifted]
            return Remedy(tuple(limit.words for limit in order), one, proved)
        again = one.clash[0]
        if again is None:
            proved = False
            continue
        rest = involved(limits, (*again.limits, *again.locked), sums) - lifted
        if not rest and not (again.limits or again.locked):
            return None  # no limit is in the way any more
        clashes.append(rest or frozenset(limits) - lifted)
    return None


def _meeting(
    limits: tuple[LimitOfOne, ...], clashes: list[frozenset[LimitOfOne]]
) -> Iterator[frozenset[LimitOfOne]]:
    """Sets that have a limit of each clash, the smallest first."""
    candidates = [limit for limit in limits if any(limit in clash for clash in clashes)]
    for count in range(1, min(_MOST_LIFTED, len(candidates)) + 1):
        for chosen in map(frozenset, combinations(candidates, count)):
            if all(chosen & clash for clash in clashes):
                yield chosen
