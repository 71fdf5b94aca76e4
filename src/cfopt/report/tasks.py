"""What the report says about one task, ready to be set on the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cfopt.drawing import elements as svg
from cfopt.drawing.elements import without_noise
from cfopt.drawing.panel import Line, chosen_elsewhere, decisions, prices, same, scene_of
from cfopt.errors import InputError
from cfopt.report import sentences
from cfopt.report.changes import Change, Changes, Move, changes_of, feature_moves
from cfopt.report.numbers import with_enough_digits
from cfopt.report.pictures import Gallery, alone, rivals
from cfopt.report.plausible import plausibility, rating
from cfopt.report.promises import promises
from cfopt.report.ways import Way, options
from cfopt.report.ways import prices as prices_of
from cfopt.result.explanation import Explanation
from cfopt.result.nearness import compared
from cfopt.result.status import Status


@dataclass(frozen=True)
class Compared:
    """A decision of a task and what it costs or is worth, before and after.

    Arguments:
        role: the line of the pictures that shows it.
        what: its role.
        name: what it is called.
        before, after: its values, "" where they do not matter.
    """

    role: str
    what: str
    name: str
    before: str
    after: str


@dataclass(frozen=True)
class TaskView:
    """One task as the page shows it."""

    number: int
    label: str
    status: Status
    question: str
    verdict: str
    asked: str
    decided: str
    distance: float | None
    steps: int
    compared: tuple[Compared, ...]
    changes: Changes
    proof: tuple[str, ...]
    plausibility: tuple[str, ...]
    rating: str
    effort: str
    gallery: Gallery
    optimal: bool
    options: tuple[Way, ...] = ()
    prices: Way | None = None

    @property
    def slug(self) -> str:
        """The status as a class."""
        return self.status.value.replace(" ", "-")

    @property
    def largest(self) -> Change | None:
        """The largest change, for the list of tasks."""
        infeasible = self.status is Status.PROVED_INFEASIBLE
        return None if infeasible or not self.changes.rows else self.changes.rows[0]


def task_views(
    e: Explanation, shown: list[Gallery], numbers: Sequence[int] | None = None
) -> list[TaskView]:
    """What is said about every row.

    Arguments:
        e: the explanation.
        shown: the pictures of every row.
        numbers: the numbers by which rows are known; from 0 by default.
    """
    moves, measure = feature_moves(e), compared(e)
    known = range(len(e)) if numbers is None else numbers
    labels = [e.label(row) for row in range(len(e))]
    rows = zip(alone(e), known, labels, shown, moves, strict=True)
    return [_view(*row, measure) for row in rows]


def _view(
    one: Explanation,
    number: int,
    label: str,
    gallery: Gallery,
    moves: list[Move],
    measure: str,
) -> TaskView:
    distance = float(one.distance[0])
    moved = one.status[0] is not Status.PROVED_INFEASIBLE and math.isfinite(distance)
    return TaskView(
        number=number,
        label=label,
        status=one.status[0],
        question=sentences.question(one),
        verdict=sentences.verdict(one),
        asked=sentences.names(one)[1],
        decided=sentences.names(one)[0],
        distance=distance if moved else None,
        steps=int(one.steps[0]),
        compared=tuple(_compared(one)),
        changes=changes_of(one, moves),
        proof=(*promises(one, moves), *sentences.proof(one, measure)),
        plausibility=tuple(plausibility(one)),
        rating="" if one.status[0] is Status.PROVED_INFEASIBLE else rating(one),
        effort=sentences.effort(one),
        gallery=gallery,
        optimal=bool(one.optimal[0]),
        options=options(one),
        prices=prices_of(one),
    )


def _compared(one: Explanation) -> list[Compared]:
    """The decisions of the pictures, with names and values."""
    if not bool(one.factual.isfinite().all()):
        return []
    decided, wanted = sentences.names(one)
    factual, other, there = decisions(one)
    name_of = scene_of(one).name_of
    named = [(Line(factual, "factual"), "Decided", decided)]
    if not same(one) and one.status[0] is not Status.REJECTED:
        what = "Asked for" if one.criterion.contrasts else "Best there"
        named.append((Line(other, "other"), what, wanted))
    if one.clash[0] is not None:
        for line in rivals(one):
            if line.role == "factual":
                named[0] = named[0][0], "Decided, and in its way", decided
            else:
                named.append((line, "In its way", name_of(line.decision, other)))
    elif chosen_elsewhere(one):
        third = Line(there, "third")
        what = sentences.third_role(one).capitalize()
        named.append((third, what, name_of(third.decision, factual)))
    before, after = (_values(one, costs, named) for costs in ("costs_before", "costs"))
    if one.status[0] is Status.PROVED_INFEASIBLE:
        after = [""] * len(named)
    return [
        Compared(line.role, what, name, *values)
        for (line, what, name), *values in zip(named, before, after, strict=True)
    ]


def _values(one: Explanation, costs: str, named: list[tuple[Line, str, str]]) -> list[str]:
    """What decisions cost or are worth at `costs_before` or `costs`."""
    try:
        worth = prices(one, costs)
    except InputError:  # read from a file, without the problem that knows the fixed costs
        return ["?"] * len(named)
    # Rounding is measured against the terms of a value's sum, as a sum of 0 has no size of its own.
    terms = [worth * line.decision for line, _, _ in named]
    largest = max(float(np.abs(part).sum()) for part in terms)
    values = [without_noise(float(part.sum()), largest) for part in terms]
    return [svg.signed(value) for value in with_enough_digits(values, trailing=True)]
