"""Looking for the context of a ball in which a criterion holds least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cfopt._batch import where_rows
from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy
from cfopt.problems.base import Problem

#: Starts and steps of a climb; rounds in which points are looked at where there is no gradient, and
#: how many in each, unless each takes a call of a solver.
_STARTS, _STEPS, _ROUNDS, _POINTS = 4, 12, 96, 50
#: How many decisions are kept that may overtake an alternative.
_RIVALS = 8
#: The u of length 1 at which `g @ u` is largest: `(B, p) -> (B, p)`, for each proximity's norm.
Steepest = Callable[[Array], Array]


@dataclass(frozen=True)
class Attack:
    """The worst that was found for each row.

    Arguments:
        x: the contexts, `(B, ...)`.
        model: which predictor, 0 for the task's own, `(B,)`.
        excess: h there, as a fraction of the terms that it compares, `(B,)`.
        points: how many points were looked at in each row.
    """

    x: Tensor
    model: Tensor
    excess: Tensor
    points: int


def attack(task: Task, x: Tensor, steepest: Steepest, seed: int = 0) -> Attack:
    """Look for the worst context around each of some: `(B, ...) -> Attack`.

    Along the gradient of h, from the context and from random places, by the steps of Frank and
    Wolfe: each leads towards the point of the ball that is worst for the gradient. Where the
    alternative is the best decision, h is 0 and flat; then the known decision that is next to
    overtake it is followed. For predictors without a gradient, random points, then smaller steps
    around the worst of them. The best decision is solved for at each point. Finding nothing proves
    nothing.

    Arguments:
        task: the task, with a variation.
        x: contexts, one for each row.
        steepest: the steepest directions of the ball's norm.
        seed: the seed of the random starts.
    """
    variation = task.variation
    assert variation is not None
    best = Attack(x, torch.zeros(len(x), dtype=torch.long), torch.full((len(x),), -torch.inf), 0)
    for k, predictor in enumerate((task.predictor, *variation.predictors)):
        own = task.by_itself(predictor if k else None)
        climb = _Climb(own, x, variation.off_by, steepest, seed)
        there, excess = climb.run()
        worse = excess > best.excess.to(excess)
        best = Attack(
            where_rows(worse.to(x.device), there, best.x),
            torch.where(worse, k, best.model),
            torch.where(worse, excess, best.excess.to(excess)),
            best.points + climb.points,
        )
    return best


class _Climb:
    """One predictor: the worst place so far of each row."""

    def __init__(
        self, task: Task, x: Tensor, off_by: OffBy | None, steepest: Steepest, seed: int
    ) -> None:
        self.task, self.x, self.off_by, self.steepest = task, x, off_by, steepest
        self.worst, self.excess = x, torch.full((len(x),), -torch.inf, dtype=torch.float64)
        self.draws = np.random.default_rng(seed)
        self.points = 0
        self._rivals: list[Tensor] = []

    def run(self) -> tuple[Tensor, Tensor]:
        """The worst contexts, and by what fraction of its terms h is above 0 there."""
        self._look(self.x)
        if self.off_by is None or not len(self.x):
            return self.worst, self.excess
        if self.task.differentiable:
            for start in range(_STARTS):
                place = np.zeros(self._shape) if start == 0 else self._drawn()
                self._rivals += self._rivals_at(self._at(place), first=start == 0)
                self._follow(place)
        else:
            for k in range(_ROUNDS):
                narrow = max(0, k - _ROUNDS // 2)  # first anywhere, then nearer and nearer
                self._look_around(self._off(self.worst) if narrow else 0.0, 0.8**narrow)
        return self.worst, self.excess

    def _look_around(self, centre: Array | float, share: float) -> None:
        """Judge several points of each row around a place of the ball, `(B, p)`."""
        count = 1 if self.task.rules.problem.rowwise else _POINTS
        rows = torch.arange(len(self.x)).repeat_interleave(count)
        wide = _Climb(self.task[rows], self.x[rows], self.off_by, self.steepest, 0)
        wide.draws = self.draws
        around = centre if isinstance(centre, float) else centre[rows]
        wide._look(wide._at(wide._within(around + share * wide._drawn())))
        excess, which = wide.excess.view(-1, count).max(dim=1)
        first = count * torch.arange(len(self.x))
        self._keep(wide.worst[first + which], excess)
        self.points += count

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.x), self.x[0].numel()

    def _follow(self, w: Array) -> None:
        """Climb from a place of the ball."""
        assert self.off_by is not None
        for step in range(_STEPS):
            slope = self._look(self._at(w), gradient=True)
            target = self.off_by.radius * self.steepest(slope * self.off_by.units)
            w = w + (target - w) * (1.0 if step < 2 else 2 / (step + 1))
        self._look(self._at(w))

    def _look(self, x: Tensor, gradient: bool = False) -> Array:
        """Judge contexts, keep them where they are worse; return the gradient of h, `(B, p)`."""
        rules, space = self.task.rules, self.task.space
        x = x.detach().requires_grad_(gradient)
        with torch.set_grad_enabled(gradient):
            prices = self.task.prices(x)
        rival = rules.rival(prices.detach())
        direction, h, _ = rules.judge(prices.detach(), rival.decisions)
        terms = (prices.detach() * direction).abs().sum(1)
        excess = torch.where(terms > 0, h / terms, 0.0)
        level = ~rules.unseats(prices.detach(), rival.decisions)
        excess = torch.where(level, excess.clamp(min=1.0), excess).to("cpu", torch.float64)
        excess[list(rival.failures)] = torch.inf
        self._keep(x.detach(), excess)
        self.points += 1
        if not gradient:
            return np.zeros(self._shape)
        way = self._way(prices.detach(), direction, rival.decisions)
        (slope,) = torch.autograd.grad(prices, x, way.nan_to_num(0.0), allow_unused=True)
        slope = torch.zeros_like(space.origin) if slope is None else slope
        return slope.flatten(1).double().cpu().nan_to_num(0.0).numpy()

    def _keep(self, x: Tensor, excess: Tensor) -> None:
        """Take contexts that are worse than the worst so far: `(B, ...), (B,)`."""
        worse = excess > self.excess
        self.worst = where_rows(worse.to(x.device), x, self.worst)
        self.excess = torch.where(worse, excess, self.excess)

    def _rivals_at(self, x: Tensor, first: bool) -> list[Tensor]:
        """Decisions that may overtake an alternative: the factual one, and the runner-up at x.

        Where runners-up take many solves, only the first one is asked for.
        """
        rules = self.task.rules
        if rules.wish is not None or not rules.calls_solver:
            return []
        with torch.no_grad():
            prices = self.task.prices(x)
        found = [rules.factual.to(prices)] if first else []
        quick = type(rules.problem).runner_up is not Problem.runner_up
        if rules.problem.ranks_decisions and (first or quick):
            # With a margin, the alternative is measured against the best other decision.
            found.append(replace(rules, margin=1.0).rival(prices).decisions.to(prices))
        return found

    def _way(self, prices: Tensor, direction: Tensor, rival: Tensor) -> Tensor:
        """Of which `<prices, d>` the gradient is followed, `(B, m)`: of h, unless that is flat."""
        flat = ~direction.any(1)
        if not self._rivals:
            return direction
        if not flat.all() and len(self._rivals) < _RIVALS:
            self._rivals.append(torch.where(flat[:, None], self._rivals[0], rival.to(prices)))
        if not flat.any():
            return direction
        ways = torch.stack([self.task.rules.direction(prices, one) for one in self._rivals])
        ahead = (ways * prices).sum(2).nan_to_num(-torch.inf)
        ahead = torch.where(ways.any(2), ahead, -torch.inf)  # not the alternative itself
        next_one = ways[ahead.argmax(0), torch.arange(len(prices), device=prices.device)]
        return torch.where(flat[:, None], next_one, direction)

    def _at(self, w: Array) -> Tensor:
        assert self.off_by is not None
        moved = torch.from_numpy(w * self.off_by.units).to(self.x)
        return self.x + moved.view_as(self.x)

    def _off(self, x: Tensor) -> Array:
        assert self.off_by is not None
        units = np.where(self.off_by.units > 0, self.off_by.units, 1.0)
        return (x - self.x).flatten(1).double().cpu().numpy() / units

    def _drawn(self) -> Array:
        """A random place for each row: on the sphere of the norm, then anywhere towards it."""
        assert self.off_by is not None
        draws = self.draws.standard_normal(self._shape) * (self.off_by.units > 0)
        length = self._length(draws)
        return self.off_by.radius * draws / np.where(length > 0, length, 1.0)

    def _within(self, w: Array) -> Array:
        assert self.off_by is not None
        return w * np.minimum(1.0, self.off_by.radius / np.maximum(self._length(w), 1e-300))

    def _length(self, w: Array) -> Array:
        """In the norm of the ball: `(B, p) -> (B, 1)`."""
        assert self.off_by is not None
        bare = type(self.off_by.norm)()
        value = bare(torch.from_numpy(w), torch.zeros(w.shape, dtype=torch.float64)).numpy()
        length: Array = value[:, None] ** (1 / (bare.power or 1))
        return length
