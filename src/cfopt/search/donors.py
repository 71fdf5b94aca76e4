"""Latent explanations from contexts that are known: climbs from the codes of the best of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from cfopt.search.base import Search
from cfopt.search.code_run import CodeRun
from cfopt.search.reference import Known
from cfopt.task import Task
from cfopt.types import Progress

#: How often climbs begin again on the way back: donors are far away.
_APPROACHES = 2


@dataclass(frozen=True, eq=False)
class Donors(Search):
    """Climbs from the codes of known contexts that satisfy the criterion, or nearly do.

    What a generative model makes of such a context may no longer satisfy it, but little is missing.

    Arguments:
        contexts: known contexts, such as the training data, `(N, ...)`.
        starts: how many of them each row begins from.
        max_steps: the most steps of a climb.
    """

    contexts: Tensor
    starts: int = 2
    max_steps: int = 60

    def refusal(self, task: Task) -> str:
        """Needs a latent space."""
        return "" if task.latent is not None else "contexts are searched; use Reference(contexts)"

    def steps(self, task: Task) -> Iterator[Progress]:
        """Judge all of them, as they are and as they are decoded; then climb."""
        self.check(task)
        task = task.proven()
        assert task.latent is not None
        usable = self.contexts.flatten(1).isfinite().all(1)
        known = self.contexts[usable].to(task.origin)
        run = CodeRun(task, self.max_steps, 1.0)
        rows, step = torch.arange(len(task), device=known.device), 0
        if len(known):
            with torch.no_grad():
                codes = torch.cat([task.latent.model.encode(k) for k in torch.split(known, 256)])
                decoded = torch.cat([task.context(k) for k in torch.split(codes, 256)])
            raw, remade = Known(task, known), Known(task, decoded)
            every = torch.arange(len(known), device=known.device)
            picked = torch.stack(
                [_best(task[rows[row : row + 1]], raw, remade, every) for row in rows]
            )[:, : self.starts]
            climbs = run.climb(rows.repeat_interleave(picked.shape[1]), codes[picked.flatten()])
            nearer = [run.approach() for _ in range(_APPROACHES)]
            for step, moving in enumerate(chain(climbs, *nearer), 1):
                yield Progress(step, len(task), len(task), moving=moving)
        yield Progress(step + 1, 0, len(task), run.points("donor"))


def _best(task: Task, raw: Known, remade: Known, every: Tensor) -> Tensor:
    """The references in their order for one row: first those that are valid as they are."""
    invalid = raw.missed(task, every) > 0
    return (remade.missed(task, every).clamp(max=1e6) + 1e6 * invalid).argsort(stable=True)
