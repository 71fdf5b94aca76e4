"""Long codes: a search moves the entries that the criterion depends on, and leaves the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cfopt.engine.progress import Moving, Points, Progress
from cfopt.engine.task import Task
from cfopt.search.base import Search, check_whole, needs_gradient

#: How often the slope of prices is probed, each time with other signs.
_PROBES = 8
#: By which fractions of a typical price factual decisions are made more expensive, to see which
#: others come next.
_DISCOURAGED = (0.3, 3.0)


@dataclass(frozen=True)
class FewCodes(Search):
    """Lets a search among codes move only those entries that matter most to the criterion.

    Codes that lie in a grid have hundreds of entries, and most of them say nothing about the prices
    of the decisions that are compared. A few backward passes, with random signs, show how much each
    entry changes these; the search then works as among short codes. Which entries matter depends on
    where one is: rows without an answer go on from where they are, among those that matter there.

    Arguments:
        search: a search among codes.
        entries: how many entries it moves.
        seed: the seed of the signs, which are the same for every row.
        rounds: how often entries are chosen, at most.
    """

    search: Search
    entries: int = 96
    seed: int = 0
    rounds: int = 5

    def __post_init__(self) -> None:
        check_whole(self, entries=1, rounds=1)

    def refusal(self, task: Task) -> str:
        """Needs codes with more entries than it moves, and a gradient."""
        latent = task.space.latent
        if latent is None:
            return "contexts are searched; use Auto()"
        if latent.codes.shape[1] <= self.entries:
            return f"codes have no more than {self.entries} entries; use the search itself"
        proximity = task.space.proximity
        if proximity.between_codes and proximity.measure.scale is not None:
            return "entries of codes have scales of their own; use the search itself"
        return needs_gradient(task) or self.search.refusal(task)

    def steps(self, task: Task) -> Iterator[Progress]:
        """As the search does, with its points put back among the other entries."""
        self.check(task)
        step, here, rows = 0, task, task.row_numbers
        before: Points | None = None
        for number in range(self.rounds):
            missed: list[Points] = []
            for progress in self._round(here):
                step += 1
                done, moving = progress.finished, progress.moving
                if done is not None:
                    done = done if before is None else _added(done, before)
                    settled = done.found | torch.tensor(number + 1 == self.rounds or task.late)
                    missed.append(done[(~settled).nonzero().flatten()])
                    done = done[settled.nonzero().flatten()]
                    done = replace(done, rows=rows[done.rows]) if len(done) else None
                moving = None if moving is None else moving.of(rows)
                waiting = progress.running + sum(map(len, missed))
                yield Progress(step, waiting, len(task), done, moving)
            if not sum(map(len, missed)):
                return
            before = Points.gather(missed)
            rows = rows[before.rows]
            here = task[rows].starting_at(before.x)

    def _round(self, task: Task) -> Iterator[Progress]:
        """One choice of entries, from where each row begins."""
        narrow = self._narrowed(task)
        latent = narrow.space.latent
        assert latent is not None
        for progress in self.search.steps(narrow):
            finished, moving = progress.finished, progress.moving
            if finished is not None:
                finished = self._widened(finished, narrow)
            if moving is not None:
                moving = Moving(moving.rows, latent[moving.rows].full(moving.at))
            yield replace(progress, finished=finished, moving=moving)

    def _widened(self, points: Points, narrow: Task) -> Points:
        latent = narrow.space.latent
        assert latent is not None
        wide = latent[points.rows].full(points.x)
        return replace(points, x=wide, passes=points.passes + 1 + _PROBES)

    def _narrowed(self, task: Task) -> Task:
        """The task in which the entries of most influence move, from where each row begins."""
        latent, start = task.space.latent, task.space.beginning
        assert latent is not None
        moving = self._influence(task, start).topk(self.entries, dim=1).indices.sort(dim=1).values
        home = latent.codes.gather(1, moving)
        few = replace(latent, codes=home, base=start.clone(), moving=moving)
        begin = None if task.space.start is None else start.gather(1, moving)
        return replace(task, space=replace(task.space, latent=few, start=begin))

    def _influence(self, task: Task, z: Tensor) -> Tensor:
        """How much entries change the prices that are compared: `(B, n) -> (B, n)`."""
        weight = self._compared(task, z)
        generator = torch.Generator().manual_seed(self.seed)
        point = z.detach().clone().requires_grad_()
        with torch.enable_grad():
            prices = task.prices(task.space.context(point))
        total = torch.zeros_like(z)
        for _ in range(_PROBES):
            signs = torch.randint(0, 2, (prices.shape[1],), generator=generator) * 2 - 1
            seeds = weight * signs.to(weight)
            (slope,) = torch.autograd.grad(prices, point, seeds, retain_graph=True)
            total += slope.square()
        return total

    def _compared(self, task: Task, z: Tensor) -> Tensor:
        """How much each price counts, in the decisions that are compared: `(B, m)`."""
        rules, seen = task.rules, task.look(z)
        weight = seen.direction.abs()
        if not rules.calls_solver:
            return weight
        used = rules.factual.abs() / rules.factual.abs().amax(1, keepdim=True).clamp(min=1e-12)
        size = seen.prices.abs().mean(1, keepdim=True)
        for fraction in _DISCOURAGED:
            other = rules.optimum(seen.prices + fraction * size * used.to(seen.prices))
            direction = rules.direction(seen.prices, other.decisions.to(seen.prices))
            weight = weight.maximum(direction.abs().nan_to_num(0.0))
        return weight


def _added(points: Points, before: Points) -> Points:
    """Points of a further round, whose row k went on from point k, with all that rows took."""
    earlier = before[points.rows.to(before.rows.device)]
    return replace(
        points,
        steps=earlier.steps + points.steps,
        solves=earlier.solves + points.solves,
        passes=earlier.passes + points.passes,
    )
