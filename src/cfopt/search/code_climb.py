"""Climbs in a latent space: first to a valid code, then back towards the factual one."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cfopt.search.code_step import dearness, gain, solve_step
from cfopt.search.linearised import Linearised, linearise
from cfopt.search.survey import Climbed, Rows, one_is_enough
from cfopt.task import TOLERANCE, Look, Task
from cfopt.types import Array

#: How far inside its limits the criterion is aimed at, as a part of its terms.
_INSIDE = 2e-5
#: How often the linear model is asked for another decision before a step is taken.
_ROUNDS = 12
#: How many contexts are decoded at once.
_AT_ONCE = 256
#: How the trust region shrinks and grows, and where it ends.
_SHRINK, _GROW, _AT_REST = 0.4, 2.0, 2e-3
#: What a squared unit of excess costs where cuts cannot be met, in units of the loss.
_ELASTIC = 1e4
#: What a context that is not allowed adds to the miss.
_FORBIDDEN = 10.0
#: How many decisions a row keeps.
_KEPT = 60
#: A loss that falls by less than this part is no progress.
_NO_PROGRESS = 1e-3
#: By which parts of a typical price factual decisions are made dearer, to see what comes next.
_DISCOURAGED = (0.1, 0.3, 1.0, 3.0)
#: How many single decisions are tried for a step, where one of them is enough.
_TRIED = 3
#: How far above the criterion's price the penalty is kept.
_ABOVE = 1.5
#: How many steps a model that does well is kept.
_OLD = 4
#: Above these parts of what was expected a step is a fair or a good one.
_FAIR, _GOOD = 0.3, 0.7
#: How many steps may pass without a loss that is lower by this part, once something valid is known.
_PATIENCE, _WORTHWHILE = 5, 0.01


class _Aim(NamedTuple):
    """Where step problems lead: moves `(R, n)`, and the loss and the miss there, `(R,)`.

    The price is what meeting the criterion by a unit less would save, `(R,)`.
    """

    move: Array
    loss: Array
    miss: Array
    price: Array


class CodeClimb:
    """Trust-region steps on a linearised latent task, one climb for each of its rows.

    A step solves the linearised task as a whole: its cuts are found with the solver on linearised
    prices, before anything is predicted. While nothing valid is known, a step is taken if the
    criterion is missed by less; from then on if the merit falls,

        loss + penalty * miss

    with a penalty above the price of the criterion; the best valid code is kept.

    Arguments:
        task: with the start of each climb.
        radius: of the first trust region, in the units of codes.
    """

    def __init__(self, task: Task, radius: float) -> None:
        assert task.latent is not None
        self.task = task
        # For what needs neither contexts nor codes, which would be copied with every selection.
        self.rules = replace(task, origin=task.origin.flatten(1)[:, :1], domain=None, latent=None)
        self.z = task.beginning.detach().clone()
        count, size = self.z.shape
        self.radius = np.full(count, radius)
        self.solves = np.zeros(count, dtype=np.int64)
        self.passes = np.zeros(count, dtype=np.int64)
        self.steps = torch.zeros(count, dtype=torch.long, device=self.z.device)
        self.failures: dict[int, str] = {}
        self.kept: list[list[Array]] = [[] for _ in range(count)]
        every = np.arange(count)
        seen = self._look(every, self.z)
        self.unit = np.maximum(_host(compared(task, seen)), 1e-300)
        self.miss = self._missed(every, seen)
        self.loss = _host(seen.loss)
        self.best_z = self.z.clone()
        self.best_loss = np.where(seen.holds.cpu().numpy(), self.loss, np.inf)
        self.least_miss = self.miss.copy()
        self.penalty = np.zeros(count)
        self.idle = np.zeros(count, dtype=np.int64)
        #: What the loss would fall to without the criterion, by the first model of it.
        self.floor = np.full(count, np.nan)
        self._keep(every, _host(seen.rival))
        self.some = one_is_enough(task, seen.prices, seen.rival)
        self._look_around(every[self.some], seen.prices[torch.from_numpy(self.some)])
        self.model = Linearised(
            prices=_host(seen.prices),
            jacobian=np.zeros((*seen.prices.shape, size)),
            loss=self.loss.copy(),
            slope=np.zeros((count, size)),
            curvature=np.zeros((count, size, size)),
        )
        #: How many steps each row has taken since its model was measured; -1 if that is to be done.
        self.age = np.full(count, -1)
        self.running = every[np.isfinite(self.miss)]

    def run(self, max_steps: int) -> Climbed:
        """Climb until every row has come to rest."""
        for _ in range(max_steps):
            if not len(self.running):
                break
            self._advance()
        device = self.z.device
        return Climbed(
            x=self.best_z,
            loss=torch.from_numpy(self.best_loss).to(device),
            solves=torch.from_numpy(self.solves).to(device),
            passes=torch.from_numpy(self.passes).to(device),
            failures=self.failures,
        )

    def _advance(self) -> None:
        rows = self.running
        self.steps[rows] += 1
        self._measure(rows[self.age[rows] < 0])
        aim = self._aim(rows)
        there = self.z[rows] + torch.from_numpy(aim.move).to(self.z)
        seen = self._look(rows, there)
        miss, loss, prices = self._missed(rows, seen), _host(seen.loss), _host(seen.prices)
        holds = seen.holds.cpu().numpy()
        new = self._keep(rows, _host(seen.rival))
        length = np.abs(aim.move).max(axis=1)
        bounded, fresh = length > 0.9 * self.radius[rows], self.age[rows] == 0

        known = np.isfinite(self.best_loss[rows])
        self.penalty[rows] = np.maximum(self.penalty[rows], _ABOVE * aim.price)
        now = self._merit(rows, known, self.loss[rows], self.miss[rows])
        hoped = now - self._merit(rows, known, aim.loss, aim.miss)
        gained = now - self._merit(rows, known, loss, miss)
        self._remember(rows, there, holds, loss, miss)
        nearer = (gained > 0) | (holds & ~known)
        good = nearer & (gained > _GOOD * hoped)
        at_rest = known & fresh & ~bounded & (hoped < _NO_PROGRESS * self.loss[rows])

        self._learn(rows, aim.move, prices, nearer)
        taken = rows[nearer]
        self.z[taken] = there[torch.from_numpy(nearer)]
        self.miss[taken], self.loss[taken] = miss[nearer], loss[nearer]
        if len(taken):
            index = torch.from_numpy(nearer).to(self.z.device)
            rules = self.rules[torch.from_numpy(taken).to(self.z.device)]
            self.some[taken] = one_is_enough(rules, seen.prices[index], seen.rival[index])
        # An old model is measured anew before it is mistrusted; a new decision mends it as well.
        mistrust = ~nearer & fresh & ~new
        length = np.where(length > 0, np.minimum(length, self.radius[rows]), self.radius[rows])
        self.radius[rows[mistrust]] = _SHRINK * length[mistrust]
        self.radius[rows[good & bounded]] *= _GROW
        self.age[taken] += 1
        poor = ~nearer | (gained < _FAIR * hoped) | (self.age[rows] > _OLD)
        self.age[rows[poor & (self.age[rows] > 0)]] = -1
        moving = (self.radius[rows] > _AT_REST) & ~np.isnan(miss) & ~at_rest
        self.running = rows[moving & (self.idle[rows] < _PATIENCE)]

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

    def _measure(self, rows: Rows) -> None:
        """Linearise the task at the codes of some rows."""
        if not len(rows):
            return
        index = torch.from_numpy(rows).to(self.z.device)
        found = linearise(self.task[index], self.z[index])
        for name in ("prices", "jacobian", "loss", "slope", "curvature"):
            getattr(self.model, name)[rows] = getattr(found, name)
        self.passes[rows] += 1 + self.z.shape[1]
        self.age[rows] = 0
        for i in np.flatnonzero(np.isnan(self.floor[rows])).tolist():
            self.floor[rows[i]] = found.loss[i] - gain(found.curvature[i], found.slope[i])

    def _learn(self, rows: Rows, move: Array, prices: Array, nearer: NDArray[np.bool_]) -> None:
        """Let the model agree with what was seen, by Broyden's update, and go with taken steps."""
        model = self.model
        size = np.square(move).sum(axis=1) + 1e-12
        wrong = prices - model.prices[rows] - np.einsum("rmn,rn->rm", model.jacobian[rows], move)
        model.jacobian[rows] += wrong[:, :, None] * (move / size[:, None])[:, None, :]
        taken, step = rows[nearer], move[nearer]
        model.prices[taken] = prices[nearer]
        model.slope[taken] += np.einsum("rij,rj->ri", model.curvature[taken], step)

    def _aim(self, rows: Rows) -> _Aim:
        """The best move of the linearised task within the trust region."""
        move = np.zeros((len(rows), self.z.shape[1]))
        loss, miss, price = np.zeros((3, len(rows)))
        open_rows = np.arange(len(rows))
        signed = self.model.prices[rows].min(axis=1) >= 0
        for _ in range(_ROUNDS):
            for i in open_rows.tolist():
                move[i], loss[i], miss[i], price[i] = self._step(int(rows[i]))
            chosen = rows[open_rows]
            prices = self.model.prices[chosen] + np.einsum(
                "rmn,rn->rm", self.model.jacobian[chosen], move[open_rows]
            )
            # Costs of one sign stay so: the linear model may cross 0 where the predictor cannot.
            prices = np.where(signed[open_rows, None], np.maximum(prices, 0.0), prices)
            open_rows = open_rows[self._ask(chosen, prices)]
            if not len(open_rows):
                break
        return _Aim(move, loss, miss, price)

    def _ask(self, rows: Rows, prices: Array) -> NDArray[np.bool_]:
        """Solve for linearised prices; which rows have got another decision to reckon with."""
        task = self.rules[torch.from_numpy(rows).to(self.z.device)]
        if not task.calls_solver:
            return np.zeros(len(rows), dtype=bool)
        solved = task.rival(torch.from_numpy(prices).to(task.factual))
        self.solves[rows] += 1
        return self._keep(rows, _host(solved.decisions))

    def _step(self, row: int) -> tuple[Array, float, float, float]:
        """One row's step problem with the decisions kept so far: as `_Aim` says."""
        model, unit = self.model, self.unit[row]
        decisions = torch.from_numpy(np.stack(self.kept[row])).to(self.task.factual)
        index = torch.full((len(decisions),), row, device=self.z.device)
        prices = torch.from_numpy(model.prices[row]).to(decisions).expand_as(decisions)
        directions = _host(self.rules[index].direction(prices, decisions))
        directions = directions[np.abs(directions).max(axis=1) > 0]  # the alternative itself
        normals = directions @ model.jacobian[row] / unit
        limits = -(directions @ model.prices[row]) / unit
        curvature, slope = model.curvature[row], model.slope[row]
        choices: list[slice] = [slice(None)]
        if self.some[row]:
            order = dearness(curvature, slope, normals, limits).argsort(kind="stable")
            choices = [slice(k, k + 1) for k in order[:_TRIED].tolist()]
        best, least = (np.zeros(len(slope)), np.inf, np.inf, 0.0), np.inf
        for choice in choices:
            elastic = _ELASTIC * (1.0 + self.loss[row])
            move, price = solve_step(
                curvature,
                slope,
                normals[choice],
                limits[choice] - _INSIDE,
                self.radius[row],
                elastic,
            )
            loss = float(self.loss[row] + slope @ move + 0.5 * move @ curvature @ move)
            miss = float((normals[choice] @ move - limits[choice]).max(initial=0.0))
            if loss + elastic * miss < least:
                best, least = (move, loss, miss, price), loss + elastic * miss
        return best

    def _look_around(self, rows: Rows, prices: torch.Tensor) -> None:
        """Where one decision is enough, keep some that make less and less use of the factual one.

        The best decision, which at home is the factual one itself, is no use for a first step.
        """
        if not len(rows):
            return
        task = self.rules[torch.from_numpy(rows).to(self.z.device)]
        used = task.factual.abs() / task.factual.abs().amax(1, keepdim=True).clamp(min=1e-12)
        size = prices.abs().mean(1, keepdim=True)
        for weight in _DISCOURAGED:
            found = task.optimum(prices + weight * size * used.to(prices))
            self._keep(rows, _host(found.decisions))
        self.solves[rows] += len(_DISCOURAGED)

    def _look(self, rows: Rows, z: torch.Tensor) -> Look:
        seen = look(self.task, torch.from_numpy(rows).to(self.z.device), z)
        self.passes[rows] += 1
        self.solves[rows] += int(self.task.calls_solver)
        self.failures |= {int(rows[i]): reason for i, reason in seen.failures.items()}
        return seen

    def _missed(self, rows: Rows, seen: Look) -> Array:
        """By how much the criterion is missed, as a part of what it compares; 0 where it holds."""
        size = _host((seen.prices * seen.direction).abs().sum(1))
        excess, holds = _host(seen.h), seen.holds.cpu().numpy()
        miss = np.where(excess <= TOLERANCE / 2 * size, 0.0, excess) / self.unit[rows]
        # Worse than any miss, but not hopeless: what is decoded at first may not be allowed.
        return miss + np.where(holds | seen.allowed.cpu().numpy(), 0.0, _FORBIDDEN)

    def _keep(self, rows: Rows, decisions: Array) -> NDArray[np.bool_]:
        """Remember decisions; which of them are new to their row."""
        new = np.zeros(len(rows), dtype=bool)
        for i, row in enumerate(rows.tolist()):
            known, decision = self.kept[row], decisions[i]
            if np.isnan(decision).any() or any((decision == old).all() for old in known):
                continue
            known.append(decision)
            del known[:-_KEPT]
            new[i] = True
        return new


def look(task: Task, rows: torch.Tensor, z: torch.Tensor) -> Look:
    """`Task.look` at many codes of some rows, which may occur more than once, in parts."""
    parts = zip(torch.split(rows, _AT_ONCE), torch.split(z, _AT_ONCE), strict=True)
    return Look.gather([task[some].look(codes) for some, codes in parts])


def compared(task: Task, seen: Look) -> torch.Tensor:
    """The size of what a criterion compares, the values of two decisions: `(B,)`."""
    pivot = task.criterion.pivot(task.factual).to(seen.prices)
    return (seen.prices * seen.rival).abs().sum(1) + (seen.prices * pivot).abs().sum(1)


def _host(values: torch.Tensor) -> Array:
    array: Array = values.detach().double().cpu().numpy()
    return array
