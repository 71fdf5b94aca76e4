"""Sequential linearisation in a latent space: climbs from several codes, the best one kept."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from cfopt.search.code_climb import CodeClimb
from cfopt.task import Look, Task
from cfopt.types import Points

#: The first trust region of a climb, in the units of codes.
_RADIUS = 0.5
#: How many contexts are decoded at once.
_AT_ONCE = 256
#: How far random codes lie from the factual one, as parts of the way to a sample of the prior.
_NEAR, _FAR = 0.15, 0.85
#: A loss that falls by less than this part is not worth another climb.
_WORTHWHILE = 0.02
#: What a start's distance counts against how far it is from valid.
_NEARNESS = 0.01


class CodeRun:
    """The rows of a latent task that are worked on together, and the best code of each so far.

    Arguments:
        task: in a latent space.
        max_steps: of a climb.
        radius: of a climb's first trust region, as a multiple of half the unit of codes.
    """

    def __init__(self, task: Task, max_steps: int, radius: float) -> None:
        count, device = len(task), task.home.device
        self.task = task
        self.max_steps, self.radius = max_steps, radius * _RADIUS
        self.z = task.beginning.detach().clone()
        self.loss = torch.full((count,), torch.inf, dtype=torch.float64, device=device)
        self.miss = self.loss.clone()
        self.solves = torch.zeros(count, dtype=torch.long, device=device)
        self.passes = self.solves.clone()
        self.steps = self.solves.clone()
        self.failures: dict[int, str] = {}

    @property
    def found(self) -> Tensor:
        """Which rows have a valid code, `(B,)`."""
        return self.loss < torch.inf

    def climb(self, rows: Tensor, starts: Tensor) -> None:
        """Climb from codes `(R, n)` of some rows, which may occur more than once."""
        if not len(rows):
            return
        climb = CodeClimb(replace(self.task[rows], start=starts), self.radius)
        end = climb.run(self.max_steps)
        self.solves.index_add_(0, rows, end.solves)
        self.passes.index_add_(0, rows, end.passes)
        self.steps.index_add_(0, rows, climb.steps)
        self.failures |= {int(rows[i]): reason for i, reason in end.failures.items()}
        miss = torch.from_numpy(climb.least_miss).to(self.miss)
        for i, row in enumerate(rows.tolist()):
            better = end.loss[i] < self.loss[row]
            if better or (not self.found[row] and miss[i] < self.miss[row]):
                self.z[row], self.loss[row], self.miss[row] = end.x[i], end.loss[i], miss[i]

    def approach(self, rows: Tensor, times: int = 2) -> None:
        """Look for something nearer than what distant starts of some rows have led to.

        Climbs stay where the criterion holds, which may not be all of one piece. So they begin
        again half way to the factual code, as long as that helps.
        """
        rows = rows[self.found[rows]]
        for _ in range(times):
            before = self.loss[rows].clone()
            self.climb(rows, torch.lerp(self.task.home[rows], self.z[rows], 0.5))
            rows = rows[self.loss[rows] < (1 - _WORTHWHILE) * before]

    def restart(self, samples: int, starts: int, generator: torch.Generator) -> None:
        """Where nothing valid is known, climb from the most promising of some random codes.

        They lie on the way from the factual code to samples of the prior, the same ones for every
        row, so that a row's answer does not depend on the others.
        """
        rows = (~self.found).nonzero().flatten()
        if not len(rows):
            return
        home = self.task.home[rows]
        ends = torch.randn((samples, home.shape[1]), generator=generator).to(home)
        part = _NEAR + (_FAR - _NEAR) * torch.rand((samples, 1), generator=generator).to(home)
        z = torch.lerp(home[:, None], ends[None], part[None])
        each = rows.repeat_interleave(samples)
        seen = look(self.task[each], z.flatten(0, 1))
        self.passes[rows] += samples
        self.solves[rows] += samples * int(self.task.calls_solver)
        score = missed(seen).view(len(rows), samples) + _NEARNESS * part.flatten().double()
        chosen = score.argsort(dim=1, stable=True)[:, :starts]
        picked = z[torch.arange(len(rows))[:, None], chosen]
        self.climb(rows.repeat_interleave(starts), picked.flatten(0, 1))
        self.approach(rows)

    def points(self, method: str) -> Points:
        """All rows."""
        found = self.found.tolist()
        return Points(
            rows=torch.arange(len(self.task), device=self.z.device),
            x=self.z,
            found=self.found,
            steps=self.steps,
            solves=self.solves,
            passes=self.passes,
            notes=tuple("" if ok else self.failures.get(i, "") for i, ok in enumerate(found)),
            methods=(method,) * len(self.task),
        )


def look(task: Task, z: Tensor) -> Look:
    """`Task.look` at many codes, some at a time."""
    rows = torch.arange(len(z), device=z.device)
    return Look.gather([task[part].look(z[part]) for part in torch.split(rows, _AT_ONCE)])


def missed(seen: Look) -> Tensor:
    """By how much the criterion is missed, as a part of its terms: `(B,)`; inf if not allowed."""
    size = (seen.prices * seen.direction).abs().sum(1).clamp(min=1e-300)
    miss = (seen.h.clamp(min=0) / size).double().nan_to_num(torch.inf)
    return torch.where(seen.allowed, miss, torch.inf)
