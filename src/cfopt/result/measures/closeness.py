"""How far answers are from where they started, and how many features they change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.result.explanation import Explanation

#: The norms of a change.
_NORMS = {"L1": 1, "L2": 2, "L-infinity": np.inf}
#: A feature has changed if it moved by more than this fraction of its size (at least of 1).
_CHANGED = 1e-6


@dataclass(frozen=True)
class Units:
    """What is usual for each feature, learned from known contexts; each `(p,)`.

    Arguments:
        deviation: the standard deviation; 1 where a feature never varies.
        median_deviation: the median absolute deviation from the median; the standard deviation
            where it is 0, as for a feature that mostly has the same value.
        span: the largest value minus the smallest; 1 where a feature never varies.
    """

    deviation: Array
    median_deviation: Array
    span: Array

    @classmethod
    def of(cls, known: Array) -> Units:
        """Those of contexts: `(N, p) -> Units`."""
        deviation, span = known.std(axis=0), np.ptp(known, axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        median = np.median(np.abs(known - np.median(known, axis=0)), axis=0)
        return cls(
            deviation, np.where(median > 0, median, deviation), np.where(span > 0, span, 1.0)
        )


def flat(e: Explanation) -> tuple[Array, Array]:
    """Contexts before and after, as plain numbers: `(B, p)` each."""
    before, after = (x.flatten(1).double().cpu().numpy() for x in (e.x0, e.x))
    return before, after


def places(e: Explanation) -> list[list[int]]:
    """The entries of a context that belong to each feature: a category has several."""
    layout = e.features.layout
    count = e.x0[0].numel()
    return [[j] for j in range(count)] if layout is None else [list(one) for one in layout.places]


def changed(e: Explanation) -> NDArray[np.bool_]:
    """Which features each row changes: `(B, features)`."""
    before, after = flat(e)
    moved = np.abs(after - before) > _CHANGED * np.maximum(1.0, np.abs(before))
    return np.stack([moved[:, place].any(axis=1) for place in places(e)], axis=1)


def distances(e: Explanation, units: Units | None) -> dict[str, Array]:
    """Norms of the change, as it is and in usual changes; `(B,)` each.

        |u|_k,  |u / deviation|_k,  |u / median deviation|_k  for k = 1, 2, inf

    Gower's distance is the mean over features of the change as a fraction of the span, and 0 or 1
    for a category that stays or changes (Gower, 1971).

    Arguments:
        units: what is usual; None if no contexts are known, and then changes count as they are.
    """
    before, after = flat(e)
    change = after - before
    found = {name: np.linalg.norm(change, order, axis=1) for name, order in _NORMS.items()}
    if units is None:
        return found
    for what, unit in (
        ("deviations", units.deviation),
        ("median deviations", units.median_deviation),
    ):
        for name, order in _NORMS.items():
            found[f"{name} in {what}"] = np.linalg.norm(change / unit, order, axis=1)
    return found | {"Gower": _gower(e, change, units)}


def _gower(e: Explanation, change: Array, units: Units) -> Array:
    names = e.features.names or ()
    part = np.minimum(np.abs(change) / units.span, 1.0)
    each = []
    for number, place in enumerate(places(e)):
        category = bool(names) and names[number] in e.features.categories
        each.append(changed(e)[:, number] if category else part[:, place[0]])
    gower: Array = np.mean(each, axis=0, dtype=np.float64)
    return gower
