"""A task as climbs see it: scaled changes in, losses and misses out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt._typing import Array, Indices
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.engine.task import Evaluation, Task
from cfopt.search.incumbents import Incumbents
from cfopt.search.trust_region.step import Sums

#: How many numbers of contexts are held at once.
_NUMBERS_AT_ONCE = 8_000_000
#: For how many choices of rows the rules are kept.
_RULES = 4
#: What a context that is not allowed adds to the miss.
_FORBIDDEN = 10.0


class ScaledEvaluation(NamedTuple):
    """What a look at some points shows, one row each.

    Arguments:
        loss: what is minimised, in the unit of the climb, `(R,)`.
        miss: by how much the criterion is missed, as a fraction of what it compares; 0 where it
            holds, `(R,)`.
        holds: whether the point is valid, `(R,)`.
        one_suffices: whether one decision is enough to meet the criterion nearby, `(R,)`.
        prices, rival: turned prices, and the decision that counts against the wish, `(R, m)`.
    """

    loss: Array
    miss: Array
    holds: NDArray[np.bool_]
    one_suffices: NDArray[np.bool_]
    prices: Tensor
    rival: Tensor


class Evaluator:
    """Looks at changes u of a task's points, `home + scale * u`, and remembers the best.

    Arguments:
        task: the task, with the start of each row.
        length: the size of a typical change of each row, in units of the features' scales, `(R,)`;
            u is measured in it, so that nothing depends on the units of x. Codes have unit size:
            there it is None.
    """

    def __init__(self, task: Task, length: Array | None = None) -> None:
        self.task = task
        self.home = host(task.space.home.flatten(1))
        count, size = self.home.shape
        #: The unit of each feature in u, `(R, p)`; `(R, 1)` where it is the same for all.
        self.scale, self._loss_unit = np.ones((count, 1)), np.ones(count)
        if length is not None:
            units = task.space.proximity.units(size)
            self.scale = length[:, None] * (units[:1] if (units == units[:1]).all() else units)
            self._loss_unit = length ** float(task.space.proximity.power or 1)
        start = task.space.beginning.detach()
        self.start = (host(start.flatten(1)) - self.home) / self.scale
        self.best = Incumbents(start, torch.float64)
        self.solves, self.passes = np.zeros((2, count), dtype=np.int64)
        self.failures: dict[int, str] = {}
        self._part: tuple[Indices, Task] | None = None
        self._rules: dict[bytes, Rules] = {}
        every = np.arange(count)
        seen = self._look(every, self.points(every, self.start))
        #: The size of what the criterion compares at the start, `(R,)`.
        self.unit = np.maximum(host(task.rules.compared(seen.prices, seen.rival)), 1e-300)
        #: What is seen at the start.
        self.first = self._scaled(every, seen)

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which rows have a valid point, `(R,)`."""
        return self.best.found.cpu().numpy()

    def part(self, rows: Indices) -> Task:
        """The task of some rows; the last one is at hand, as the same rows go on for long."""
        if self._part is None or not np.array_equal(self._part[0], rows):
            self._part = rows, self.task[self.index(rows)]
        return self._part[1]

    def rules(self, rows: Indices) -> Rules:
        """The rules of some rows, which may occur more than once, without their contexts.

        The last few are at hand: step after step asks for the same.
        """
        key = rows.tobytes()
        known = self._rules.pop(key, None)
        self._rules[key] = self.task.rules[self.index(rows)] if known is None else known
        if len(self._rules) > _RULES:
            del self._rules[next(iter(self._rules))]
        return self._rules[key]

    def index(self, rows: Indices) -> Tensor:
        """Row numbers where the points are."""
        return torch.from_numpy(rows).to(self.best.x.device)

    def points(self, rows: Indices, u: Array) -> Tensor:
        """The points of changes `(R, p)`, within the bounds of contexts: `(R, ...)`."""
        some = in_order(rows)
        flat = self.scale[some] * u
        flat += self.home[some]
        x = torch.from_numpy(flat).reshape(-1, *self.best.x.shape[1:]).to(self.best.x)
        space = self.task.space
        if space.domain is None or space.latent is not None:  # codes have no bounds of their own
            return x
        domain = self.part(rows).space.domain
        assert domain is not None
        return domain.clamp(x)

    def look(self, rows: Indices, u: Array) -> ScaledEvaluation:
        """Predict and solve at some changes; remember the points if they are the best so far."""
        return self.look_at(rows, self.points(rows, u))

    def look_at(self, rows: Indices, x: Tensor) -> ScaledEvaluation:
        """The same at points, `(R, ...)`."""
        return self._scaled(rows, self._look(rows, x))

    def limits(self) -> tuple[Array, Array, list[Sums]]:
        """The least and the greatest changes, `(R, p)` twice, and limits on sums of each row."""
        domain, home = self.task.space.domain, self.home
        if domain is None:
            return np.full_like(home, -np.inf), np.full_like(home, np.inf), []
        lower, upper = ((host(end) - home) / self.scale for end in (domain.lower, domain.upper))
        matrix, least, most = domain.sums()
        here = home @ matrix.T
        sums = zip(matrix * self.scale[:, None], least - here, most - here, strict=True)
        return lower, upper, [Sums(*limits) for limits in sums] if len(matrix) else []

    def linearise(self, rows: Indices, u: Array, bundle: Bundle) -> tuple[Array, Array]:
        """Value and slope of the criterion for each decision of a bundle at some changes.

        `(R, p) -> (R, K), (R, K, p)`, as fractions of what the criterion compares at the start.
        """
        task = self.part(rows)
        x = self.points(rows, u).requires_grad_()
        with torch.enable_grad():
            prices = task.prices(x)
        fixed, known = prices.detach(), bundle.count(rows)
        value = np.empty((len(rows), known.max(initial=0)))
        slope = np.empty((*value.shape, self.home.shape[1]))
        for k in range(value.shape[1]):
            direction = task.rules.direction(fixed, bundle.column(rows, k))
            (gradient,) = torch.autograd.grad(prices, x, direction, retain_graph=True)
            value[:, k] = host((fixed * direction).sum(1))
            slope[:, k] = host(gradient.flatten(1))
        self.passes[rows] += 1 + known
        unit = self.unit[rows, None]
        return value / unit, slope * self.scale[rows, None] / unit[..., None]

    def _look(self, rows: Indices, x: Tensor) -> Evaluation:
        """Look at points; whole numbers are judged where they are rounded to, and remembered."""
        index, domain = self.index(rows), self.task.space.domain
        seen = best = self._judge(rows, x)
        if domain is not None and domain.discrete:
            x = domain[index].round(x)
            best = self._judge(rows, x)
        excess = torch.where(best.allowed, best.h, torch.inf)
        self.best.update(index, x, best.loss, excess, best.holds)
        return seen

    def _judge(self, rows: Indices, x: Tensor) -> Evaluation:
        few = len(rows) <= _at_once(self.task)
        seen = self.part(rows).look(x) if few else look(self.task, self.index(rows), x)
        self.passes[rows] += 1
        self.solves[rows] += int(self.task.rules.calls_solver)
        self.failures |= {int(rows[i]): reason for i, reason in seen.failures.items()}
        return seen

    def _scaled(self, rows: Indices, seen: Evaluation) -> ScaledEvaluation:
        size, excess = host((seen.prices * seen.direction).abs().sum(1)), host(seen.h)
        # Below the tolerance the criterion holds: no more is asked for.
        miss = np.where(excess <= TOLERANCE / 2 * size, 0.0, excess) / self.unit[rows]
        holds, domain = seen.holds.cpu().numpy(), self.task.space.domain
        if domain is not None and not domain.discrete:
            # Worse than any miss, but not hopeless: what is decoded at first may not be allowed.
            miss = miss + np.where(holds | seen.allowed.cpu().numpy(), 0.0, _FORBIDDEN)
        one_suffices = self.task.rules.one_suffices(seen.prices, seen.rival).cpu().numpy()
        loss = host(seen.loss) / self._loss_unit[rows]
        return ScaledEvaluation(loss, miss, holds, one_suffices, seen.prices, seen.rival)


