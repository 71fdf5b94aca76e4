"""What changed on a map, in words of its land: "grass to rock at C3 and H8"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfopt._typing import Array, Indices
from cfopt.drawing.panel import host, scene_of
from cfopt.drawing.redrawn import Origin
from cfopt.names import join_words
from cfopt.problems.cells import Cells
from cfopt.problems.land import kinds_of_cells, mean_of_cells
from cfopt.result.explanation import Explanation

#: A cell is named if its cost changed by more than this fraction of the largest change.
_COUNTS = 0.25
#: A cell whose mean moved by less, as a fraction of a colour's range, looks as it did.
_SEEN = 0.03
#: Said last, of cells in which nothing is seen.
_SAME = ", though it looks the same,"
#: How many cells one kind of change names, and how many kinds a sentence.
_CELLS, _KINDS = 5, 5


@dataclass(frozen=True)
class LandChange:
    """What changed on a map.

    Arguments:
        words: the same in a sentence.
        cells: the numbers of the cells that it tells of.
        shown: for each cell what it shows, or was and has become, "grass to rock"; "" where the
            kinds of land are not known.
        kinds: what happened to these cells, what counts most first.
    """

    words: str
    cells: tuple[int, ...]
    shown: tuple[str, ...]
    kinds: tuple[str, ...]


def land_change(one: Explanation, origin: Origin) -> LandChange:
    """What changed on the map of a single row, by the land of its cells and what they cost.

    Where the problem does not say which kinds of land there are, by the costs alone.

    Arguments:
        one: the row; its scene has cells.
        origin: what it is compared with.
    """
    scene = scene_of(one)
    assert isinstance(scene, Cells)
    change = host(one.costs[0]) - host(origin.costs)
    cells = _counting(change, float(origin.costs.abs().max()))
    shown, described = _described(scene, host(origin.context), host(one.x[0]), change)
    groups: dict[str, list[int]] = {}
    for k in cells.tolist():
        groups.setdefault(described[k], []).append(k)

    def order(group: tuple[str, list[int]]) -> tuple[bool, float]:
        what, at = group
        return what.endswith(_SAME), -float(np.abs(change[at]).sum())

    listed = sorted(groups.items(), key=order)[:_KINDS]
    words = "; ".join(
        f"{what} at {join_words([scene.names[k] for k in at], most=_CELLS)}" for what, at in listed
    )
    said = f"{words[:1].upper()}{words[1:]}." if words else "The land is as it was."
    named = tuple(sorted(k for _, at in listed for k in at))
    return LandChange(said, named, shown, tuple(what for what, _ in listed))


def _counting(change: Array, largest: float) -> Indices:
    """The cells whose costs changed most, in that order."""
    moved = np.abs(change)
    least = max(_COUNTS * float(moved.max()), 1e-6 * largest)
    cells = np.flatnonzero(moved > least)
    ordered: Indices = cells[np.argsort(-moved[cells], kind="stable")]
    return ordered


def _described(
    scene: Cells, before: Array, after: Array, change: Array
) -> tuple[tuple[str, ...], list[str]]:
    """What each cell shows, and what has happened to it, in words."""
    trends = ["costlier" if more > 0 else "cheaper" for more in change.tolist()]
    if not scene.land:
        return ("",) * len(trends), trends
    olds, news = (
        kinds_of_cells(image.clip(0, 1), scene.size, scene.land) for image in (before, after)
    )
    # Brighter or darker as a whole: noise among its pixels makes no other land.
    seen = np.abs(mean_of_cells((after - before).mean(axis=0), scene.size)) > _SEEN
    shown = tuple(
        old if old == new else f"{old} to {new}" for old, new in zip(olds, news, strict=True)
    )
    # What looks as it did is not said to be another land, whatever it is predicted to cost.
    described = [
        both if " to " in both else f"{more} {both}" if moved else f"predicted to be {more}{_SAME}"
        for both, more, moved in zip(shown, trends, seen.tolist(), strict=True)
    ]
    return shown, described
