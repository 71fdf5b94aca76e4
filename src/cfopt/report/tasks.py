"""What the report says about one task, ready to be set on the page."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from cfopt.drawing import elements as svg
from cfopt.drawing.elements import quiet
from cfopt.drawing.panel import Line, chosen_elsewhere, has_images, host, prices, scene_of
from cfopt.errors import InputError
from cfopt.report import sentences
from cfopt.report.images import change_words
from cfopt.report.measure import measured
from cfopt.report.numbers import told_apart
from cfopt.report.pictures import Gallery, rivals
from cfopt.report.plausible import plausibility, rating
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status

#: What moved, from where, to where, by how much, and in which unit.
Move: TypeAlias = tuple[str, float | str, float | str, float, float]
#: How many changes a task lists.
_LISTED = 8


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
class Change:
    """A line of the table of changes.

    Arguments:
        name: what changed.
        before, after: the numbers, or values in words.
        change: the difference of the numbers.
        part: its size relative to the largest, from -1 to 1, and
        size: its size alone, both in units of its scale.
    """

    name: str
    before: float | str
    after: float | str
    change: float
    part: float
    size: float

    @property
    def shown(self) -> tuple[str, str, str]:
        """The numbers as they are printed: before and after look different."""
        if isinstance(self.before, str) or isinstance(self.after, str):
            return str(self.before), str(self.after), f"→ {self.after}"
        before, after = told_apart([self.before, self.after], equal=0.0)
        return svg.signed(before), svg.signed(after), svg.signed(f"{self.change:+.3g}")


@dataclass(frozen=True)
class Changes:
    """What changed: a sentence or the features that moved; `more` of them are not listed.

    Arguments:
        title: the title of the table.
        words: a sentence in place of, or above, the table.
        rows: the largest changes.
        more: how many smaller ones there are.
        of: the words before a name where the table is not at hand.
    """

    title: str
    words: str
    rows: tuple[Change, ...] = ()
    more: int = 0
    of: str = ""


@dataclass(frozen=True)
class TaskView:
    """One task as the page shows it."""

    number: int
    label: str
    status: Status
    question: str
    verdict: str
    asked: str
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

    @property
    def slug(self) -> str:
        """The status as a class."""
        return self.status.value.replace(" ", "-")

    @property
    def largest(self) -> Change | None:
        """The largest change, for the list of tasks."""
        infeasible = self.status is Status.PROVED_INFEASIBLE
        return None if infeasible or not self.changes.rows else self.changes.rows[0]


def task_views(e: Explanation, shown: list[Gallery]) -> list[TaskView]:
    """What is said about every row.

    Arguments:
        e: the explanation.
        shown: the pictures of every row.
    """
    moves, measure = feature_moves(e), measured(e)
    return [_view(e, row, shown[row], moves[row], measure) for row in range(len(e))]


def feature_moves(e: Explanation) -> list[list[Move]]:
    """The features that moved in every row, the largest first; none for images."""
    moves: list[list[Move]] = [[] for _ in range(len(e))]
    if not len(e) or has_images(e):
        return moves
    # One table of all rows, as one a row would take a thousand times as long to set up; numbered,
    # as labels may occur twice.
    table = replace(e, labels=None).table()
    numbers = table["row"].astype(int) if "row" in table else [0] * len(table)
    columns = (table[name].tolist() for name in ("feature", "before", "after", "change"))
    names = e.features.names or e.features.labels(e.x0[0].numel())
    scale = dict(zip(names, e.features.scale or [1.0] * len(names), strict=True))
    for row, name, before, after, change in zip(numbers, *columns, strict=True):
        if math.isnan(change):  # in words; one of the 0 or 1 that stand for them rose by 1
            moves[row].append((str(name), str(before), str(after), 1.0, scale[name]))
        else:
            moves[row].append((str(name), float(before), float(after), float(change), scale[name]))
    return moves


def _view(e: Explanation, row: int, gallery: Gallery, moves: list[Move], measure: str) -> TaskView:
    one = e[row]
    distance = float(one.distance[0])
    moved = one.status[0] is not Status.PROVED_INFEASIBLE and math.isfinite(distance)
    return TaskView(
        number=row,
        label=e.label(row),
        status=one.status[0],
        question=sentences.question(one),
        verdict=sentences.verdict(one),
        asked=sentences.names(one)[1],
        distance=distance if moved else None,
        steps=int(one.steps[0]),
        compared=tuple(_compared(one)),
        changes=_changes(one, moves),
        proof=tuple(sentences.proof(one, measure)),
        plausibility=tuple(plausibility(one)),
        rating="" if one.status[0] is Status.PROVED_INFEASIBLE else rating(one),
        effort=sentences.effort(one),
        gallery=gallery,
        optimal=bool(one.optimal[0]),
    )


def _compared(one: Explanation) -> list[Compared]:
    """The decisions of the pictures, with names and values."""
    if not bool(one.factual.isfinite().all()):
        return []
    decided, wanted = sentences.names(one)
    factual, other = host(one.factual[0]), host(one.alternative[0])
    name_of = scene_of(one).name_of
    named = [(Line(factual, "factual"), "Decided", decided)]
    if not sentences.same(one) and one.status[0] is not Status.REJECTED:
        what = "Asked for" if one.criterion.contrasts else "Best there"
        named.append((Line(other, "other"), what, wanted))
    if one.clash[0] is not None:
        for line in rivals(one):
            if line.role == "factual":
                named[0] = named[0][0], "Decided, and in its way", decided
            else:
                named.append((line, "In its way", name_of(line.decision, other)))
    elif chosen_elsewhere(one):
        third = Line(host(one.decision[0]), "third")
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
    values = [quiet(float(part.sum()), largest) for part in terms]
    return [svg.signed(value) for value in told_apart(values, trailing=True)]


def _changes(one: Explanation, moves: list[Move]) -> Changes:
    """The features that moved most; for images a sentence, and the costs that moved most."""
    if one.status[0] in (Status.REJECTED, Status.PROVED_INFEASIBLE):
        return Changes("What changed", "")
    if has_images(one):
        words, names = change_words(one.x0[0], one.x[0]), scene_of(one).names
        before, after = host(one.costs_before[0]), host(one.costs[0])
        order = np.argsort(-np.abs(after - before), kind="stable")
        moved = order[np.abs(after - before)[order] > 1e-6 * np.maximum(np.abs(before[order]), 1)]
        rows = [(names[j], before[j], after[j], after[j] - before[j], 1.0) for j in moved.tolist()]
        table = _table("Predicted costs that changed most", words, rows)
        return replace(table, of="cost of ")
    scaled = one.features.scale is not None and len(moves) > 1
    title = "What changed, the largest in units of its scale first" if scaled else "What changed"
    return _table(title, "" if moves else "Nothing changed.", moves)


def _table(title: str, words: str, rows: list[Move]) -> Changes:
    shown = rows[:_LISTED]
    largest = max((abs(change / unit) for *_, change, unit in shown), default=1.0) or 1.0
    listed = tuple(
        Change(
            str(name),
            before,
            after,
            float(change),
            part=float(change / unit / largest),
            size=float(abs(change / unit)),
        )
        for name, before, after, change, unit in shown
    )
    return Changes(title, words, listed, len(rows) - len(shown))
