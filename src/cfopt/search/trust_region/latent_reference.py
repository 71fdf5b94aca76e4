"""Latent explanations from contexts that are known: climbs from the codes of the best of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.search.base import Search
from cfopt.search.reference import JudgedReferences
from cfopt.search.trust_region.latent_sequential import LatentRun

#: How often climbs begin again on the way back: references are far away.
_APPROACHES = 2
#: How many references are encoded, or decoded, at once.
_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class LatentReference(Search):
    """Climbs from the codes of known contexts that satisfy the criterion, or nearly do.

    What a generative model makes of such a context may no longer satisfy it, but little is missing.

    Arguments:
        contexts: known contexts, such as the training data, `(N, ...)`.
        starts: how many of them each row begins from.
        max_steps: the largest number of steps of a climb.
        radius: the radius of the first trust region, in the units of codes.
    """

    contexts: Tensor
    starts: int = 2
    max_steps: int = 60
    radius: float = 0.5

    def refusal(self, task: Task) -> str:
        """Needs a latent space."""
        codes = task.space.latent is not None
        return "" if codes else "contexts are searched; use Reference(contexts)"

    def steps(self, task: Task) -> Iterator[Progress]:
        """Judge all of them, as they are and as they are decoded; then climb."""
        self.check(task)
        task = task.proven()
        assert task.space.latent is not None
        usable = self.contexts.flatten(1).isfinite().all(1)
        known = self.contexts[usable].to(task.space.origin)
        run, step = LatentRun(task, self.max_steps, self.radius), 0
        if len(known):
            with torch.no_grad():
                model = task.space.latent.model
                codes = torch.cat([model.encode(part) for part in torch.split(known, _AT_ONCE)])
                decoded = torch.cat([model.decode(z) for z in torch.split(codes, _AT_ONCE)])
            raw, remade = JudgedReferences(task, known), JudgedReferences(task, decoded)
            best = [_best(task[row[None]], raw, remade)[: self.starts] for row in run.every]
            climbs = run.climb(run.every, codes[torch.stack(best)])
            nearer = [run.approach() for _ in range(_APPROACHES)]
            for step, moving in enumerate(chain(climbs, *nearer), 1):
                yield Progress(step, len(task), len(task), moving=moving)
        yield Progress(step + 1, 0, len(task), run.points("latent reference"))


def _best(task: Task, raw: JudgedReferences, remade: JudgedReferences) -> Tensor:
    """The references in their order for one row: first those that are valid as they are."""
    every = torch.arange(len(raw.contexts), device=raw.contexts.device)
    invalid = raw.missed(task, every) > 0
    return (remade.missed(task, every).clamp(max=1e6) + 1e6 * invalid).argsort(stable=True)
