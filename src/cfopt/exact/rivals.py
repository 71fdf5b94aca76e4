"""The rivals of all plans that grant a wish: how far from x0 each plan beats them."""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.exact.decision_table import DecisionTable
from cfopt.exact.geometry import Euclidean
from cfopt.exact.geometry.daqp import Refutation, nearest_by_daqp_within

#: By what fraction of the cost a bound may be below it if the solver was precise.
_GAP = 1e-9
#: How many numbers of half-spaces are computed together.
_AT_ONCE = 1_000_000


class Rivals:
    """The half-spaces in which each plan beats each rival, and what follows from them.

    One rival alone bounds the distance of every plan, for all plans in one matrix product. All of
    them together bound that of one plan: with multipliers `mu >= 0` of the half-spaces
    `g_k @ u <= -e_k` and `g = sum_k mu_k g_k`, every such u has

        |u|^2 >= <mu, e> - |g|^2 / 4

    Arguments:
        table: the plans.
        row: the number of the row.

    Attributes:
        decisions: the rivals met so far, `(m,)` each.
        bounds: what each plan costs at least by one rival alone, `(D,)`.
        simple: whether distances are Euclidean and nothing else limits a change, so that they can
            be bounded by all rivals at once.
    """

    def __init__(self, table: DecisionTable, row: int) -> None:
        self._table, self._row = table, row
        model = table.model
        system = model.system(row)
        self.simple = (
            isinstance(model.norm, Euclidean)
            and system.plain
            and system.support is None
            and model.exact_decisions
        )
        self.decisions: list[Array] = []
        self._known: set[bytes] = set()
        self.bounds: Array = np.zeros(len(table))
        #: The half-spaces of all plans, excess `(C, D)` and normals `(C, D, p)`, and their number.
        size = (0, len(table), len(system.lower))
        self._store: list[Array] = [np.zeros(size[:2]), np.zeros(size)]
        self._count = 0

    def meet(self, rivals: Array) -> None:
        """Reckon with more rivals of all plans, `(K, m)`."""
        step = max(1, _AT_ONCE // max(1, len(self._table) * self._store[1].shape[2]))
        for start in range(0, len(rivals), step):
            some = rivals[start : start + step]
            bounds, *half_spaces = self._table.bounds_against(self._row, some)
            self.bounds = np.maximum(self.bounds, bounds)
            self._keep(half_spaces)
        self.decisions += [*rivals]
        self._known |= {rival.tobytes() for rival in rivals + 0.0}  # + 0.0 turns -0.0 into 0.0

    def _keep(self, half_spaces: list[Array]) -> None:
        """Add half-spaces, with room for as many again, so that they are seldom moved."""
        before, after = self._count, self._count + len(half_spaces[0])
        if after > len(self._store[0]):
            room = [np.empty((2 * after, *old.shape[1:])) for old in self._store]
            for new, old in zip(room, self._store, strict=True):
                new[:before] = old[:before]
            self._store = room
        for stored, found in zip(self._store, half_spaces, strict=True):
            stored[before:after] = found
        self._count = after

    def _of(self, plan: int, count: int) -> tuple[Array, Array]:
        """The first so many half-spaces of a plan: `(C,)` and `(C, p)`."""
        excess, normals = self._store
        return excess[:count, plan], normals[:count, plan]

    def knows(self, rival: Array) -> bool:
        """Whether a rival has been met, `(m,)`."""
        return (rival + 0.0).tobytes() in self._known

    def nearest(self, plan: int) -> tuple[Array, Array, float] | None:
        """The nearest change for which a plan beats all rivals, multipliers and their bound.

        None if there is none, or it is not found as precisely as it should be.
        """
        excess, normals = self._of(plan, self._count)
        length = np.sqrt(np.square(normals).sum(axis=1))
        if not length.all():
            return None
        found = nearest_by_daqp_within(normals / length[:, None], -excess / length)
        if isinstance(found, Refutation):
            return None
        multipliers = np.maximum(found.multipliers, 0.0) / length
        bound = _dual_value(excess, normals, multipliers)
        cost = float(found.values @ found.values)
        return (found.values, multipliers, bound) if cost - bound <= _GAP * cost else None

    def bound(self, plan: int, multipliers: Array) -> float:
        """What a plan costs at least, by multipliers of the first half-spaces: `(C,) -> float`."""
        count = len(multipliers)
        if not self.simple or count > self._count or not (multipliers >= 0).all():
            return 0.0
        return _dual_value(*self._of(plan, count), multipliers)


def _dual_value(excess: Array, normals: Array, multipliers: Array) -> float:
    g = multipliers @ normals
    return max(0.0, float(multipliers @ excess) - 0.25 * float(g @ g))
