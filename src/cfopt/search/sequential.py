"""Sequential linearisation: explanations of any differentiable pipeline, from several starts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from cfopt import registry
from cfopt.errors import InputError
from cfopt.proximity import L1, L2, Latent
from cfopt.search.base import Search, check_whole
from cfopt.search.climb import Climb
from cfopt.search.code_run import CodeRun
from cfopt.search.projection import project
from cfopt.search.survey import Climbed
from cfopt.task import Task
from cfopt.types import Array, Moving, Points, Progress

#: More features make the step problems, which are dense, too large.
_MOST_FEATURES = 2000
#: How many numbers of sampled contexts are held at once.
_NUMBERS_AT_ONCE = 4_000_000
#: Random changes of rows without an answer have lengths between these typical ones, times sqrt(p).
_NEAR, _FAR = 0.2, 8.0
#: What a start's distance counts against how far it is from valid.
_NEARNESS = 0.01


@registry.searches.register
@dataclass(frozen=True)
class Sequential(Search):
    """Trust-region steps on a linearised criterion, with a bundle of recent decisions as cuts.

    Among codes, a step solves the linearised task as a whole (see `CodeClimb`), restarts serve rows
    that have no answer yet, and `bundle` is not used.

    A climb from the context itself may end where no small step helps. So there are restarts: random
    changes are judged, the most promising become starts of further climbs, and the nearest valid
    context of all is kept. Where one is known, restarts look for a nearer one only.

    Arguments:
        max_steps: the most steps of one climb.
        bundle: how many decisions are kept as cuts.
        radius: that of the first trust region, as a multiple of the change that the slope of the
            criterion at the context suggests; of half a unit among codes.
        restarts: rounds of restarts; 0 climbs from the start alone.
        samples: random changes judged in each round.
        starts: how many of them are climbed from.
        seed: the seed of the random changes, which are the same for every row.
    """

    max_steps: int = 40
    bundle: int = 10
    radius: float = 1.0
    restarts: int = 3
    samples: int = 256
    starts: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(self, max_steps=1, bundle=1, restarts=0, samples=1, starts=1, seed=0)
        if not isinstance(self.radius, Real) or not 0 < self.radius < math.inf:
            raise InputError(f"Sequential needs a finite radius > 0, got {self.radius!r}.")
        if self.starts > self.samples:
            raise InputError(
                f"Sequential needs no more starts than samples, got {self.starts} and "
                f"{self.samples}."
            )

    def refusal(self, task: Task) -> str:
        """Needs a proximity whose steps are quadratic programs, and not too many features."""
        if type(task.proximity) not in (L1, L2, Latent):
            return f"the proximity is {type(task.proximity).__name__}, and needs to be L2 or L1"
        size = task.home[0].numel()
        if size > _MOST_FEATURES:
            return f"contexts have {size} features, more than {_MOST_FEATURES}; use MDMM()"
        return ""

    def steps(self, task: Task) -> Iterator[Progress]:
        """Climb from the start, then from random ones; as many rows at once as memory allows."""
        self.check(task)
        task = task.proven()
        if task.latent is not None:
            yield from self._among_codes(task)
            return
        width = max(task.origin[0].numel(), task.factual.shape[1])
        at_once = max(1, _NUMBERS_AT_ONCE // (self.samples * width))
        done, step = 0, 0
        for rows in torch.split(torch.arange(len(task), device=task.origin.device), at_once):
            run = _Run(self, task[rows])
            for _ in range(self.restarts):
                step += 1
                moving = Moving(rows, run.x)
                yield Progress(step, len(task) - done, len(task), moving=moving)
                run.restart()
            done += len(rows)
            step += 1
            points = run.points()
            yield Progress(step, len(task) - done, len(task), replace(points, rows=rows))

    def _among_codes(self, task: Task) -> Iterator[Progress]:
        """The same in a latent space, where restarts serve rows without an answer."""
        run, total = CodeRun(task, self.max_steps, self.radius), len(task)
        generator = torch.Generator().manual_seed(self.seed)
        phases = [run.climb(torch.arange(total, device=task.home.device), run.z)]
        phases += [run.restart(self.samples, self.starts, generator) for _ in range(self.restarts)]
        if self.restarts:
            phases += [run.approach(), run.polish()]
        yield Progress(0, total, total)
        step = 0
        for step, moving in enumerate(chain.from_iterable(phases), 1):
            yield Progress(step, total, total, moving=moving)
        yield Progress(step + 1, 0, total, run.points("sequential"))


class _Run:
    """The rows that are worked on together, and the nearest valid context of each so far."""

    def __init__(self, knobs: Sequential, task: Task) -> None:
        self.knobs = knobs
        self.task = task
        self.device = task.origin.device
        self.generator = torch.Generator().manual_seed(knobs.seed)
        self.solves = torch.zeros(len(task), dtype=torch.long, device=self.device)
        self.passes = self.solves.clone()
        self.length = self._typical_change()
        first = self._climb(task, self.length)
        self.x, self.loss, self.failures = first.x, first.loss, first.failures
        self._count(first.passes, first.solves)

    def _count(self, passes: Tensor | int, solves: Tensor | int) -> None:
        self.passes += passes
        self.solves += solves

    def _typical_change(self) -> Array:
        """How far each row is from meeting the criterion, to first order, `(B,)`.

            |h| / |dh/du|

        in units of the features' scales: the unit of length of everything that follows.
        """
        task = self.task
        x = task.origin.detach().clone().requires_grad_()
        with torch.enable_grad():
            prices = task.prices(x)
        values = prices.detach()
        rival = task.rival(values)
        direction, h, _ = task.judge(values, rival.decisions)
        (gradient,) = torch.autograd.grad(prices, x, direction)
        if task.proximity.scale is not None:
            gradient = gradient * torch.as_tensor(task.proximity.scale)
        self._count(2, int(task.calls_solver))
        size = gradient.flatten(1).norm(dim=1).double()
        length = (h.abs().double() / size).cpu().numpy()
        # Where the slope vanishes or explodes it says nothing.
        usual = np.isfinite(length) & (length > 1e-9) & (length < 1e9)
        return np.where(usual, length, 1.0)

    def _climb(self, task: Task, length: Array) -> Climbed:
        """One climb a row; a second one where whole numbers stay as the first left them."""
        knobs = self.knobs
        first = Climb(task, length, knobs.bundle, knobs.radius).run(knobs.max_steps)
        if task.domain is None or not task.domain.discrete:
            return first
        settled = replace(task, domain=task.domain.settled(first.x), start=first.x)
        second = Climb(settled, length, knobs.bundle, knobs.radius).run(knobs.max_steps)
        # The first may have left fractions, which would then stay.
        nearer = (second.loss < first.loss) & task.domain.allows(second.x)
        return Climbed(
            x=torch.where(nearer.view(-1, *[1] * (first.x.ndim - 1)), second.x, first.x),
            loss=torch.where(nearer, second.loss, first.loss),
            solves=first.solves + second.solves,
            passes=first.passes + second.passes,
            failures=first.failures | second.failures,
        )

    def restart(self) -> None:
        """Judge random changes, and climb from the most promising."""
        knobs, task, count = self.knobs, self.task, len(self.task)
        x, length = self._samples()
        wide = task[torch.arange(count, device=self.device).repeat_interleave(knobs.samples)]
        seen = wide.look(x)
        self._count(knobs.samples, knobs.samples * int(wide.calls_solver))
        self._take(x, torch.where(seen.holds, seen.loss.double(), torch.inf), knobs.samples)
        size = (seen.prices * seen.direction).abs().sum(1).clamp(min=1e-300)
        miss = (seen.h.clamp(min=0) / size).double().cpu().view(count, -1).nan_to_num(torch.inf)
        score = miss + _NEARNESS * length.square() / x[0].numel()
        chosen = score.argsort(dim=1, stable=True)[:, : knobs.starts]
        pick = (chosen + knobs.samples * torch.arange(count)[:, None]).flatten().to(self.device)
        climbed = self._climb(replace(wide[pick], start=x[pick]), self.length.repeat(knobs.starts))
        self._take(climbed.x, climbed.loss, knobs.starts)
        each = (climbed.passes.view(count, -1).sum(1), climbed.solves.view(count, -1).sum(1))
        self._count(*each)

    def _samples(self) -> tuple[Tensor, Tensor]:
        """Random allowed contexts, `samples` a row, and how far they were meant to be, `(B, S)`.

        The same directions for every row, so that a row's answer does not depend on the others.
        """
        knobs, task, size = self.knobs, self.task, self.task.origin[0].numel()
        direction = torch.randn((knobs.samples, size), generator=self.generator).double()
        direction /= direction.norm(dim=1, keepdim=True)
        share = torch.rand(knobs.samples, generator=self.generator).double()
        scale = torch.from_numpy(task.proximity.units(size))
        # Within the distance of what was found; else from near to far.
        unit = torch.from_numpy(self.length)
        change = (self.x - task.origin).flatten(1).double().cpu() / scale
        reach = torch.where(self.loss.cpu() < torch.inf, change.norm(dim=1) / unit, torch.inf)
        anywhere = _NEAR * (_FAR / _NEAR) ** share * size**0.5
        length = torch.where(reach.isfinite()[:, None], share * reach[:, None], anywhere)
        moves = (length * unit[:, None])[..., None] * direction * scale
        origin = task.origin.repeat_interleave(knobs.samples, 0)
        x = origin + moves.reshape(origin.shape).to(origin)
        if task.domain is not None:
            wide = task[
                torch.arange(len(task), device=self.device).repeat_interleave(knobs.samples)
            ]
            assert wide.domain is not None
            # Limits on sums that rounding breaks are left to the climbs.
            discrete = wide.domain.discrete
            x = wide.domain.round(wide.domain.clamp(x)) if discrete else project(wide, x)
        return x, length

    def _take(self, x: Tensor, loss: Tensor, each: int) -> None:
        """Keep what is nearer than the best so far; some candidates for each row."""
        count = len(self.task)
        least, which = loss.view(count, each).min(1)
        rows = torch.arange(count, device=self.device)
        nearer = (least < self.loss).view(-1, *[1] * (x.ndim - 1))
        self.x = torch.where(nearer, x[rows * each + which], self.x)
        self.loss = torch.minimum(self.loss, least)

    def points(self) -> Points:
        """All rows."""
        count = len(self.task)
        found = self.loss < torch.inf
        return Points(
            rows=torch.arange(count, device=self.device),
            x=self.x,
            found=found,
            steps=torch.full_like(self.solves, 1 + self.knobs.restarts),
            solves=self.solves,
            passes=self.passes,
            notes=tuple("" if found[i] else self.failures.get(i, "") for i in range(count)),
            methods=("sequential",) * count,
        )
