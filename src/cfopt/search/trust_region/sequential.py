"""Sequential linearisation among contexts: for any differentiable predictor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array
from cfopt.engine.progress import Moving
from cfopt.engine.task import Task
from cfopt.search.base import check_whole, needs_gradient
from cfopt.search.projection import project
from cfopt.search.trust_region.bundle_model import BundleModel
from cfopt.search.trust_region.climb import Climb, Precision
from cfopt.search.trust_region.evaluator import Evaluator, host
from cfopt.search.trust_region.run import LARGEST, Run, TrustRegion

#: Random changes of rows without an answer have lengths between these typical ones, times sqrt(p).
_NEAR, _FAR = 0.2, 8.0
_PRECISION = Precision(radius=1e-5, gain=1e-7, patience=40)


@registry.searches.register
@dataclass(frozen=True)
class Sequential(TrustRegion):
    """Trust-region steps on a linearised criterion, with a bundle of recent decisions as cuts.

    A climb from the context itself may end where no small step helps. So there are restarts: random
    changes are judged, the most promising become starts of further climbs, and the nearest valid
    context of all is kept. Where one is known, restarts look for a nearer one only.

    Arguments:
        max_steps: the largest number of steps of one climb.
        radius: the radius of the first trust region, as a multiple of the change that the slope of
            the criterion at the context suggests.
        restarts: rounds of restarts; 0 climbs from the start alone.
        samples: random changes judged in each round.
        starts: how many of them are climbed from.
        seed: the seed of the random changes, which are the same for every row.
        bundle: how many decisions are kept as cuts.
    """

    max_steps: int = 40
    radius: float = 1.0
    restarts: int = 3
    samples: int = 256
    starts: int = 6
    seed: int = 0
    bundle: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, bundle=1)

    def refusal(self, task: Task) -> str:
        """Needs contexts of not too many features, and a proximity with simple step problems."""
        if task.space.latent is not None:
            return "codes are searched; use LatentSequential()"
        if task.space.proximity.power not in (1, 2):
            return (
                f"the proximity is {type(task.space.proximity).__name__}, and needs to be L2 or L1"
            )
        size = task.space.origin[0].numel()
        if size > LARGEST:
            return f"contexts have {size} features, more than {LARGEST}; use Tangents()"
        return needs_gradient(task)

    def numbers(self, task: Task) -> int:
        """Those of the random contexts and their prices."""
        return self.samples * max(task.space.origin[0].numel(), task.rules.factual.shape[1])

    def rounds(self, task: Task) -> tuple[Run, Iterator[Moving]]:
        """From the start, then from random changes."""
        run = _ContextRun(self, task)
        first = run.climb(run.every, run.best.x[:, None])
        return run, chain(first, *(run.random_restart() for _ in range(self.restarts)))


class _ContextRun(Run):
    """Climbs among contexts, in units of each row's typical change."""

    def __init__(self, settings: Sequential, task: Task) -> None:
        super().__init__(task, settings.max_steps)
        self._settings = settings
        self._generator = torch.Generator().manual_seed(settings.seed)
        self._length = self._typical_change()

    def climbs(self, rows: Tensor, task: Task) -> Iterator[Climb]:
        """One climb; then a second one where whole numbers stay as the first left them."""
        length = self._length[rows.cpu().numpy()]
        first = Evaluator(task, length)
        yield self._climb(first)
        if task.space.domain is not None and task.space.domain.discrete:
            x = task.space.domain.round(first.best.x)
            settled = replace(task.space, domain=task.space.domain.settled(x), start=x)
            yield self._climb(Evaluator(replace(task, space=settled), length))

    def _climb(self, evaluator: Evaluator) -> Climb:
        model = BundleModel(evaluator, self._settings.bundle)
        return Climb(evaluator, model, self._settings.radius, _PRECISION)

    def random_restart(self) -> Iterator[Moving]:
        """Judge random allowed contexts, and climb from the most promising.

        Within the distance of what was found; else from near to far. The same directions for every
        row, so that a row's answer does not depend on the others.
        """
        task, samples, home = self.task, self._settings.samples, self.task.space.origin
        count, size = home.flatten(1).shape
        direction = torch.randn((samples, size), generator=self._generator).double()
        direction /= direction.norm(dim=1, keepdim=True)
        share = torch.rand(samples, generator=self._generator).double()
        scale = torch.from_numpy(self._length[:, None] * task.space.proximity.units(size))
        reach = ((self.best.x - home).flatten(1).double().cpu() / scale).norm(dim=1)
        anywhere = _NEAR * (_FAR / _NEAR) ** share * size**0.5
        length = torch.where(self.best.found.cpu()[:, None], share * reach[:, None], anywhere)
        moves = length[..., None] * direction * scale[:, None]
        x = home[:, None] + moves.view(count, samples, *home.shape[1:]).to(home)
        if task.space.domain is not None:
            domain = task.space.domain[self.every.repeat_interleave(samples)]
            flat = x.flatten(0, 1)
            # Limits on sums that rounding breaks are left to the climbs.
            inside = domain.round(domain.clamp(flat)) if domain.discrete else project(domain, flat)
            x = inside.view_as(x)
        yield from self.restart(self.every, x, length.square() / size, self._settings.starts)

    def _typical_change(self) -> Array:
        """How far each row is from meeting the criterion, to first order, `(B,)`.

            |h| / |dh/du|

        in units of the features' scales: the unit of length of everything that follows.
        """
        task = self.task
        x = task.space.origin.detach().clone().requires_grad_()
        with torch.enable_grad():
            prices = task.prices(x)
        values = prices.detach()
        direction, h, _ = task.rules.judge(values, task.rules.rival(values).decisions)
        (gradient,) = torch.autograd.grad(prices, x, direction)
        self.passes += 2
        self.solves += int(task.rules.calls_solver)
        slope = host(gradient.flatten(1)) * task.space.proximity.units(x[0].numel())
        with np.errstate(divide="ignore", invalid="ignore"):
            length = np.abs(host(h)) / np.linalg.norm(slope, axis=1)
        # Where the slope vanishes or explodes it says nothing.
        usual = np.isfinite(length) & (length > 1e-9) & (length < 1e9)
        return np.where(usual, length, 1.0)
