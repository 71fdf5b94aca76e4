"""Climbs in a latent space: first to a valid code, then back towards the factual one."""

from __future__ import annotations

from typing import NamedTuple

import daqp
import numpy as np
import torch
from numpy.typing import NDArray

from cfopt.search.linearised import Linearised, linearise
from cfopt.search.survey import Climbed, Rows, one_is_enough
from cfopt.task import TOLERANCE, Look, Task
from cfopt.types import Array

#: DAQP's infinity.
_OPEN = 1e30
#: How far inside its limits the criterion is aimed at, as a part of its terms.
_INSIDE = 2e-5
#: How often the linear model is asked for another decision before a step is taken.
_ROUNDS = 12
#: How the trust region shrinks and grows, and where it ends.
_SHRINK, _GROW, _AT_REST = 0.4, 2.0, 2e-3
#: What a squared unit of excess costs where cuts cannot be met, in units of the loss.
_ELASTIC = 1e4
#: How many decisions a row keeps.
_KEPT = 60
#: A loss that falls by less than this part is no progress.
_LESS_LOSS = 1e-3
#: Above this part of what was expected a step is a good one.
_GOOD = 0.7


class _Aim(NamedTuple):
    """Where step problems lead: moves `(R, n)`, and the loss and the miss there, `(R,)`."""

    move: Array
    loss: Array
    miss: Array


