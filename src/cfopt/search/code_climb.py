"""Climbs in a latent space: first to a valid code, then back towards the factual one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from cfopt.search.code_aim import Aim, Aims, host
from cfopt.search.code_model import CodeModel
from cfopt.search.survey import Climbed, Rows, one_is_enough
from cfopt.task import TOLERANCE, Look, Task
from cfopt.types import Array, Moving

#: How many contexts are decoded at once.
_AT_ONCE = 256
#: How the trust region shrinks and grows, and where it ends.
_SHRINK, _GROW, _AT_REST = 0.4, 2.0, 2e-3
#: What a context that is not allowed adds to the miss.
_FORBIDDEN = 10.0
#: A loss that falls by less than this fraction is not progress.
_NO_PROGRESS = 1e-3
#: How far above the criterion's price the penalty is kept.
_ABOVE = 1.5
#: How many steps a model that does well is kept.
_OLD = 1
#: How often a corrected model may call for the slopes of further cuts before a step is taken.
_MENDED = 3
#: Above these fractions of what was expected a step is fair or good.
_FAIR, _GOOD = 0.3, 0.7
#: How many steps may pass without a loss lower by this fraction, once something valid is known.
_PATIENCE, _WORTHWHILE = 16, 0.002


class CodeClimb:
    """Trust-region steps on a linearised latent task, one climb for each of its rows.

    A step solves the linearised task as a whole: its cuts are found with the solver on linearised
    prices, before anything is predicted. While nothing valid is known, a step is taken if the
    criterion is missed by less; from then on if the merit falls,

        loss + penalty * miss

    with a penalty above the price of the criterion; the best valid code is kept.

    Arguments:
        task: the task, with the start of each climb.
        radius: the radius of the first trust region, in the units of codes.
    """

    def __init__(self, task: Task, radius: float) -> None:
        assert task.latent is not None
        self.task = task
        self.z = task.beginning.detach().clone()
        count = len(self.z)
        self.radius = np.full(count, radius)
        self.looks = np.zeros(count, dtype=np.int64)
        self.steps = torch.zeros(count, dtype=torch.long, device=self.z.device)
        self.failures: dict[int, str] = {}
        every = np.arange(count)
        seen = self._look(every, self.z)
        self.unit = np.maximum(host(compared(task, seen)), 1e-300)
        self.miss = self._missed(every, seen)
        self.loss = host(seen.loss)
        self.best_z = self.z.clone()
        self.best_loss = np.where(seen.holds.cpu().numpy(), self.loss, np.inf)
        self.least_miss = self.miss.copy()
        self.penalty = np.zeros(count)
        self.idle = np.zeros(count, dtype=np.int64)
        self.model = CodeModel(task, host(seen.prices), self.loss)
        self.aims = Aims(task, self.model.state, self.unit)
        self.aims.keep(every, host(seen.rival))
        some = one_is_enough(task, seen.prices, seen.rival)
        self.aims.some = some
        self.aims.look_around(every[some], seen.prices[torch.from_numpy(some)])
        self.running = every[np.isfinite(self.miss)]

    @property
    def floor(self) -> Array:
        """What the loss would fall to without the criterion, by the first model of it, `(R,)`."""
        return self.model.floor

    def climb(self, max_steps: int) -> Iterator[Moving]:
        """Take steps until every row has come to rest; the best codes are then in `end`."""
        for _ in range(max_steps):
            if not len(self.running):
                return
            self._advance()
            rows = torch.from_numpy(self.running).to(self.z.device)
            yield Moving(rows, self.z[rows])

    def end(self) -> Climbed:
        """The best code of each row so far, and what it took."""
        device = self.z.device
        solves = self.aims.solves + self.looks * int(self.task.calls_solver)
        return Climbed(
            x=self.best_z,
            loss=torch.from_numpy(self.best_loss).to(device),
            solves=torch.from_numpy(solves).to(device),
            passes=torch.from_numpy(self.looks + self.model.passes).to(device),
            failures=self.failures,
        )

    def _advance(self) -> None:
        rows, model = self.running, self.model
        self.steps[rows] += 1
        aim = self._aim(rows)
        there = self.z[rows] + torch.from_numpy(aim.move).to(self.z)
        seen = self._look(rows, there)
        miss, loss, prices = self._missed(rows, seen), host(seen.loss), host(seen.prices)
        holds = seen.holds.cpu().numpy()
        new = self.aims.keep(rows, host(seen.rival))
        length = np.abs(aim.move).max(axis=1)
        bounded, fresh = length > 0.9 * self.radius[rows], model.age[rows] == 0

        known = np.isfinite(self.best_loss[rows])
        self.penalty[rows] = np.maximum(self.penalty[rows], _ABOVE * aim.price)
        now = self._merit(rows, known, self.loss[rows], self.miss[rows])
        hoped = now - self._merit(rows, known, aim.loss, aim.miss)
        gained = now - self._merit(rows, known, loss, miss)
        self._remember(rows, there, holds, loss, miss)
        nearer = (gained > 0) | (holds & ~known)
        good = nearer & (gained > _GOOD * hoped)
        at_rest = known & fresh & ~bounded & (hoped < _NO_PROGRESS * self.loss[rows])

        model.learn(rows, aim.move, prices, nearer)
        taken = rows[nearer]
        self.z[taken] = there[torch.from_numpy(nearer)]
        self.miss[taken], self.loss[taken] = miss[nearer], loss[nearer]
        if len(taken):
            index = torch.from_numpy(nearer).to(self.z.device)
            rules = self.aims.part(taken)
            self.aims.some[taken] = one_is_enough(rules, seen.prices[index], seen.rival[index])
        # An old model is corrected before it is mistrusted; a new decision corrects it as well.
        mistrust = ~nearer & fresh & ~new
        length = np.where(length > 0, np.minimum(length, self.radius[rows]), self.radius[rows])
        self.radius[rows[mistrust]] = _SHRINK * length[mistrust]
        self.radius[rows[good & bounded]] *= _GROW
        model.age[taken] += 1
        poor = ~nearer | (gained < _FAIR * hoped) | (model.age[rows] > _OLD)
        model.age[rows[poor & (model.age[rows] > 0)]] = -1
        moving = (self.radius[rows] > _AT_REST) & ~np.isnan(miss) & ~at_rest
        self.running = rows[moving & (self.idle[rows] < _PATIENCE)]

    def _aim(self, rows: Rows) -> Aim:
        """The best moves of models that are true where it counts: at the cuts that bind.

        Once corrected, a model may find that others bind, whose slopes are then measured in turn.
        """
        model = self.model
        unknown = rows[model.unknown[rows]]
        model.measure(unknown, self.z[torch.from_numpy(unknown)])
        aim = self.aims.at(rows, self.loss[rows], self.radius[rows])
        old = np.flatnonzero(model.age[rows] < 0)
        model.forget(rows[old])
        for k in range(_MENDED):
            cuts = {i: model.unseen(int(rows[i]), aim.cuts[i]) for i in old.tolist()}
            # At first also where no cut binds, for the slope of the loss.
            old = np.array([i for i in cuts if k == 0 or len(cuts[i])], dtype=np.intp)
            if not len(old):
                break
            # Together as many slopes each, so that none is computed in vain.
            for count in sorted({len(cuts[i]) for i in old.tolist()}):
                alike = [i for i in old.tolist() if len(cuts[i]) == count]
                some = rows[alike]
                model.mend(some, self.z[torch.from_numpy(some)], np.stack([cuts[i] for i in alike]))
            again = self.aims.at(rows[old], self.loss[rows[old]], self.radius[rows[old]])
            for values, others in zip(aim[:4], again[:4], strict=True):
                values[old] = others
            for i, binding in zip(old.tolist(), again.cuts, strict=True):
                aim.cuts[i] = binding
        return aim

    def _merit(self, rows: Rows, known: NDArray[np.bool_], loss: Array, miss: Array) -> Array:
        """The miss alone while nothing valid is known; then the loss, with what is missed."""
        with np.errstate(invalid="ignore"):  # no price yet, and no context that is allowed
            merit = np.where(known, loss + self.penalty[rows] * miss, miss)
        return np.where(np.isfinite(merit), merit, np.inf)

    def _remember(
        self, rows: Rows, z: torch.Tensor, holds: NDArray[np.bool_], loss: Array, miss: Array
    ) -> None:
        """Keep the best valid code, or while there is none the one that misses least."""
        nearer = holds & (loss < self.best_loss[rows])
        better = nearer | ((miss < self.least_miss[rows]) & np.isinf(self.best_loss[rows]))
        self.best_z[rows[better]] = z[torch.from_numpy(better)]
        with np.errstate(invalid="ignore"):
            much = nearer & ~(loss > (1 - _WORTHWHILE) * self.best_loss[rows])
        self.idle[rows] = np.where(much | np.isinf(self.best_loss[rows]), 0, self.idle[rows] + 1)
        self.best_loss[rows[nearer]] = loss[nearer]
        self.least_miss[rows] = np.fmin(self.least_miss[rows], miss)

    def _look(self, rows: Rows, z: torch.Tensor) -> Look:
        seen = look(self.task, torch.from_numpy(rows).to(self.z.device), z)
        self.looks[rows] += 1
        self.failures |= {int(rows[i]): reason for i, reason in seen.failures.items()}
        return seen

    def _missed(self, rows: Rows, seen: Look) -> Array:
        """By how much the criterion is missed, as a fraction of what it compares; else 0."""
        size = host((seen.prices * seen.direction).abs().sum(1))
        excess, holds = host(seen.h), seen.holds.cpu().numpy()
        miss = np.where(excess <= TOLERANCE / 2 * size, 0.0, excess) / self.unit[rows]
        # Worse than any miss, but not hopeless: what is decoded at first may not be allowed.
        return miss + np.where(holds | seen.allowed.cpu().numpy(), 0.0, _FORBIDDEN)


def look(task: Task, rows: torch.Tensor, z: torch.Tensor) -> Look:
    """`Task.look` at many codes of some rows, which may occur more than once, in parts."""
    parts = zip(torch.split(rows, _AT_ONCE), torch.split(z, _AT_ONCE), strict=True)
    return Look.gather([task[some].look(codes) for some, codes in parts])


def compared(task: Task, seen: Look) -> torch.Tensor:
    """The size of what a criterion compares, the values of two decisions: `(B,)`."""
    pivot = task.criterion.pivot(task.factual).to(seen.prices)
    return (seen.prices * seen.rival).abs().sum(1) + (seen.prices * pivot).abs().sum(1)
