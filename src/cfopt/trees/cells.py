"""The cells of tree ensembles: between two thresholds of a feature, nothing changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.trees.ensemble import TreeEnsemble

#: What separates 0 from 1 in features of a one-hot group.
_HALF = 0.5

#: The features of each one-hot group.
Groups: TypeAlias = tuple[tuple[int, ...], ...]


def thresholds_of(ensemble: TreeEnsemble, groups: Groups = ()) -> list[Array]:
    """The thresholds of each feature in increasing order; 0 and 1 of one-hot features differ."""
    found = list(ensemble.thresholds)
    for f in (f for group in groups for f in group):
        found[f] = np.unique(np.append(found[f], _HALF))
    return found


@dataclass(frozen=True)
class Allowed:
    """What the features of one row may be.

    Arguments:
        lower, upper: bounds, `(p,)`.
        integer: which are whole numbers, `(p,)`.
        groups: the features of each one-hot group.
    """

    lower: Array
    upper: Array
    integer: NDArray[np.bool_]
    groups: Groups = ()

    @staticmethod
    def anything(size: int) -> Allowed:
        """No limits on `size` features."""
        infinite = np.full(size, np.inf)
        return Allowed(-infinite, infinite, np.zeros(size, dtype=bool))


@dataclass(frozen=True)
class Cells:
    """The cells that one row may move to, feature after feature.

    Cell j of a feature is `t[j - 1] < x <= t[j]`; those without an allowed value are left out.

    Arguments:
        start: where the cells of each feature begin in the arrays that follow, `(p + 1,)`.
        number: j, `(C,)`.
        value: the allowed value nearest to the origin that the dtype of contexts has, `(C,)`.
        cost: what it adds to the loss, `(C,)`.
        lower, upper: the least and the greatest allowed value, `(C,)`.
        home: the cell of the origin of each feature, counted from its start, `(p,)`.
        groups: the features of each one-hot group.
    """

    start: NDArray[np.int32]
    number: NDArray[np.int32]
    value: Array
    cost: Array
    lower: Array
    upper: Array
    home: NDArray[np.int32]
    groups: Groups

    @staticmethod
    def of(
        thresholds: list[Array],
        origin: Array,
        dtype: np.dtype[np.floating],
        units: Array,
        power: int,
        allowed: Allowed,
    ) -> Cells:
        """The cells of a row.

        Arguments:
            thresholds: those of each feature, in increasing order.
            origin: the factual context, `(p,)`.
            dtype: the dtype of contexts.
            units: the scale of each feature, `(p,)`.
            power: k of the loss `sum_f |c_f|^k` of the scaled change c.
            allowed: what features may be.
        """
        numbers, values, costs, home = [], [], [], []
        lower, upper = [], []
        for f, edges in enumerate(thresholds):
            low, value, high = _nearest(edges, float(origin[f]), dtype, allowed, f)
            kept = np.flatnonzero(~np.isnan(value))
            own = int(np.searchsorted(edges, origin[f]))
            numbers.append(kept)
            lower.append(low[kept])
            upper.append(high[kept])
            values.append(value[kept])
            costs.append(np.abs((value[kept] - origin[f]) / units[f]) ** power)
            home.append(int(np.searchsorted(kept, own)))
        start = np.cumsum([0] + [len(one) for one in numbers]).astype(np.int32)
        return Cells(
            start,
            np.concatenate(numbers).astype(np.int32),
            np.concatenate(values),
            np.concatenate(costs),
            np.concatenate(lower),
            np.concatenate(upper),
            np.array(home, dtype=np.int32),
            allowed.groups,
        )

    def context(self, cell: NDArray[np.int32]) -> Array:
        """The context of a cell that is nearest to the origin: `(p,) -> (p,)`."""
        nearest: Array = self.value[self.start[:-1] + cell]
        return nearest

    def loss(self, cell: NDArray[np.int32]) -> float:
        """How far its context is: `(p,) -> float`."""
        return float(self.cost[self.start[:-1] + cell].sum())

    def cell_of(self, x: Array, thresholds: list[Array]) -> NDArray[np.int32]:
        """The cell of a context, or the nearest one that is allowed: `(p,) -> (p,)`."""
        found = np.empty(len(thresholds), dtype=np.int32)
        for f, edges in enumerate(thresholds):
            own = self.number[self.start[f] : self.start[f + 1]]
            at = int(np.searchsorted(own, np.searchsorted(edges, x[f])))
            found[f] = min(at, len(own) - 1)
        return found


def _nearest(
    edges: Array, origin: float, dtype: np.dtype[np.floating], allowed: Allowed, f: int
) -> tuple[Array, Array, Array]:
    """The least, nearest and greatest allowed value of each cell of a feature, NaN if none."""
    low = np.concatenate([[-np.inf], after(edges, dtype)])
    high = np.concatenate([up_to(edges, dtype), [np.inf]])
    low = np.maximum(low, allowed.lower[f])
    high = np.minimum(high, allowed.upper[f])
    if allowed.integer[f]:
        low, high = np.ceil(low), np.floor(high)
    value: Array = np.clip(origin, low, high)
    value[low > high] = np.nan
    # The origin is allowed, whatever rounding says of bounds and whole numbers.
    home = np.searchsorted(edges, origin)
    value[home] = origin
    low[home], high[home] = min(low[home], origin), max(high[home], origin)
    return low, value, high


def up_to(edges: Array, dtype: np.dtype[np.floating]) -> Array:
    """The last number of a dtype that is not above: `(K,) -> (K,)`."""
    rounded = edges.astype(dtype)
    down = np.nextafter(rounded, np.array(-np.inf, dtype))
    found: Array = np.where(rounded > edges, down, rounded).astype(np.float64)
    return found


def after(edges: Array, dtype: np.dtype[np.floating]) -> Array:
    """The first number of a dtype that is above: `(K,) -> (K,)`."""
    return np.nextafter(up_to(edges, dtype).astype(dtype), np.array(np.inf, dtype)).astype(
        np.float64
    )
