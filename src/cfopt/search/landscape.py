"""What a search without gradients sees of a task: points, how near and how valid they are."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from cfopt.engine.task import Task
from cfopt.pipeline import Adapted, Deployed, Forgiving
from cfopt.search.projection import project

#: How many numbers of contexts and prices are judged at once.
_NUMBERS_AT_ONCE = 8_000_000


class Seen(NamedTuple):
    """Points judged: what is minimised, and by what fraction the criterion is missed, `(K,)`.

    A miss of 0 means valid, inf that the point is not allowed or was not judged.
    """

    loss: Tensor
    miss: Tensor


class Landscape:
    """The points of a task, flat, and what is known of them once the pipeline has judged them.

    Points are contexts, or codes where those are searched. Features that can only move together,
    such as a one-hot group, are one block; those that cannot move are in none.

    Arguments:
        task: what to work on. The model itself is asked, not a translation of it.
        budget: how many points of each row should be judged at most.

    Attributes:
        home: where each row comes from, `(B, p)`.
        unit: what counts as one step of a feature, `(p,)`.
        block_of: the block of each feature, -1 where it cannot move, `(p,)`.
        blocks: how many blocks there are.
        whole: which features are whole numbers, in no group, `(p,)`.
        groups: the features of each one-hot group.
        power: k where the loss is a sum of k-th powers of changes, else None.
        evaluations: how many points each row has had judged, `(B,)`.
        failures: why a row's last point could not be judged.
        watched: if it is a list, what was judged is added to it: rows, points and costs.
    """

    def __init__(self, task: Task, budget: int) -> None:
        self.budget = budget
        own = Deployed(task.predictor) if isinstance(task.predictor, Adapted) else task.predictor
        self._asked = Forgiving(own, task.rules.problem.num_costs)
        self.task, space = replace(task.proven(), predictor=self._asked), task.space
        self.home = space.home.detach().flatten(1)
        among_contexts = space.latent is None
        size, device = self.home.shape[1], self.home.device
        units = space.proximity.measure.units(size) if among_contexts else None
        ones = torch.ones(size, dtype=self.home.dtype, device=device)
        self.unit = ones if units is None else torch.from_numpy(units).to(ones)
        self.power = space.proximity.power if among_contexts else None
        self._domain = space.domain if among_contexts else None
        self.whole = torch.zeros(size, dtype=torch.bool, device=device)
        self.groups: list[Tensor] = []
        if self._domain is not None:
            self.whole = torch.tensor(self._domain.limits.integer, device=device)
            self.groups = [torch.tensor(g, device=device) for g in self._domain.limits.groups]
        self.block_of, self.blocks = self._number_blocks()
        self.evaluations = torch.zeros(len(task), dtype=torch.long, device=device)
        self.failures: dict[int, str] = {}
        self.watched: list[tuple[Tensor, Tensor, Tensor]] | None = None

    def _number_blocks(self) -> tuple[Tensor, int]:
        size, device = self.home.shape[1], self.home.device
        free = torch.ones(size, dtype=torch.bool, device=device)
        if self._domain is not None:
            free = (self._domain.upper > self._domain.lower).any(0)
        block_of = torch.where(free, torch.arange(size, device=device), -1)
        for group in self.groups:
            self.whole[group] = False
            block_of[group] = block_of[group].max()
        used, numbers = torch.unique(block_of, return_inverse=True)
        held = int((used < 0).any())
        return numbers - held, len(used) - held

    def affords(self, rows: Tensor, fraction: float = 1.0) -> Tensor:
        """Which rows have not used up a fraction of the budget, and have time: `(R,) -> (R,)`."""
        return (self.evaluations[rows] < fraction * self.budget) & (not self.task.late)

    def repair(self, rows: Tensor, points: Tensor) -> Tensor:
        """The points moved into what their rows allow, as far as that is easy: `(K, p)` twice."""
        if self._domain is None or not len(rows):
            return points
        domain = self._domain[rows]
        kept = project(domain, points)
        return domain.round(kept) if domain.discrete else kept

    def loss(self, rows: Tensor, points: Tensor) -> Tensor | None:
        """What is minimised, where it is known without the pipeline: `(K, p) -> (K,)`, or None."""
        space = self.task.space
        if space.latent is not None:
            return None
        origin = space.origin[rows]
        return space.proximity(points.view_as(origin), origin).double()

    def look(self, rows: Tensor, points: Tensor) -> Seen:
        """Judge points of some rows, all in as few calls as memory allows: `(K,), (K, p)`."""
        if not len(rows):
            nothing = points.new_zeros(0, dtype=torch.float64)
            return Seen(nothing, nothing)
        at_once = max(1, _NUMBERS_AT_ONCE // (points.shape[1] + self.task.rules.factual.shape[1]))
        parts = [
            self._look(some, there)
            for some, there in zip(
                torch.split(rows, at_once), torch.split(points, at_once), strict=True
            )
        ]
        return Seen(*(torch.cat(values) for values in zip(*parts, strict=True)))

    def _look(self, rows: Tensor, points: Tensor) -> Seen:
        task = self.task[rows]
        seen = task.look(points.view_as(task.space.home))
        self.evaluations.index_add_(0, rows, torch.ones_like(rows))
        if self.watched is not None:
            self.watched.append((rows, points, seen.costs))
        size = (seen.prices * seen.direction).abs().sum(1).double()
        tiny = torch.finfo(torch.float64).tiny
        miss = (seen.h.double() / size.clamp(min=tiny)).clamp(min=tiny)
        miss = miss + seen.strange
        miss = torch.where(seen.holds, 0.0, torch.where(seen.allowed, miss, torch.inf))
        if seen.failures:
            miss[list(seen.failures)] = torch.inf
            lost = f"the predictor fails there ({self._asked.error:.200})"
            self.failures |= {
                int(rows[i]): lost if self._asked.error and seen.costs[i].isnan().all() else why
                for i, why in seen.failures.items()
            }
        return Seen(seen.loss.double(), miss.nan_to_num(torch.inf))
