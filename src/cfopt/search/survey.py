"""A task seen from many changes of its contexts at once: values, slopes, and what was best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt.proximity import L1
from cfopt.task import TOLERANCE, Look, Task
from cfopt.types import Array, Quantifier

Rows: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class Climbed:
    """The best that was seen, one row each.

    Arguments:
        x: the best valid context seen, or the least violating one, `(R, ...)`.
        loss: its proximity; inf where nothing valid was seen, `(R,)`.
        solves, passes: what it took, `(R,)`.
        failures: why the solver failed on the way, by row.
    """

    x: Tensor
    loss: Tensor
    solves: Tensor
    passes: Tensor
    failures: dict[int, str]


@dataclass(frozen=True)
class Seen:
    """What a look at some changes shows, one row each.

    Arguments:
        f: the proximity, in units of the typical change.
        h: by how much the criterion is missed, as a fraction of what it compares; else 0.
        some: whether one decision is enough to meet it nearby.
        new: whether the decision there was not in the bundle yet.
    """

    f: Array
    h: Array
    some: NDArray[np.bool_]
    new: NDArray[np.bool_]


class Survey:
    """Looks at changes u of a task's contexts, and remembers.

    Arguments:
        task: what to look at.
        length: the size of a typical change of each row, in units of the features' scales, `(R,)`;
            u is measured in it, so that nothing depends on the units of x.
        bundle: how many of the decisions that were best somewhere to keep.
    """

    def __init__(self, task: Task, length: Array, bundle: int) -> None:
        self.task = task
        self.origin: Array = task.origin.flatten(1).double().cpu().numpy()
        count, size = self.origin.shape
        self.scale: Array = length[:, None] * task.proximity.units(size)
        self.taxicab = isinstance(task.proximity, L1)
        self._length = length
        start = (task.origin if task.start is None else task.start).detach()
        self.start: Array = (start.flatten(1).double().cpu().numpy() - self.origin) / self.scale
        self._best_x = start.clone()
        self._best_loss = np.full(count, np.inf)
        self._least_h = np.full(count, np.inf)
        self._solves = np.zeros(count, dtype=np.int64)
        self._passes = np.zeros(count, dtype=np.int64)
        self._failures: dict[int, str] = {}
        self._bundle = task.factual.new_zeros((count, bundle, task.factual.shape[1]))
        self._kept = np.zeros(count, dtype=np.intp)  # how many decisions were ever put into it
        self._unit = np.zeros(count)

    def known(self, rows: Rows) -> Rows:
        """How many decisions are in the bundle of each row."""
        return np.minimum(self._kept[rows], self._bundle.shape[1])

    def best(self) -> Climbed:
        """The best of all that was looked at."""
        device = self._best_x.device
        return Climbed(
            x=self._best_x,
            loss=torch.from_numpy(self._best_loss).to(device),
            solves=torch.from_numpy(self._solves).to(device),
            passes=torch.from_numpy(self._passes).to(device),
            failures=self._failures,
        )

    def look(self, rows: Rows, u: Array) -> Seen:
        """Predict and solve at some changes; remember what is valid, and what was decided."""
        task = self.task[torch.from_numpy(rows).to(self._best_x.device)]
        x = self.contexts(rows, u)
        seen = task.look(x)
        self.count(rows)
        self._failures |= {int(rows[i]): reason for i, reason in seen.failures.items()}
        self._remember(task, rows, x, seen)
        first = self._unit[rows] == 0
        size = (seen.prices * seen.direction).abs().sum(1).double().cpu().numpy()
        values = (seen.prices * seen.rival).abs().sum(1).double().cpu().numpy()
        self._unit[rows[first]] = np.maximum(size, 1e-6 * values + 1e-300)[first]
        # Below the tolerance the criterion holds: no more is asked for.
        small = TOLERANCE / 2 * size
        excess = seen.h.double().cpu().numpy()
        return Seen(
            f=seen.loss.double().cpu().numpy() / self._length[rows] ** (1 if self.taxicab else 2),
            h=np.where(excess <= small, 0.0, excess) / self._unit[rows],
            some=one_is_enough(task, seen.prices, seen.rival),
            new=self.keep(rows, seen.rival),
        )

    def linearise(self, rows: Rows, u: Array) -> tuple[Array, Array]:
        """Value and slope of the criterion for each decision of the bundle: `(R, K), (R, K, p)`."""
        task = self.task[torch.from_numpy(rows).to(self._best_x.device)]
        x = self.contexts(rows, u).requires_grad_()
        with torch.enable_grad():
            prices = task.prices(x)
        values = prices.detach()
        known = int(self.known(rows).max())
        value = np.empty((len(rows), known))
        slope = np.empty((len(rows), known, x[0].numel()))
        for k in range(known):
            direction = task.direction(values, self._bundle[rows, k])
            (gradient,) = torch.autograd.grad(prices, x, direction, retain_graph=k < known - 1)
            value[:, k] = (values * direction).sum(1).double().cpu().numpy()
            slope[:, k] = gradient.flatten(1).double().cpu().numpy()
        self._passes[rows] += 1 + self.known(rows)
        unit = self._unit[rows]
        return value / unit[:, None], slope * self.scale[rows, None] / unit[:, None, None]

    def contexts(self, rows: Rows, u: Array) -> Tensor:
        """The contexts of some changes, within their bounds: `(R, p) -> (R, ...)`."""
        flat = torch.from_numpy(self.origin[rows] + self.scale[rows] * u)
        x = flat.reshape(-1, *self._best_x.shape[1:]).to(self._best_x)
        domain = self.task.domain
        return x if domain is None else domain[torch.from_numpy(rows).to(x.device)].clamp(x)

    def count(self, rows: Rows, passes: int = 1, solves: int = 1) -> None:
        """Charge rows with passes, and with solves where the criterion needs them."""
        self._passes[rows] += passes
        self._solves[rows] += solves * int(self.task.calls_solver)

    def _remember(self, task: Task, rows: Rows, x: Tensor, seen: Look) -> None:
        """Keep the best valid context, or while there is none the least violating one."""
        domain = task.domain
        h = seen.h
        if domain is not None:
            if domain.discrete:
                x = domain.round(x)
                seen = task.look(x)
                self.count(rows)
            h = torch.where(domain.allows(x), seen.h, torch.inf)
        loss, excess = seen.loss.double().cpu().numpy(), h.double().cpu().numpy()
        nearer = seen.holds.cpu().numpy() & (loss < self._best_loss[rows])
        better = nearer | ((excess < self._least_h[rows]) & (self._best_loss[rows] == np.inf))
        self._best_x[rows[better]] = x[torch.from_numpy(better)]
        self._best_loss[rows[nearer]] = loss[nearer]
        self._least_h[rows] = np.fmin(self._least_h[rows], excess)

    def keep(self, rows: Rows, decisions: Tensor) -> NDArray[np.bool_]:
        """Put decisions that are not there yet into the bundles, in place of the oldest."""
        width = self._bundle.shape[1]
        filled = torch.from_numpy(np.arange(width) < self._kept[rows, None])
        same = (self._bundle[rows] == decisions[:, None]).all(2).cpu() & filled
        new = (~same.any(1) & ~decisions.isnan().any(1).cpu()).numpy()
        chosen = rows[new]
        self._bundle[chosen, self._kept[chosen] % width] = decisions[torch.from_numpy(new)]
        self._kept[chosen] += 1
        return new


def one_is_enough(task: Task, prices: Tensor, optimum: Tensor) -> NDArray[np.bool_]:
    """For which rows one decision is enough to meet the criterion, near these prices."""
    multiples = task.criterion.multiples
    if Quantifier.SOME not in multiples:
        return np.zeros(len(prices), dtype=bool)
    if Quantifier.EVERY not in multiples:
        return np.ones(len(prices), dtype=bool)
    # Above 0 the best value is to be reached by some decision, below it bounds them all.
    return ((prices * optimum).sum(1) >= 0).cpu().numpy()
