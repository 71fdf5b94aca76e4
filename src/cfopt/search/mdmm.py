"""The paper's search: the modified differential method of multipliers, for a whole batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from numbers import Integral, Real
from typing import ClassVar

import torch
from torch import Tensor

from cfopt import clock, registry
from cfopt.engine.progress import Moving, Points, Progress
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.problems.solved import TIME_IS_UP
from cfopt.search.base import Search, needs_gradient
from cfopt.search.incumbents import Incumbents
from cfopt.search.projection import project

#: Steps between two reports when no row finishes.
_REPORT_EVERY = 50
#: Seconds after which there is a report in any case.
_REPORT_AFTER = 1.0
#: A row whose values are no longer finite can do no harm (no comparison with NaN holds), so it is
#: looked for now and then only.
_LOOK_FOR_NAN_EVERY = 16


class Counting(StrEnum):
    """Which steps use up the patience of a row that has found something."""

    #: Valid steps that do not improve: Algorithms 1 and 2 of the paper.
    VALID_STEPS = "valid steps"
    #: Every step that does not improve, from the first valid one on: made the paper's figures.
    ALL_STEPS = "all steps"


@registry.searches.register
@dataclass(frozen=True)
class MDMM(Search):
    """Simultaneous descent in x and ascent in lambda (Algorithm 2; Algorithm 1 for codes).

        E(x, lambda) = loss + lambda g + rho/2 g^2
        x      <- x - gamma dE/dx
        lambda <- lambda + gamma g

    with `g = h + s^2`. The slack s starts at `sqrt(max(0, -h))`, so that it is 0 and stays 0
    unless the criterion holds at the start; absolute explanations need none.

    The loss is the proximity; where codes are searched, with their plausibility. Where contexts
    must be like known ones, what is missing in that, `e >= 0`, has a multiplier of its own, `mu`:
    E has the terms `mu e + rho/2 e^2`, and `mu <- mu + gamma e`.

    One step is one forward and one backward pass and, unless the criterion does without, one
    batched solve for all rows still running; finished rows leave the batch. Where contexts are
    limited, each step ends with a projection; whole numbers are relaxed, and the context that they
    round to is judged as well.

    Arguments:
        step: gamma.
        damping: rho.
        max_steps: K.
        patience: c_max, how many idle steps end the search of a row.
        improvement: u; a valid step improves if its loss is below u times that of the last one.
        counting: what counts idle steps.
        trace: whether to keep loss, h and lambda of every step.
    """

    step: float = 0.01
    damping: float = 1.0
    max_steps: int = 6000
    patience: int = 10
    improvement: float = 0.9
    counting: Counting = Counting.VALID_STEPS
    trace: bool = False
    heeds_surroundings: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("step", "damping", "max_steps", "patience", "improvement"):
            kind = Integral if name in ("max_steps", "patience") else Real
            if not isinstance(getattr(self, name), kind):
                what = "a whole number" if kind is Integral else "a number"
                raise InputError(f"MDMM needs {what} for {name}, got {getattr(self, name)!r}.")
        needs = {
            "step > 0": self.step > 0,
            "damping >= 0": self.damping >= 0,
            "max_steps >= 1": self.max_steps >= 1,
            "patience >= 1": self.patience >= 1,
            "0 < improvement <= 1": 0 < self.improvement <= 1,
        }
        for need, met in needs.items():
            if not met:
                raise InputError(f"MDMM needs {need}; got {self}.")
        object.__setattr__(self, "counting", Counting(self.counting))

    def refusal(self, task: Task) -> str:
        """Needs a gradient."""
        return needs_gradient(task)

    def steps(self, task: Task) -> Iterator[Progress]:
        """Take steps together until each row has run out of patience or of steps."""
        self.check(task)
        run = _Run(self, task)
        reported = clock.now()
        for k in range(1, self.max_steps + 1):
            now = clock.now()
            finished = run.advance(k, task.late)
            if finished is not None or k % _REPORT_EVERY == 0 or now > reported + _REPORT_AFTER:
                reported = now
                yield Progress(k, len(run.rows), len(task), finished, Moving(run.rows, run.x))
            if not len(run.rows):
                return


class _Run:
    """The state of the rows still running; every tensor has one row for each of them."""

    def __init__(self, settings: MDMM, task: Task) -> None:
        count, device, dtype = len(task), task.space.origin.device, task.space.origin.dtype
        self.settings = settings
        self.task = task
        self.rows = task.row_numbers
        self.x = task.space.beginning.detach().clone()
        # Whole numbers are judged where they are rounded to, beside the relaxed context.
        self.looks = 2 if task.space.domain is not None and task.space.domain.discrete else 1
        # In float32 the multiplier would stop growing as soon as gamma h falls below its last bit,
        # and with it the search a hair away from the boundary. (Apple's GPUs have no float64.)
        precise = torch.float64 if device.type != "mps" else dtype
        self.multiplier = torch.zeros(count, device=device, dtype=precise)
        self.pressure = torch.zeros(count, device=device, dtype=dtype)  # mu
        self.slack: Tensor | None = None
        self.idle = torch.zeros(count, device=device, dtype=torch.long)
        self.best = Incumbents(self.x, dtype)
        self.last_improvement = self.best.loss.clone()
        self.history: list[Tensor] = []  # blocks of (steps, rows, 3)

    def advance(self, k: int, late: bool = False) -> Points | None:
        """Take step k, the last if it is late; return the rows that end with it, if any."""
        task, settings = self.task, self.settings
        point = self.x.requires_grad_()
        with torch.enable_grad():  # whatever mode the caller is in
            x = task.space.context(point)
            prices = task.prices(x)
        values, at = prices.detach(), point.detach()
        context = at if x is point else x.detach()
        rival = task.rules.rival(values)
        # Half of what verification grants, to leave room for the rounding of float32.
        direction, h, holds = task.rules.judge(values, rival.decisions, TOLERANCE / 2)
        pull = task.space.pull(at, context)
        loss = pull.loss
        self._remember(*self._candidate(at, context, h, holds, loss))

        if k == 1:
            slack = (-h).clamp(min=0).sqrt()
            self.slack = slack if slack.any() else None
        g = h if self.slack is None else h + self.slack.square()
        if settings.trace:
            self.history.append(torch.stack([loss, h, self.multiplier.to(h)], dim=1)[None])
        damped = g if settings.damping == 1 else settings.damping * g
        weight = (self.multiplier + damped).to(h.dtype)
        slope = task.space.gradient(point, x, pull, prices, weight[:, None] * direction)
        if (known := task.space.surroundings) is not None:
            strange, way = known.excess_and_gradient(x)
            push = self.pressure + settings.damping * strange
            slope = slope + push.view(-1, *[1] * (way.ndim - 1)) * way
            self.pressure = torch.add(self.pressure, strange, alpha=settings.step)
        self.x = torch.sub(at, slope, alpha=settings.step)
        if task.space.domain is not None and task.space.latent is None:
            self.x = project(task.space.domain, self.x)
        self.multiplier = torch.add(self.multiplier, g, alpha=settings.step)
        if self.slack is not None:
            self.slack = self.slack - 2 * settings.step * weight * self.slack
        return self._finish(k, h, rival.failures, late)

    def _candidate(
        self, point: Tensor, x: Tensor, h: Tensor, holds: Tensor, loss: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The point that could be an answer, with what is known of it."""
        space = self.task.space
        if space.domain is None and space.surroundings is None:
            return point, h, holds, loss
        if space.domain is not None and self.looks > 1:
            point = x = space.domain.round(x)
            seen = self.task.look(x)
            h, holds, loss = seen.h, seen.holds, seen.loss
        allowed = space.allows(x) & (space.strangeness(x) == 0)
        return point, torch.where(allowed, h, torch.inf), holds & allowed, loss

    def _remember(self, x: Tensor, h: Tensor, holds: Tensor, loss: Tensor) -> None:
        """Keep the best point, and count the steps that do not improve."""
        every = self.settings.counting is Counting.ALL_STEPS
        counted = self.best.found if every else holds
        self.best.update(None, x, loss, h, holds)
        improves = holds & (loss < self.settings.improvement * self.last_improvement)
        self.last_improvement = torch.where(improves, loss, self.last_improvement)
        self.idle = (self.idle + counted).masked_fill_(improves, 0)

    def _finish(self, k: int, h: Tensor, failures: dict[int, str], late: bool) -> Points | None:
        """Take the rows that are done out of the batch."""
        done = self.idle >= self.settings.patience
        notes = dict(failures)
        if k % _LOOK_FOR_NAN_EVERY == 0 or k == self.settings.max_steps:
            broken = ~h.isfinite()
            done |= broken
            for row in broken.nonzero().flatten().tolist():
                notes.setdefault(row, "its costs overflowed or became NaN")
        if late:
            notes = {row: notes.get(row, TIME_IS_UP) for row in range(len(h))}
        if late or k == self.settings.max_steps:
            done[:] = True
        elif failures:
            done[list(failures)] = True
        if not done.any():
            return None
        ended, kept = done.nonzero().flatten(), (~done).nonzero().flatten()
        steps = torch.full_like(ended, k)
        history = torch.cat(self.history) if self.history else None
        points = Points(
            rows=self.rows[ended],
            x=self.best.x[ended],
            found=self.best.found[ended],
            steps=steps,
            solves=self.looks * steps if self.task.rules.calls_solver else torch.zeros_like(steps),
            passes=(1 + self.looks) * steps,
            notes=tuple(notes.get(row, "") for row in ended.tolist()),
            methods=("MDMM",) * len(ended),
            traces=() if history is None else tuple(history[:, ended].unbind(1)),
        )
        if history is not None:
            self.history = [history[:, kept]]
        self.task = self.task[kept]
        for name in ("rows", "x", "multiplier", "pressure", "idle", "best", "last_improvement"):
            setattr(self, name, getattr(self, name)[kept])
        self.slack = None if self.slack is None else self.slack[kept]
        return points
