"""Sequential linearisation: explanations of any differentiable pipeline, from several starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real

import torch
from torch import Tensor

from cfopt.errors import InputError
from cfopt.proximity import L1, L2
from cfopt.search.base import Search
from cfopt.search.climb import Climb, Climbed
from cfopt.search.projection import project
from cfopt.task import TOLERANCE, Task
from cfopt.types import Points, Progress

#: Random changes of rows without an answer have lengths between these, times sqrt(p).
_NEAR, _FAR = 0.1, 2.0
#: What a start's distance counts against how far it is from valid.
_NEARNESS = 0.01


@dataclass(frozen=True)
class Sequential(Search):
    """Trust-region steps on a linearised criterion, with a bundle of recent decisions as cuts.

    A climb from the context itself may end where no small step helps. So there are restarts: random
    changes are judged, the most promising become starts of further climbs, and the nearest valid
    context of all is kept. Where one is known, restarts look for a nearer one only.

    Arguments:
        max_steps: of one climb.
        bundle: how many decisions are kept as cuts.
        radius: of the first trust region, in units of the features' scales.
        restarts: rounds of restarts; 0 climbs from the start alone.
        samples: random changes judged in each round.
        starts: how many of them are climbed from.
        seed: of the random changes, which are the same for every row.
    """

    max_steps: int = 40
    bundle: int = 10
    radius: float = 1.0
    restarts: int = 3
    samples: int = 256
    starts: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("max_steps", "bundle", "restarts", "samples", "starts"):
            least = 0 if name == "restarts" else 1
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise InputError(
                    f"Sequential needs a whole number >= {least} for {name}, got {value!r}."
                )
        if not isinstance(self.radius, Real) or not self.radius > 0:
            raise InputError(f"Sequential needs a radius > 0, got {self.radius!r}.")

    def refusal(self, task: Task) -> str:
        """Needs a proximity whose steps are quadratic programs."""
        if type(task.proximity) not in (L1, L2):
            return f"the proximity is {type(task.proximity).__name__}, and needs to be L2 or L1"
        return ""

    def steps(self, task: Task) -> Iterator[Progress]:
        """Climb from the start, then from random ones; all rows finish together."""
        self.check(task)
        best = _Best(task)
        best.take(self._climb(task), 1)
        yield Progress(1, len(task), len(task))
        generator = torch.Generator().manual_seed(self.seed)
        for k in range(self.restarts):
            best.take(self._climb(self._restart(task, best, generator)), self.starts)
            yield Progress(2 + k, len(task), len(task))
        yield Progress(2 + self.restarts, 0, len(task), best.points(1 + self.restarts))

    def _climb(self, task: Task) -> Climbed:
        """One climb a row; a second one where whole numbers stay as the first left them."""
        first = Climb(task, self.bundle, self.radius).run(self.max_steps)
        if task.domain is None or not task.domain.discrete:
            return first
        settled = replace(task, domain=task.domain.settled(first.x), start=first.x)
        second = Climb(settled, self.bundle, self.radius).run(self.max_steps)
        nearer = second.loss < first.loss
        return Climbed(
            x=torch.where(nearer.view(-1, *[1] * (first.x.ndim - 1)), second.x, first.x),
            found=first.found | second.found,
            loss=torch.minimum(first.loss, second.loss),
            solves=first.solves + second.solves,
            passes=first.passes + second.passes,
            failures=first.failures | second.failures,
        )

    def _restart(self, task: Task, best: _Best, generator: torch.Generator) -> Task:
        """Judge random changes; the task of climbing from the most promising, `starts` a row."""
        count, size = len(task), task.origin[0].numel()
        direction = torch.randn((self.samples, size), generator=generator, dtype=torch.float64)
        direction /= direction.norm(dim=1, keepdim=True)
        share = torch.rand(self.samples, generator=generator, dtype=torch.float64)
        # Within the distance of what was found; else from near to far.
        inside = share * best.reach().cpu()[:, None]
        anywhere = _NEAR * (_FAR / _NEAR) ** share * size**0.5
        length = torch.where(inside.isfinite(), inside, anywhere)
        rows = torch.arange(count).repeat_interleave(self.samples)
        change = (length[..., None] * direction).reshape(-1, *task.origin.shape[1:])
        if task.proximity.scale is not None:
            change = change * torch.as_tensor(task.proximity.scale).cpu()
        wide = task[rows.to(task.origin.device)]
        x = project(wide, wide.origin + change.to(task.origin))
        with torch.no_grad():
            prices = wide.prices(x)
        judged = wide.judge(prices, wide.rival(prices).decisions, TOLERANCE / 2)
        best.count(self.samples, wide.calls_solver)
        miss = judged.h.clamp(min=0) / (prices * judged.direction).abs().sum(1).clamp(min=1e-300)
        score = miss.double().cpu().view(count, -1).nan_to_num(torch.inf)
        score = score + _NEARNESS * length.square() / size
        chosen = score.argsort(dim=1, stable=True)[:, : self.starts]
        pick = (chosen + self.samples * torch.arange(count)[:, None]).flatten().to(x.device)
        return replace(wide[pick], start=x[pick])


class _Best:
    """The nearest valid context of each row so far, or the least violating one."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._x = task.origin.clone()
        self._loss = torch.full((len(task),), torch.inf, dtype=torch.float64)
        self._loss = self._loss.to(task.origin.device)
        self._taken = False
        self._solves = torch.zeros(len(task), dtype=torch.long, device=task.origin.device)
        self._passes = self._solves.clone()
        self._failures: dict[int, str] = {}

    def take(self, climbed: Climbed, starts: int) -> None:
        """Compare with climbs, some for each row."""
        count = len(self._task)
        loss = climbed.loss.view(count, starts)
        least, which = loss.min(1)
        rows = torch.arange(count, device=loss.device)
        x = climbed.x[rows * starts + which]
        nearer = least < self._loss if self._taken else torch.ones_like(rows, dtype=torch.bool)
        self._x = torch.where(nearer.view(-1, *[1] * (x.ndim - 1)), x, self._x)
        self._loss = torch.minimum(self._loss, least)
        self._solves += climbed.solves.view(count, starts).sum(1)
        self._passes += climbed.passes.view(count, starts).sum(1)
        if not self._taken:
            self._failures = climbed.failures
        self._taken = True

    def count(self, looks: int, solved: bool) -> None:
        """Add looks at contexts to what every row has taken."""
        self._passes += looks
        self._solves += looks * int(solved)

    def reach(self) -> Tensor:
        """The length of each row's best change, in units of the scales; inf without one."""
        change = (self._x - self._task.origin).double()
        if self._task.proximity.scale is not None:
            change = change / torch.as_tensor(self._task.proximity.scale).to(change)
        return torch.where(self._loss < torch.inf, change.flatten(1).norm(dim=1), torch.inf)

    def points(self, steps: int) -> Points:
        """All rows."""
        count = len(self._task)
        found = self._loss < torch.inf
        return Points(
            rows=torch.arange(count, device=found.device),
            x=self._x,
            found=found,
            steps=torch.full_like(self._solves, steps),
            solves=self._solves,
            passes=self._passes,
            notes=tuple("" if found[i] else self._failures.get(i, "") for i in range(count)),
            methods=("sequential",) * count,
        )
