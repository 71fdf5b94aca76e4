"""Tangent planes of a criterion, for the decisions that the rows of a task have met."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt._typing import Array, Indices
from cfopt.search.recorded import Recorded
from cfopt.search.trust_region.evaluator import Evaluator, host, in_order


class TangentPlanes:
    """`c_k + g_k (u' - u) <= 0` for K decisions of each row, which stands at a point u.

    The value c_k is that at u, found when it is asked for. The slope g_k, which costs a backward
    pass, is a mean of slopes at points where the row has stood: networks have kinks, and where the
    criterion is met next to one, no slope of a single point says which way is short.

    Arguments:
        evaluator: the evaluator of the task.
        width: K.
        recorded: its predictor, which remembers its last call.
    """

    def __init__(self, evaluator: Evaluator, width: int, recorded: Recorded) -> None:
        first, (count, size) = evaluator.first, evaluator.start.shape
        self._evaluator, self._recorded = evaluator, recorded
        self._decisions = first.rival.new_zeros((count, width, first.rival.shape[1]))
        self._prices = first.prices.clone()
        self.u = evaluator.start.copy()
        #: The contexts of u, `(B, ...)`.
        self.x = evaluator.points(np.arange(count), self.u)
        self.slope = np.zeros((count, width, size))
        #: By which gradients become slopes.
        self._scale = evaluator.scale / evaluator.unit[:, None]
        #: Which places hold a decision, the first of each row; which of these have no slope yet.
        self.known, self._new = np.zeros((2, count, width), dtype=bool)
        #: The multipliers of the last step, and when each plane was last added or bound.
        self.multipliers = np.zeros((count, width))
        self._used, self._time = np.zeros((count, width), dtype=np.int64), 0
        self.add(np.arange(count), first.rival)

    def add(self, rows: Indices, decisions: Tensor) -> NDArray[np.bool_]:
        """Put in decisions that are not there yet, `(R, m)`; which were new, `(R,)`.

        They replace those that have not bound for longest.
        """
        same = (self._decisions[self._index(rows)] == decisions[:, None]).all(2).cpu().numpy()
        known = (same & self.known[rows]).any(1)
        new = ~known & ~decisions.isnan().any(1).cpu().numpy()
        chosen = rows[new]
        place = np.where(self.known[chosen], self._used[chosen], -1).argmin(1)
        self._time += 1
        self._decisions[self._index(chosen), self._index(place)] = decisions[self._index(new)]
        self.known[chosen, place] = self._new[chosen, place] = True
        self._used[chosen, place], self.multipliers[chosen, place] = self._time, 0.0
        return new

    def move(self, rows: Indices, u: Array, x: Tensor, prices: Tensor) -> None:
        """Go to other points, `(R, p)`, with these contexts, `(R, ...)`, and prices, `(R, m)`."""
        if len(rows):
            index = self._index(rows)
            self.u[rows], self.x[index], self._prices[index] = u, x, prices

    def values(self, rows: Indices) -> Array:
        """The c_k at u of all planes, `(R, K)`; 0 where there is none."""
        found = np.zeros((len(rows), self.known.shape[1]))
        which, places = self.known[rows].nonzero()
        each, index = rows[which], self._index(rows[which])
        prices, decisions = self._prices[index], self._decisions[index, self._index(places)]
        direction = self._evaluator.rules(each).direction(prices, decisions)
        found[which, places] = host((prices * direction).sum(1)) / self._evaluator.unit[each]
        return found

    def bind(self, row: int, places: Indices, multipliers: Array) -> None:
        """Note the multipliers of a step, `(c,)`."""
        self._time += 1
        self.multipliers[row] = 0.0
        self.multipliers[row, places] = multipliers
        self._used[row, places[multipliers > 0]] = self._time

    def take(self, rows: Indices, wanted: NDArray[np.bool_], share: Array) -> None:
        """Take slopes at u, one backward pass each: those of new planes, and those wanted.

        Arguments:
            wanted: which, `(R, K)`.
            share: the weight of the slope at u in the mean, `(R,)`.
        """
        wanted = (wanted | self._new[rows]) & self.known[rows]
        some = wanted.any(1)
        rows, wanted, share = rows[some], wanted[some], share[some]
        if not len(rows):
            return
        slopes, many = self._slopes(rows), wanted.sum(1)
        # The first wanted plane of every row at once, then the second ones.
        order = np.argsort(~wanted, axis=1, kind="stable")
        for k in range(many.max()):
            place = (rows, order[:, k])
            slope = slopes.of(
                slopes.direction(self._decisions[self._index(rows), self._index(order[:, k])])
            )
            weight = np.where(self._new[place], 1.0, share)
            for i in np.flatnonzero(many > k):
                known, change = self.slope[rows[i], order[i, k]], slope[i]  # views
                change -= known
                change *= weight[i]
                known += change
        self._new[rows] = False
        self._evaluator.passes[rows] += slopes.forward + many

    def blend(self, rows: Indices, share: Array) -> None:
        """Turn the planes that bind so that their sum, with the multipliers, has the slope at u.

        One backward pass for all of them, and the least change of their slopes.

        Arguments:
            share: the weight of the slope at u in the mean, `(R,)`.
        """
        bound = self.multipliers[rows].any(1)
        rows, share = rows[bound], share[bound]
        if not len(rows):
            return
        slopes = self._slopes(rows)
        weight = self.multipliers[rows]
        weight = weight / np.linalg.norm(weight, axis=1, keepdims=True)
        which, places = weight.nonzero()
        decisions = self._decisions[self._index(rows[which]), self._index(places)]
        directions = slopes.direction(decisions, which)
        each = torch.from_numpy(weight[which, places, None]).to(directions)
        total = torch.zeros_like(slopes.prices).index_add(0, self._index(which), each * directions)
        change = np.empty(self.slope.shape[2])
        for row, own, part, missing in zip(rows, weight, share, slopes.of(total), strict=True):
            (binding,) = own.nonzero()
            own = own[binding]
            missing -= own @ self.slope[row, in_order(binding)]
            for k, weight_k in zip(binding, part * own, strict=True):
                np.multiply(missing, weight_k, out=change)
                self.slope[row, k] += change
        self._evaluator.passes[rows] += slopes.forward + 1

    def _slopes(self, rows: Indices) -> _Slopes:
        x, scale = self.x[self._index(rows)], self._scale[in_order(rows)]
        return _Slopes(self._evaluator, self._recorded, rows, x, scale)

    def _index(self, entries: Indices | NDArray[np.bool_]) -> Tensor:
        """Entries of an array, where the decisions are."""
        return torch.from_numpy(entries).to(self._decisions.device)


class _Slopes:
    """Slopes of what the criterion asks in contexts of some rows: one backward pass each.

    Before them a forward pass, unless these contexts were the last ones that were judged.

    Arguments:
        evaluator, recorded: those of the planes.
        rows: which rows, `(R,)`.
        x: their contexts, `(R, ...)`.
        scale: by which gradients become slopes, `(R, p)` or `(R, 1)`.
    """

    def __init__(
        self, evaluator: Evaluator, recorded: Recorded, rows: Indices, x: Tensor, scale: Array
    ) -> None:
        self._rules, self._rows = evaluator.rules, rows
        found = recorded.graph(x)
        #: How many forward passes were needed.
        self.forward = int(found is None)
        with torch.enable_grad():
            if found is None:
                self._x = x.requires_grad_()
                self._graph, self._which = evaluator.task.prices(self._x), torch.arange(len(rows))
            else:
                self._x, costs, self._which = found
                self._graph = evaluator.task.rules.turned(costs[self._which])
        self.prices, self._scale = self._graph.detach(), scale

    def direction(self, decisions: Tensor, which: Indices | None = None) -> Tensor:
        """Those of the criterion for a decision of each row: `(R, m) -> (R, m)`.

        Or for decisions of some rows, which may occur more than once: `(S, m), (S,) -> (S, m)`.
        """
        if which is None:
            return self._rules(self._rows).direction(self.prices, decisions)
        prices = self.prices[torch.from_numpy(which).to(self.prices.device)]
        return self._rules(self._rows[which]).direction(prices, decisions)

    def of(self, direction: Tensor) -> Array:
        """By the change, as a fraction of what the criterion compares: `(R, m) -> (R, p)`."""
        (gradient,) = torch.autograd.grad(self._graph, self._x, direction, retain_graph=True)
        slope = host(gradient[self._which].flatten(1))
        slope *= self._scale
        return slope
