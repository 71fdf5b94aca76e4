"""A search from outside the package: the nearest of many random points that hold."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from cfopt import registry
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.search import Search


@registry.searches.register
@dataclass(frozen=True)
class RandomShooting(Search):
    """Points around the start, in growing balls; the nearest valid one of each row is kept."""

    shots: int = 400
    reach: float = 5.0
    seed: int = 0

    def steps(self, task: Task) -> Iterator[Progress]:
        best = task.space.beginning.clone()
        loss = torch.full((len(task),), torch.inf, dtype=torch.float64)
        for shot in range(self.shots):
            # One stream for all rows, whichever of them are searched together.
            generator = torch.Generator().manual_seed(self.seed + shot)
            size = self.reach * (shot + 1) / self.shots
            change = torch.randn(best.shape[1:], generator=generator, dtype=best.dtype)
            at = self._allowed(task, task.space.beginning + size * change)
            look = task.look(at)
            better = look.holds & (look.loss.double() < loss)
            best[better], loss[better] = at[better], look.loss.double()[better]
        count = torch.full((len(task),), self.shots)
        rows = torch.arange(len(task))
        text = ("",) * len(task)
        found = Points(
            rows=rows,
            x=best,
            found=loss.isfinite(),
            steps=count,
            solves=count,
            passes=count,
            notes=text,
            methods=("random shooting",) * len(task),
        )
        yield Progress(self.shots, 0, len(task), finished=found)

    @staticmethod
    def _allowed(task: Task, point: Tensor) -> Tensor:
        """Points within the bounds, whole where they must be."""
        if task.space.domain is None or task.space.latent is not None:
            return point
        return task.space.domain.round(task.space.domain.clamp(point))
