"""What the answers of all rows have in common: features that rise or fall, land that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cfopt.drawing.panel import has_maps
from cfopt.drawing.redrawn import origin_of
from cfopt.names import join_words
from cfopt.report.changes import Move, counting
from cfopt.report.land import land_change
from cfopt.result.explanation import Explanation

#: How many features are named, and of how many rows at least.
_NAMED, _LEAST = 3, 2


def trend(e: Explanation, moves: Sequence[Sequence[Move]]) -> str:
    """The changes that most answers share, in a sentence; "" if there are none.

    Arguments:
        e: the explanation.
        moves: the features that moved in every row.
    """
    found = [row for row, answered in enumerate(e.answered.tolist()) if answered and moves[row]]
    if len(found) < _LEAST:
        return ""
    seen = Counter(
        (name, _direction(after, change))
        for row in found
        for name, _, after, change, _ in counting(moves[row])
    )
    common = [(what, number) for what, number in seen.most_common(_NAMED) if number >= _LEAST]
    if not common:
        return ""
    of = f"of {len(found):,} answers"
    parts = [
        f"{name} would have to {direction} in {number:,}{f' {of}' if k == 0 else ''}"
        for k, ((name, direction), number) in enumerate(common)
    ]
    return f"Over all rows: {join_words(parts)}."


def land_trend(e: Explanation) -> str:
    """What becomes of the land on most maps that are answered, in a sentence; "" if unknown."""
    found = [row for row in range(len(e)) if bool(e.answered[row]) and int(e.steps[row]) > 0]
    if len(found) < _LEAST or not has_maps(e):
        return ""
    kinds = [land_change(e[row], origin_of(e[row])).kinds for row in found]
    # A change from one kind to another; what else is said is about costs.
    seen = Counter(what for row in kinds for what in row if " to " in what and "," not in what)
    common = [(what, number) for what, number in seen.most_common(_NAMED) if number >= _LEAST]
    if not common:
        return ""
    of = f"of {len(found):,} answers"
    parts = [
        f"{what} in {number:,}{f' {of}' if k == 0 else ''}"
        for k, (what, number) in enumerate(common)
    ]
    return f"Over all rows, land would have to change from {join_words(parts)}."


def _direction(after: float | str, change: float) -> str:
    if isinstance(after, str):
        return f"become {after}"
    return "rise" if change > 0 else "fall"
