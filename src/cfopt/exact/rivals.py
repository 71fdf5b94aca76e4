"""The rivals of all plans that grant a wish: how far from x0 each plan beats them."""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.exact.decision_table import DecisionTable
from cfopt.exact.geometry import Euclidean, System
from cfopt.exact.geometry.daqp import Refutation, nearest_by_daqp

#: By what fraction of the cost a bound may be below it if the solver was precise.
_GAP = 1e-9


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
        self._free = system
        self.decisions: list[Array] = []
        self.bounds: Array = np.zeros(len(table))
        #: Of each half-space the excess of all plans, `(D,)`, and the normals, `(D, p)`.
        self._half_spaces: list[tuple[Array, Array]] = []

    def meet(self, rival: Array) -> None:
        """Reckon with another rival of all plans, `(m,)`."""
        bounds, half_spaces = self._table.bounds_against(self._row, rival)
        self.bounds = np.maximum(self.bounds, bounds)
        self._half_spaces += half_spaces
        self.decisions.append(rival)

    def nearest(self, plan: int) -> tuple[Array, Array, float] | None:
        """The nearest change for which a plan beats all rivals, multipliers and their bound.

        None if there is none, or it is not found as precisely as it should be.
        """
        excess, normals = self._of(plan)
        length = np.sqrt(np.square(normals).sum(axis=1))
        if not (length > 0).all():
            return None
        rows = np.zeros((5, len(length)))
        rows[0], rows[1] = -np.inf, -excess / length
        lower, upper = self._free.lower, self._free.upper
        found = nearest_by_daqp(System(lower, upper, normals / length[:, None], rows, plain=True))
        if isinstance(found, Refutation):
            return None
        multipliers = np.maximum(found.multipliers, 0.0) / length
        bound = _dual_value(excess, normals, multipliers)
        cost = float(found.values @ found.values)
        return (found.values, multipliers, bound) if cost - bound <= _GAP * cost else None

    def bound(self, plan: int, multipliers: Array) -> float:
        """What a plan costs at least, by multipliers of the first half-spaces: `(C,) -> float`."""
        excess, normals = self._of(plan)
        count = len(multipliers)
        if not self.simple or count > len(excess) or not (multipliers >= 0).all():
            return 0.0
        return _dual_value(excess[:count], normals[:count], multipliers)

    def _of(self, plan: int) -> tuple[Array, Array]:
        """The excess and the normals of one plan, `(C,)` and `(C, p)`."""
        excess = np.array([one[0][plan] for one in self._half_spaces])
        normals = np.array([one[1][plan] for one in self._half_spaces])
        return excess, normals


def _dual_value(excess: Array, normals: Array, multipliers: Array) -> float:
    g = multipliers @ normals
    return max(0.0, float(multipliers @ excess) - 0.25 * float(g @ g))
