"""What changed in a row: what counts first, smaller changes folded, a solver's noise left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from markupsafe import Markup, escape

from cfopt._batch import once
from cfopt.drawing import elements as svg
from cfopt.drawing.panel import has_images, has_maps, host, scene_of
from cfopt.drawing.redrawn import origin_of
from cfopt.report.images import change_words
from cfopt.report.land import land_change
from cfopt.report.numbers import with_enough_digits
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status

#: What moved, from where, to where, by how much, and in which unit.
Move: TypeAlias = tuple[str, float | str, float | str, float, float]
#: How many changes a task lists at once; those that count are above this fraction of the largest.
_LISTED, _COUNTS = 8, 0.05
#: Below this fraction of the largest, or of the number itself, a change is a solver's noise.
_NOISE = 1e-6
#: Said where changes are not measured from the context itself.
_REDRAWN = "Measured from the {} as the generative model redraws it."
#: How many smaller changes are kept in the file.
_FOLDED = 40


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

    @cached_property
    def shown(self) -> tuple[str, str, str]:
        """The numbers as they are printed: before and after look different."""
        if isinstance(self.before, str) or isinstance(self.after, str):
            return str(self.before), str(self.after), f"→ {self.after}"
        before, after = with_enough_digits([self.before, self.after], equal=0.0)
        return svg.signed(before), svg.signed(after), svg.signed(f"{self.change:+.3g}")

    @property
    def line(self) -> Markup:
        """Its line of the table; written here, as a report has ten thousand of them."""
        before, after, change = self.shown
        if isinstance(self.before, str) or isinstance(self.after, str):
            before, after, change = map(escape, self.shown)
        side = "less" if self.part < 0 else "more"
        return Markup(
            f'<tr><th scope="row">{escape(self.name)}</th><td>{before}</td><td>{after}</td>'
            f'<td class="{side}" style="--part:{abs(self.part):.2f}">{change}</td></tr>'
        )


@dataclass(frozen=True)
class Changes:
    """What changed: a sentence or the features that moved; `more` of them are not listed.

    Arguments:
        title: the title of the table.
        words: a sentence in place of, or above, the table.
        rows: the largest changes.
        folded: the smaller ones, which are shown on request.
        more: how many of them are not listed at all.
        of: the words before a name where the table is not at hand.
        since: what the numbers at the start are called.
        cells: the numbers of the cells of a map that the words are about.
    """

    title: str
    words: str
    rows: tuple[Change, ...] = ()
    folded: tuple[Change, ...] = ()
    more: int = 0
    of: str = ""
    since: str = "before"
    cells: tuple[int, ...] = ()


@once
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
    scale = dict(zip(names, e.features.unit or [1.0] * len(names), strict=True))
    for row, name, before, after, change in zip(numbers, *columns, strict=True):
        if math.isnan(change):  # in words; one of the 0 or 1 that stand for them rose by 1
            moves[row].append((str(name), str(before), str(after), 1.0, scale[name]))
        else:
            moves[row].append((str(name), float(before), float(after), float(change), scale[name]))
    return moves


def changes_of(one: Explanation, moves: list[Move]) -> Changes:
    """The features that moved most; for images a sentence, and the costs that moved most."""
    if one.status[0] in (Status.REJECTED, Status.PROVED_INFEASIBLE):
        return Changes("What changed", "")
    if has_images(one):
        return _image_changes(one)
    scaled = set(one.features.unit or [1.0]) != {1.0} and len(moves) > 1
    title = "What changed, the largest in units of its scale first" if scaled else "What changed"
    moves = real_moves(moves)
    return _table(title, "" if moves else "Nothing changed.", moves)


def _image_changes(one: Explanation) -> Changes:
    """Of maps the land that changed, of other images the pixels; and predicted costs."""
    origin, names = origin_of(one), list(scene_of(one).names)
    cells: tuple[int, ...] = ()
    of = "cost of "
    if has_maps(one):
        land = land_change(one, origin)
        words, cells = land.words, land.cells
        of = "" if any(land.shown) else of
        names = [", ".join(filter(None, pair)) for pair in zip(names, land.shown, strict=True)]
    else:
        words = change_words(origin.context, one.x[0])
    if origin.redrawn:
        words = f"{words} {_REDRAWN.format('map' if has_maps(one) else 'image')}"
    before, after = host(origin.costs), host(one.costs[0])
    order = np.argsort(-np.abs(after - before), kind="stable")
    moved = order[np.abs(after - before)[order] > 1e-6 * np.maximum(np.abs(before[order]), 1)]
    rows = [(names[j], before[j], after[j], after[j] - before[j], 1.0) for j in moved.tolist()]
    table = _table("Predicted costs that changed most", words, rows)
    since = "redrawn" if origin.redrawn else "before"
    return replace(table, of=of, since=since, cells=cells)


def counting(moves: Sequence[Move]) -> list[Move]:
    """The moves that count: neither a solver's noise nor small beside the largest."""
    sizes = [_size(move) for move in moves]
    largest = max(sizes, default=0.0)
    return [move for move, size in zip(moves, sizes, strict=True) if size >= _COUNTS * largest > 0]


def real_moves(moves: Sequence[Move]) -> list[Move]:
    """The moves that are more than the last digits of a solver."""
    largest = max(map(_size, moves), default=0.0)
    return [move for move in moves if _size(move) > _NOISE * largest and not _rounding(move)]


def _size(move: Move) -> float:
    return abs(move[3] / move[4])


def _rounding(move: Move) -> bool:
    """Whether a number changed only in its last digits."""
    _, before, after, change, _ = move
    if isinstance(before, str) or isinstance(after, str):
        return False
    return abs(change) <= 1e-12 * max(abs(before), abs(after), 1e-3)


def _table(title: str, words: str, moves: list[Move]) -> Changes:
    moves = real_moves(moves)
    first = counting(moves)[:_LISTED]
    largest = max(map(_size, first), default=1.0)
    rest = moves[len(first) :]
    rows, folded = (
        tuple(_change(one, largest) for one in part) for part in (first, rest[:_FOLDED])
    )
    return Changes(title, words, rows, folded, max(0, len(rest) - _FOLDED))


def _change(move: Move, largest: float) -> Change:
    name, before, after, change, unit = move
    part = float(change / unit / largest)
    return Change(str(name), before, after, float(change), part, abs(float(change / unit)))
