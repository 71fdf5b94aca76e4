"""Sequential linearisation among codes: for any generative model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from cfopt import registry
from cfopt.engine.progress import Moving
from cfopt.engine.task import Task
from cfopt.search.base import needs_gradient
from cfopt.search.trust_region.climb import Climb, Precision
from cfopt.search.trust_region.evaluator import Evaluator
from cfopt.search.trust_region.latent_model import LatentModel
from cfopt.search.trust_region.run import LARGEST, Run, TrustRegion

#: How far random codes lie from the factual one, as fractions of the way to a sample of the prior.
_NEAR, _FAR = 0.15, 0.85
#: Where climbs begin again, as fractions of the way from the factual code to what was found.
_ON_THE_WAY = (0.5, 0.35)
#: A loss within this multiple of what it would be without the criterion is not worth a climb.
_NEAR_ENOUGH = 1.3
_PRECISION = Precision(radius=2e-3, gain=1e-3, patience=16)


@registry.searches.register
@dataclass(frozen=True)
class LatentSequential(TrustRegion):
    """Trust-region steps among codes, each of which solves the linearised task as a whole.

    Rows without an answer climb again from random codes. What was found is then approached from
    nearer starts, and polished.

    Arguments:
        max_steps: the largest number of steps of one climb.
        radius: the radius of the first trust region, in the units of codes; short first steps end
            in nearer pieces of what is valid.
        restarts: rounds of restarts, where the climb from the start finds nothing.
        samples: random codes judged in each round.
        starts: how many of them are climbed from.
        seed: the seed of the random codes, which are the same for every row.
        approaches: how often climbs begin again, nearer to the factual code, where something was
            found: 0 to 2.
    """

    max_steps: int = 60
    radius: float = 0.2
    restarts: int = 2
    samples: int = 32
    starts: int = 2
    seed: int = 0
    approaches: int = len(_ON_THE_WAY)

    def refusal(self, task: Task) -> str:
        """Needs codes, not too many of them, and a proximity whose curvature is known."""
        if task.space.latent is None:
            return "contexts are searched; use Sequential()"
        proximity = task.space.proximity.measure
        if proximity.power is None:
            return f"the proximity is {type(proximity).__name__}, and needs to be L2 or L1"
        size = task.space.home.shape[1]
        if size > LARGEST:
            return f"codes have {size} entries, more than {LARGEST}; use MDMM()"
        return needs_gradient(task)

    def numbers(self, task: Task) -> int:
        """Those of the Jacobian and the curvature, for each start."""
        size = task.space.home.shape[1]
        return self.starts * size * (size + task.rules.factual.shape[1])

    def rounds(self, task: Task) -> tuple[Run, Iterator[Moving]]:
        """From the start; from random codes where that found nothing; then nearer."""
        run = LatentRun(task, self.max_steps, self.radius)
        generator = torch.Generator().manual_seed(self.seed)
        others = [
            run.random_restart(self.samples, self.starts, generator) for _ in range(self.restarts)
        ]
        others += [run.approach(_ON_THE_WAY[: self.approaches]), run.polish()]
        return run, chain(run.climb(run.every, run.best.x[:, None]), *others)


class LatentRun(Run):
    """Climbs among codes.

    Arguments:
        task: the task, in a latent space.
        max_steps: the largest number of steps of a climb.
        radius: the radius of a climb's first trust region, in the units of codes.
    """

    def __init__(self, task: Task, max_steps: int, radius: float) -> None:
        super().__init__(task, max_steps)
        self._radius = radius
        #: What the loss would be without the criterion, by a model of it at home; NaN if unknown.
        self._floor = torch.full_like(self.best.loss, torch.nan)

    def climbs(self, rows: Tensor, task: Task) -> Iterator[Climb]:
        """One climb, which also says what the least loss would be."""
        evaluator = Evaluator(task)
        model = LatentModel(evaluator)
        yield Climb(evaluator, model, self._radius, _PRECISION)
        # Seen from a distant start, the least loss there is would seem higher than it is.
        home = (task.space.beginning == task.space.home).all(1)
        self._floor[rows[home]] = torch.from_numpy(model.surrogate.floor).to(self._floor)[home]

    def approach(self, fractions: Sequence[float] = _ON_THE_WAY) -> Iterator[Moving]:
        """Look for something nearer, where what was found is far from the least loss there is.

        What is valid may not be all of one piece, and a climb ends in the piece that it came upon
        first. So climbs begin again on the way from the factual code to what was found.

        Arguments:
            fractions: the fraction of that way for each climb.
        """
        for fraction in fractions:
            far = self.best.found & ~(self.best.loss <= _NEAR_ENOUGH * self._floor)
            rows = far.nonzero().flatten()
            starts = torch.lerp(self.task.space.home[rows], self.best.x[rows], fraction)
            yield from self.climb(rows, starts[:, None])

    def polish(self) -> Iterator[Moving]:
        """Climb once more from what was found, with a model that was measured there."""
        rows = self.best.found.nonzero().flatten()
        yield from self.climb(rows, self.best.x[rows, None])

    def random_restart(
        self, samples: int, starts: int, generator: torch.Generator
    ) -> Iterator[Moving]:
        """Where nothing valid is known, climb from the most promising of some random codes.

        They lie on the way from the factual code to samples of the prior, the same ones for every
        row, so that a row's answer does not depend on the others.
        """
        rows = (~self.best.found).nonzero().flatten()
        home = self.task.space.home[rows]
        ends = torch.randn((samples, home.shape[1]), generator=generator).to(home)
        way = _NEAR + (_FAR - _NEAR) * torch.rand((samples, 1), generator=generator).to(home)
        codes = torch.lerp(home[:, None], ends[None], way[None])
        yield from self.restart(rows, codes, way.flatten().expand(len(rows), -1), starts)
