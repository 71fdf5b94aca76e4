"""What the report says of one task, ready to be set on the page."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from cfopt.errors import InputError
from cfopt.explanation import Explanation
from cfopt.plots.map_explanation import digits
from cfopt.plots.parts import host, prices
from cfopt.report import sentences, svg
from cfopt.report.images import change_words, has_images
from cfopt.report.naming import column_name, decision_name
from cfopt.report.pictures import Gallery, same
from cfopt.types import Array, Status

#: What moved, from where, to where, and by how much.
Move: TypeAlias = tuple[str, float, float, float]
#: How many changes a task lists.
_LISTED = 8


@dataclass(frozen=True)
class Compared:
    """A decision of a task and what it costs or is worth, before and after.

    Arguments:
        role: which line of the pictures it is.
        what: its part in the story.
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
    """A line of the table of changes; `part` is its size beside the largest, from -1 to 1."""

    name: str
    before: float
    after: float
    change: float
    part: float


@dataclass(frozen=True)
class Changes:
    """What changed: a sentence or the features that moved; `more` of them are not listed.

    Arguments:
        title: of the table.
        words: a sentence in place of, or above, the table.
        rows: the largest changes.
        more: how many smaller ones there are.
        of: what is said before a name where the table is not at hand.
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
    def largest(self) -> str:
        """The largest change in a few words, for the list of tasks."""
        if not self.changes.rows or self.status is Status.PROVED_INFEASIBLE:
            return ""
        first = self.changes.rows[0]
        return f"{self.changes.of}{first.name} " + svg.signed(f"{first.change:+.3g}")


def task_views(e: Explanation, shown: list[Gallery]) -> list[TaskView]:
    """What is said of every row.

    Arguments:
        e: the explanation.
        shown: the pictures of every row.
    """
    moves = feature_moves(e)
    return [_view(e, row, shown[row], moves[row]) for row in range(len(e))]


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
    for row, *move in zip(numbers, *columns, strict=True):
        moves[row].append((str(move[0]), float(move[1]), float(move[2]), float(move[3])))
    return moves


def _view(e: Explanation, row: int, gallery: Gallery, moves: list[Move]) -> TaskView:
    one = e[row]
    distance = float(one.distance[0])
    told = one.status[0] is not Status.PROVED_INFEASIBLE and math.isfinite(distance)
    return TaskView(
        number=row,
        label=e.label(row),
        status=one.status[0],
        question=sentences.question(one),
        verdict=sentences.verdict(one),
        asked=sentences.names(one)[1],
        distance=distance if told else None,
        steps=int(one.steps[0]),
        compared=tuple(_compared(one)),
        changes=_changes(one, moves),
        proof=tuple(sentences.proof(one)),
        plausibility=tuple(sentences.plausibility(one)),
        rating="" if one.status[0] is Status.PROVED_INFEASIBLE else sentences.rating(one),
        effort=sentences.effort(one),
        gallery=gallery,
        optimal=bool(one.optimal[0]),
    )


def _compared(one: Explanation) -> list[Compared]:
    """The decisions of the pictures, with names and values."""
    if not bool(one.factual.isfinite().all()):
        return []
    decided, wanted = sentences.names(one)
    try:
        before, after = prices(one, "costs_before"), prices(one, "costs")
    except InputError:  # read from a file, without the problem that knows the fixed costs
        before = after = np.full(one.factual.shape[1], np.nan)
    clash = one.clash[0]
    rows = [_one(one, "factual", "Decided", decided, before, after, host(one.factual[0]))]
    if not same(one) and one.status[0] is not Status.REJECTED:
        what = "Asked for" if one.criterion.contrasts else "Best there"
        other = host(one.alternative[0])
        rows.append(_one(one, "other", what, wanted, before, after, other))
    if clash is not None:
        rivals = list(clash.decisions) if clash.decisions.shape[1] == len(before) else []
        for k, y in enumerate(rivals[:2], start=1):
            name = decision_name(one.problem, y, host(one.alternative[0]))
            rows.append(_one(one, f"rival{k}", "In its way", name, before, after, y))
    elif sentences.chosen_elsewhere(one):
        y = host(one.decision[0])
        what = sentences.third_role(one).capitalize()
        name = decision_name(one.problem, y, host(one.factual[0]))
        rows.append(_one(one, "third", what, name, before, after, y))
    return rows


def _one(
    one: Explanation, role: str, what: str, name: str, before: Array, after: Array, y: Array
) -> Compared:
    hopeless = one.status[0] is Status.PROVED_INFEASIBLE
    then = "" if hopeless else digits(float(after @ y))
    return Compared(role, what, name, digits(float(before @ y)), then)


def _changes(one: Explanation, moves: list[Move]) -> Changes:
    """The features that moved most; for images a sentence, and the costs that moved most."""
    if one.status[0] in (Status.REJECTED, Status.PROVED_INFEASIBLE):
        return Changes("What changed", "")
    if has_images(one):
        words = change_words(one.x0[0], one.x[0])
        before, after = host(one.costs_before[0]), host(one.costs[0])
        order = np.argsort(-np.abs(after - before), kind="stable")
        moved = order[np.abs(after - before)[order] > 1e-6 * np.maximum(np.abs(before[order]), 1)]
        rows = [
            (column_name(one.problem, int(j)), before[j], after[j], after[j] - before[j])
            for j in moved
        ]
        table = _table("Predicted costs that changed most", words, rows)
        return replace(table, of="cost of ")
    return _table("What changed", "" if moves else "Nothing changed.", moves)


def _table(title: str, words: str, rows: list[Move]) -> Changes:
    shown = rows[:_LISTED]
    largest = max((abs(change) for *_, change in shown), default=1.0) or 1.0
    listed = tuple(
        Change(str(name), float(before), float(after), float(change), float(change) / largest)
        for name, before, after, change in shown
    )
    return Changes(title, words, listed, len(rows) - len(shown))