class Bundle:
    """The decisions that climbs reckon with, each of which makes a cut.

    Arguments:
        decisions: the first of each row, `(B, m)`.
        width: how many decisions a row keeps; the newest replaces the oldest.
    """

    def __init__(self, decisions: Tensor, width: int) -> None:
        count, columns = decisions.shape
        self._kept = decisions.new_zeros((count, width, columns))
        self._added = np.zeros(count, dtype=np.intp)
        self.add(np.arange(count), decisions)

    def count(self, rows: Indices) -> Indices:
        """How many decisions each row has, `(R,)`."""
        return np.minimum(self._added[rows], self._kept.shape[1])

    def column(self, rows: Indices, k: int) -> Tensor:
        """The decision number k of each row, `(R, m)`; zeros where there are fewer."""
        return self._kept[torch.from_numpy(rows), k]

    def of(self, row: int) -> Tensor:
        """All decisions of one row, `(K, m)`."""
        return self._kept[row, : self.count(np.array([row]))[0]]

    def add(self, rows: Indices, decisions: Tensor) -> NDArray[np.bool_]:
        """Put in what is not there yet: `(R,), (R, m)`; which of them were new, `(R,)`."""
        width = self._kept.shape[1]
        most = int(self.count(rows).max(initial=0))
        filled = torch.from_numpy(np.arange(most) < self._added[rows, None])
        same = (self._kept[rows, :most] == decisions[:, None]).all(2).cpu() & filled
        new = (~same.any(1) & ~decisions.isnan().any(1).cpu()).numpy()
        chosen = rows[new]
        self._kept[chosen, self._added[chosen] % width] = decisions[torch.from_numpy(new)]
        self._added[chosen] += 1
        return new


def look(task: Task, rows: Tensor, points: Tensor) -> Evaluation:
    """`Task.look` at points of some rows, which may occur more than once, some at a time."""
    at_once = _at_once(task)
    parts = zip(torch.split(rows, at_once), torch.split(points, at_once), strict=True)
    return Evaluation.gather([task[some].look(x) for some, x in parts])


def _at_once(task: Task) -> int:
    """How many points are looked at together."""
    return max(1, _NUMBERS_AT_ONCE // task.space.origin[0].numel())


def in_order(chosen: Indices) -> Indices | slice:
    """Places in their order; as a slice, which copies nothing, where they follow one another."""
    first, last = (chosen[0], chosen[-1] + 1) if len(chosen) else (0, 0)
    follow = last - first == len(chosen) and (np.diff(chosen) == 1).all()
    return slice(first, last) if follow else chosen


def host(values: Tensor) -> Array:
    """Values in float64 on the CPU."""
    array: Array = values.detach().double().cpu().numpy()
    return array