class CodeClimb:
    """Trust-region steps on a linearised latent task, one climb for each of its rows.

    A step solves the linearised task as a whole: its cuts are found with the solver on linearised
    prices, before anything is predicted. While nothing valid is known, a step is accepted if the
    criterion is missed by less; from then on if it stays valid and the loss falls.

    Arguments:
        task: with the start of each climb.
        radius: of the first trust region, in the units of codes.
    """

    def __init__(self, task: Task, radius: float) -> None:
        assert task.latent is not None
        self.task = task
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
        self.prices = _host(seen.prices)
        self.unit = np.maximum(_host((seen.prices * seen.direction).abs().sum(1)), 1e-300)
        self.miss = self._missed(every, seen)
        self.loss = _host(seen.loss)
        self.valid = seen.holds.cpu().numpy().copy()
        self._keep(every, _host(seen.rival))
        self.some = one_is_enough(task, seen.prices, seen.rival)
        columns = self.prices.shape[1]
        self.model = Linearised(
            prices=self.prices.copy(),
            jacobian=np.zeros((count, columns, size)),
            loss=self.loss.copy(),
            slope=np.zeros((count, size)),
            curvature=np.zeros((count, size, size)),
        )
        #: How many steps ago each row's model was measured; -1 if never.
        self.age = np.full(count, -1)
        self.running = every[np.isfinite(self.miss)]

    def run(self, max_steps: int) -> Climbed:
        """Climb until every row has come to rest."""
        for _ in range(max_steps):
            if not len(self.running):
                break
            self._advance()
        loss = np.where(self.valid, self.loss, np.inf)
        device = self.z.device
        return Climbed(
            x=self.z,
            loss=torch.from_numpy(loss).to(device),
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
        holds, valid = seen.holds.cpu().numpy(), self.valid[rows]
        length = np.abs(aim.move).max(axis=1)
        fresh = self.age[rows] == 0
        new = self._keep(rows, _host(seen.rival))

        # Feasibility first; then the loss, among what is valid.
        nearer: NDArray[np.bool_] = np.where(
            valid, holds & (loss < self.loss[rows]), holds | (miss < self.miss[rows])
        ).astype(bool)
        hoped = np.where(valid, self.loss[rows] - aim.loss, self.miss[rows] - aim.miss)
        gained = np.where(valid, self.loss[rows] - loss, self.miss[rows] - np.maximum(miss, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(nearer, gained / np.maximum(hoped, 1e-12), 0.0)
        little = gained < _LESS_LOSS * self.loss[rows]
        self._learn(rows, aim.move, prices, nearer)
        taken = rows[nearer]
        self.z[taken] = there[torch.from_numpy(nearer)]
        self.miss[taken], self.loss[taken] = miss[nearer], loss[nearer]
        self.valid[taken] |= holds[nearer]

        good = part > _GOOD
        wide = length > 0.9 * self.radius[rows]
        # An old model is measured anew before it is mistrusted.
        blame = ~nearer & fresh & ~new
        self.radius[rows] = np.where(
            blame,
            _SHRINK * np.minimum(self.radius[rows], length),
            np.where(good & wide, _GROW * self.radius[rows], self.radius[rows]),
        )
        self.age[rows] += 1
        renew = np.where(nearer, ~good | (self.age[rows] > 2), ~fresh)
        self.age[rows[renew]] = -1
        idle = valid & fresh & ((hoped < _LESS_LOSS * self.loss[rows]) | (nearer & little))
        moving = (self.radius[rows] > _AT_REST) & np.isfinite(miss) & ~idle
        self.running = rows[moving]

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

    def _learn(self, rows: Rows, move: Array, prices: Array, nearer: NDArray[np.bool_]) -> None:
        """Let the model agree with what was seen, by Broyden's update, and follow accepted steps."""
        model = self.model
        size = np.square(move).sum(axis=1) + 1e-12
        wrong = prices - model.prices[rows] - np.einsum("rmn,rn->rm", model.jacobian[rows], move)
        model.jacobian[rows] += wrong[:, :, None] * (move / size[:, None])[:, None, :]
        taken, step = rows[nearer], move[nearer]
        model.prices[taken] = prices[nearer]
        model.slope[taken] += np.einsum("rij,rj->ri", model.curvature[taken], step)

    def _aim(self, rows: Rows) -> _Aim:
        """The best move of the linearised task within the trust region."""
        size = self.z.shape[1]
        move, loss, miss = np.zeros((len(rows), size)), np.zeros(len(rows)), np.zeros(len(rows))
        open_rows = np.arange(len(rows))
        signed = self.model.prices[rows].min(axis=1) >= 0
        for _ in range(_ROUNDS):
            for i in open_rows.tolist():
                move[i], loss[i], miss[i] = self._step(int(rows[i]))
            chosen = rows[open_rows]
            prices = self.model.prices[chosen] + np.einsum(
                "rmn,rn->rm", self.model.jacobian[chosen], move[open_rows]
            )
            # Costs of one sign stay so: the linear model may cross 0 where the predictor cannot.
            prices = np.where(signed[open_rows, None], np.maximum(prices, 0.0), prices)
            open_rows = open_rows[self._ask(chosen, prices)]
            if not len(open_rows):
                break
        return _Aim(move, loss, miss)

    def _ask(self, rows: Rows, prices: Array) -> NDArray[np.bool_]:
        """Solve for linearised prices; which rows have got another decision to reckon with."""
        task = self.task[torch.from_numpy(rows).to(self.z.device)]
        if not task.calls_solver:
            return np.zeros(len(rows), dtype=bool)
        solved = task.rival(torch.from_numpy(prices).to(task.factual))
        self.solves[rows] += 1
        return self._keep(rows, _host(solved.decisions))

    def _step(self, row: int) -> tuple[Array, float, float]:
        """One row's step problem with the decisions kept so far: move, loss and miss."""
        model, unit = self.model, self.unit[row]
        decisions = torch.from_numpy(np.stack(self.kept[row])).to(self.task.factual)
        index = torch.full((len(decisions),), row, device=self.z.device)
        prices = torch.from_numpy(model.prices[row]).to(decisions).expand_as(decisions)
        directions = _host(self.task[index].direction(prices, decisions))
        normals = directions @ model.jacobian[row] / unit
        limits = -(directions @ model.prices[row]) / unit
        choices: list[slice] = [slice(None)]
        if self.some[row]:
            order = (-limits / np.linalg.norm(normals, axis=1).clip(min=1e-300)).argsort()
            choices = [slice(k, k + 1) for k in order[:3].tolist()]
        curvature, slope = model.curvature[row], model.slope[row]
        best = (np.zeros(len(slope)), np.inf, np.inf, np.inf)
        for choice in choices:
            move, met = _solve(
                curvature,
                slope,
                normals[choice],
                limits[choice] - _INSIDE,
                self.radius[row],
                _ELASTIC * (1.0 + self.loss[row]),
            )
            loss = self.loss[row] + slope @ move + 0.5 * move @ curvature @ move
            miss = max(0.0, float((normals[choice] @ move - limits[choice]).max()))
            merit = loss + _ELASTIC * (1.0 + self.loss[row]) * miss
            if merit < best[3]:
                best = (move, float(loss), miss, merit)
        return best[:3]

    def _look(self, rows: Rows, z: torch.Tensor) -> Look:
        task = self.task[torch.from_numpy(rows).to(self.z.device)]
        seen = task.look(z)
        self.passes[rows] += 1
        self.solves[rows] += int(task.calls_solver)
        self.failures |= {int(rows[i]): reason for i, reason in seen.failures.items()}
        return seen

    def _missed(self, rows: Rows, seen: Look) -> Array:
        """By how much the criterion is missed, as a part of what it compares; 0 where it holds."""
        size = _host((seen.prices * seen.direction).abs().sum(1))
        excess, holds = _host(seen.h), seen.holds.cpu().numpy()
        miss = np.where(excess <= TOLERANCE / 2 * size, 0.0, excess) / self.unit[rows]
        # A code whose context is not allowed is no better than where the climb came from.
        return np.where(holds | seen.allowed.cpu().numpy(), miss, np.inf)

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


def _host(values: torch.Tensor) -> Array:
    array: Array = values.detach().double().cpu().numpy()
    return array


def _solve(
    curvature: Array, slope: Array, normals: Array, limits: Array, radius: float, penalty: float
) -> tuple[Array, bool]:
    """`min slope p + 1/2 p' curvature p` within cuts and a box; cuts give way if they must.

    Arguments:
        curvature, slope: of the loss, `(n, n)` and `(n,)`.
        normals, limits: the cuts, `(c, n)` and `(c,)`.
        radius: the box is `|p_j| <= radius`.
        penalty: what half the squared excess over the cuts costs, where they cannot be met.
    """
    size = len(slope)
    floor = 1e-6 * max(1e-6, float(np.trace(curvature)) / size)
    strict = curvature + floor * np.eye(size)
    box = np.full(size, radius)
    open_ends = np.full(len(limits), -_OPEN)
    move, _, flag, _ = daqp.solve(
        strict,
        slope,
        np.ascontiguousarray(normals),
        np.concatenate([box, limits]),
        np.concatenate([-box, open_ends]),
    )
    if flag > 0 and np.isfinite(move).all():
        return move, True
    wider = np.zeros((size + 1, size + 1))
    wider[:size, :size], wider[-1, -1] = strict, penalty
    move, _, flag, _ = daqp.solve(
        wider,
        np.append(slope, 0.0),
        np.hstack([normals, np.full((len(limits), 1), -1.0)]),
        np.concatenate([box, [_OPEN], limits]),
        np.concatenate([-box, [0.0], open_ends]),
    )
    if flag > 0 and np.isfinite(move).all():
        return move[:size], False
    return np.zeros(size), False
