"""trade_off(): how near answers are with one change, with two, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cfopt import clock
from cfopt.clock import Limit, is_over, part_of
from cfopt.errors import InputError
from cfopt.explaining.again import ask_again
from cfopt.explaining.explain import answer
from cfopt.pipeline import Pipeline
from cfopt.question import Criterion, Question
from cfopt.question.domain import Domain
from cfopt.question.features import Features
from cfopt.question.proximity import Proximity
from cfopt.question.robustness import Robustness
from cfopt.result.explanation import Explanation
from cfopt.result.trade_off import TradeOff, as_near
from cfopt.search import Search


def trade_off(
    x0: Any,
    pipeline: Pipeline,
    criterion: Criterion,
    *,
    most: int | None = None,
    proximity: Proximity | None = None,
    search: Search | None = None,
    features: Features | None = None,
    reference: Any = None,
    margin: float = 0.0,
    time_limit: float | None = None,
    robust: Robustness | Sequence[Robustness] | None = None,
) -> TradeOff:
    """For k = 1, 2, 3, ... the nearest context with at most k changed features that explains.

    The question is asked first as it is, then with `max_changes` of 1, 2, and so on, each time of
    the contexts whose answer is not yet as near as the first one. Where the predictor is affine,
    each answer is proved to be the nearest with so few changes, or that there is none.

    Arguments:
        x0, pipeline, criterion, proximity, search, reference, margin, robust: as for `explain`.
        most: how many changes are asked about at most; by default as many as bring the answer
            nearer.
        features: as for `explain`; their own `max_changes` stays a limit for all answers.
        time_limit: as for `explain`, for all numbers of changes together: the first question may
            take half of the time, and each that follows half of what is left.
    """
    end = Limit.of(time_limit, clock.now()).end
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise InputError(f"trade_off needs most as a whole number >= 1, or None; got {most!r}.")
    question = Question(
        criterion,
        margin,
        proximity,
        None,
        search,
        Features() if features is None else features,
        None,
        reference,
        time_limit,
        robust=Robustness.of(robust),
    )
    free = answer(x0, pipeline, question, deadline=part_of(end, 1 / 2))
    needed = Domain.unlimited(free.features, free.x0).changed(free.x).sum(1).tolist()
    curves: list[list[Explanation]] = [[] for _ in range(len(free))]
    rows = [row for row, status in enumerate(free.status) if status.is_found]
    count = 1
    while rows and (most is None or count <= most) and not is_over(end):
        limited = replace(free.features, max_changes=count)
        for row in [row for row in rows if needed[row] <= count]:
            # The nearest of all has no more changes than these.
            one = free[row]
            curves[row].append(replace(one, asked=replace(one.asked, features=limited)))
        rows = [row for row in rows if needed[row] > count]
        if rows:
            found = ask_again(free, rows, pipeline, limited, part_of(end, 1 / 2))
            for i, row in enumerate(rows):
                curves[row].append(_no_worse(found[i], curves[row]))
        rows = [row for row in rows if not as_near(curves[row][-1], free[row])]
        count += 1
    return TradeOff(free, tuple(map(tuple, curves)))


def _no_worse(one: Explanation, earlier: list[Explanation]) -> Explanation:
    """An answer, or the one with fewer changes where a search has missed that it is nearer."""
    last = earlier[-1] if earlier else None
    if last is None or not last.answered[0] or as_near(one, last):
        return one
    message = ("no nearer one was found than with fewer changes",)
    return replace(last, asked=one.asked, bound=one.bound, message=message)
