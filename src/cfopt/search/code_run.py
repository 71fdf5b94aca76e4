"""Sequential linearisation in a latent space: climbs from several codes, the best one kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from cfopt.search.code_climb import CodeClimb, compared, look
from cfopt.task import Task
from cfopt.types import Moving, Points

#: The first trust region of a climb, in the units of codes.
_RADIUS = 0.5
#: How far random codes lie from the factual one, as fractions of the way to a sample of the prior.
_NEAR, _FAR = 0.15, 0.85
#: Where climbs begin again, as fractions of the way from the factual code to what was found.
_ON_THE_WAY = (0.5, 0.35)
#: A loss within this multiple of what it would be without the criterion is not worth a climb.
_NEAR_ENOUGH = 1.3
#: What a start's distance counts against how far it is from valid.
_NEARNESS = 0.01


class CodeRun:
    """The rows of a latent task that are worked on together, and the best code of each so far.

    What it does is done while it is iterated over; it yields where its rows are.

    Arguments:
        task: a task in a latent space.
        max_steps: the most steps of a climb.
        radius: the radius of a climb's first trust region, as a multiple of half the unit of codes.
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
        #: What the loss would be without the criterion, by a model of it at home; NaN if unknown.
        self.floor = torch.full_like(self.loss, torch.nan)

    @property
    def found(self) -> Tensor:
        """Which rows have a valid code, `(B,)`."""
        return self.loss < torch.inf

    def climb(self, rows: Tensor, starts: Tensor) -> Iterator[Moving]:
        """Climb from codes `(R, n)` of some rows, which may occur more than once."""
        if not len(rows):
            return
        climb = CodeClimb(replace(self.task[rows], start=starts), self.radius)
        for moving in climb.climb(self.max_steps):
            yield moving.of(rows)
        end = climb.end()
        self.solves.index_add_(0, rows, end.solves)
        self.passes.index_add_(0, rows, end.passes)
        self.steps.index_add_(0, rows, climb.steps)
        self.failures |= {int(rows[i]): reason for i, reason in end.failures.items()}
        miss = torch.from_numpy(climb.least_miss * climb.unit).to(self.miss)
        # Seen from a distant start, the least loss there is would seem higher than it is.
        home = (starts == self.task.home[rows]).all(1)
        self.floor[rows[home]] = torch.from_numpy(climb.floor).to(self.loss)[home]
        for i, row in enumerate(rows.tolist()):
            better = end.loss[i] < self.loss[row]
            if better or (not self.found[row] and miss[i] < self.miss[row]):
                self.z[row], self.loss[row], self.miss[row] = end.x[i], end.loss[i], miss[i]

    def approach(self) -> Iterator[Moving]:
        """Look for something nearer, where what was found is far from the least possible loss.

        What is valid may not be connected, and a climb ends in the piece that it came upon
        first. So climbs begin again on the way from the factual code to what was found.
        """
        for part in _ON_THE_WAY:
            far = self.found & ~(self.loss <= _NEAR_ENOUGH * self.floor)
            rows = far.nonzero().flatten()
            yield from self.climb(rows, torch.lerp(self.task.home[rows], self.z[rows], part))

    def polish(self) -> Iterator[Moving]:
        """Climb once more from what was found, with a model that was measured there."""
        rows = self.found.nonzero().flatten()
        yield from self.climb(rows, self.z[rows])

    def restart(self, samples: int, starts: int, generator: torch.Generator) -> Iterator[Moving]:
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
        seen = look(self.task, each, z.flatten(0, 1))
        self.passes[rows] += samples
        self.solves[rows] += samples * int(self.task.calls_solver)
        size = compared(replace(self.task, origin=self.task.origin[:, :0])[each], seen)
        miss = (seen.h.clamp(min=0) / size.clamp(min=1e-30)).double().nan_to_num(torch.inf)
        miss = torch.where(seen.allowed, miss, torch.inf).view(len(rows), samples)
        score = miss + _NEARNESS * part.flatten().double()
        chosen = score.argsort(dim=1, stable=True)[:, :starts]
        picked = z[torch.arange(len(rows))[:, None], chosen]
        yield from self.climb(rows.repeat_interleave(starts), picked.flatten(0, 1))

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
