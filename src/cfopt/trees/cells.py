"""The cells of tree ensembles: between two thresholds of a feature, nothing changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.trees.ensemble import TreeEnsemble

#: What separates 0 from 1 in features of a one-hot group.
_HALF = 0.5
#: The number of ensembles for which what was made is kept.
_KEPT = 4

#: The features of each one-hot group.
Groups: TypeAlias = tuple[tuple[int, ...], ...]


def thresholds_of(ensemble: TreeEnsemble, groups: Groups = ()) -> list[Array]:
    """The thresholds of each feature in increasing order; 0 and 1 of one-hot features differ."""
    found = list(ensemble.thresholds)
    for f in (f for group in groups for f in group):
        found[f] = np.unique(np.append(found[f], _HALF))
    return found


class Edges(NamedTuple):
    """Where the cells of each feature are, one feature after the other.

    Arguments:
        thresholds: those of each feature, in increasing order.
        start: where the cells of each feature begin, `(p + 1,)`.
        feature: which feature each is of, `(C,)`.
        low, high: the least and the greatest value of each that the dtype of contexts has, `(C,)`.
    """

    thresholds: list[Array]
    start: NDArray[np.int64]
    feature: NDArray[np.int64]
    low: Array
    high: Array


@lru_cache(_KEPT)
def edges_of(ensemble: TreeEnsemble, groups: Groups, dtype: np.dtype[np.floating]) -> Edges:
    """The edges of an ensemble's cells, found once."""
    thresholds = thresholds_of(ensemble, groups)
    counts = [len(own) + 1 for own in thresholds]
    low = [np.append(-np.inf, after(own, dtype)) for own in thresholds]
    high = [np.append(up_to(own, dtype), np.inf) for own in thresholds]
    start = np.cumsum([0, *counts])
    feature = np.repeat(np.arange(len(counts)), counts)
    return Edges(thresholds, start, feature, np.concatenate(low), np.concatenate(high))


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
        largest: whether the loss is the largest cost of any feature, and not their sum.
    """

    start: NDArray[np.int32]
    number: NDArray[np.int32]
    value: Array
    cost: Array
    lower: Array
    upper: Array
    home: NDArray[np.int32]
    groups: Groups
    largest: bool = False

    @staticmethod
    def of(
        edges: Edges,
        origin: Array,
        units: Array,
        power: int,
        allowed: Allowed,
        largest: bool = False,
    ) -> Cells:
        """The cells of a row.

        Arguments:
            edges: those of all features.
            origin: the factual context, `(p,)`.
            units: the scale of each feature, `(p,)`.
            power: k of the cost `|c_f|^k` of the scaled change c of a feature.
            allowed: what features may be.
            largest: whether the loss is the largest of these, and not their sum.
        """
        f = edges.feature
        here = origin[f]
        low, high = (
            np.maximum(edges.low, allowed.lower[f]),
            np.minimum(edges.high, allowed.upper[f]),
        )
        if allowed.integer.any():
            whole = allowed.integer[f]
            low, high = np.where(whole, np.ceil(low), low), np.where(whole, np.floor(high), high)
        fits, value = low <= high, np.clip(here, low, high)
        # The origin is allowed, whatever rounding says of bounds and whole numbers.
        within = [np.searchsorted(own, x) for own, x in zip(edges.thresholds, origin, strict=True)]
        own = edges.start[:-1] + np.array(within, dtype=np.int64)
        fits[own], value[own] = True, origin
        low[own], high[own] = np.minimum(low[own], origin), np.maximum(high[own], origin)
        before = np.append(0, np.cumsum(fits))
        start = before[edges.start]
        cost = np.abs((value - here) / units[f]) ** power
        number = np.arange(len(f)) - edges.start[f]
        return Cells(
            start.astype(np.int32),
            number[fits].astype(np.int32),
            value[fits],
            cost[fits],
            low[fits],
            high[fits],
            (before[own] - start[:-1]).astype(np.int32),
            allowed.groups,
            largest,
        )

    def context(self, cell: NDArray[np.int32]) -> Array:
        """The context of a cell that is nearest to the origin: `(p,) -> (p,)`."""
        nearest: Array = self.value[self.start[:-1] + cell]
        return nearest

    def loss(self, cell: NDArray[np.int32]) -> float:
        """How far its context is: `(p,) -> float`."""
        return float(self.together(self.cost[self.start[:-1] + cell]))

    def together(self, costs: Array) -> Array:
        """What the costs of all features come to: `(..., p) -> (...)`."""
        found: Array = costs.max(axis=-1, initial=0.0) if self.largest else costs.sum(axis=-1)
        return found

    def cell_of(self, x: Array, thresholds: list[Array]) -> NDArray[np.int32]:
        """The cell of a context, or the nearest one that is allowed: `(p,) -> (p,)`."""
        found = np.empty(len(thresholds), dtype=np.int32)
        for f, edges in enumerate(thresholds):
            own = self.number[self.start[f] : self.start[f + 1]]
            at = int(np.searchsorted(own, np.searchsorted(edges, x[f])))
            found[f] = min(at, len(own) - 1)
        return found


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
