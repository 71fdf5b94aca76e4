"""Where climbs among codes aim: the linearised task, solved with the decisions it calls for."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cfopt.search.code_step import dearness, solve_step
from cfopt.search.linearised import Linearised
from cfopt.search.survey import Rows
from cfopt.task import Task
from cfopt.types import Array

#: How far inside its limits the criterion is aimed at, as a fraction of its terms.
_INSIDE = 2e-5
#: How often the linear model is asked for another decision before a step is taken.
_ROUNDS = 12
#: What a squared unit of excess costs where cuts cannot be met, in units of the loss.
_ELASTIC = 1e4
#: How many decisions a row keeps.
_KEPT = 60
#: By which fractions of a typical price factual decisions are made costlier, to see what is next.
_DISCOURAGED = (0.1, 0.3, 1.0, 3.0)
#: How many single decisions are tried for a step, where one of them is enough.
_TRIED = 3
#: A cut binds if its multiplier is more than this fraction of the largest.
_BINDING = 1e-9


class Aim(NamedTuple):
    """Where step problems lead: moves `(R, n)`, and the loss and the miss there, `(R,)`.

    The price is what meeting the criterion by a unit less would save, `(R,)`; the cuts are those
    that bind, `(c, m)` for each row.
    """

    move: Array
    loss: Array
    miss: Array
    price: Array
    cuts: list[Array]


class Aims:
    """The decisions that rows of a latent task reckon with, and the step problems made of them.

    Arguments:
        task: a task in a latent space.
        model: a model of the task near the present codes, which others keep up to date.
        unit: the size of what the criterion compares, `(R,)`.
    """

    def __init__(self, task: Task, model: Linearised, unit: Array) -> None:
        # Neither contexts nor codes are needed, and would be copied with every selection.
        self.rules = replace(task, origin=task.origin.flatten(1)[:, :1], domain=None, latent=None)
        self.model = model
        self.unit = unit
        self.kept: list[list[Array]] = [[] for _ in range(len(task))]
        self.some = np.zeros(len(task), dtype=bool)
        self.solves = np.zeros(len(task), dtype=np.int64)

    def part(self, rows: Rows) -> Task:
        """The rules of some rows."""
        return self.rules[torch.from_numpy(rows).to(self.rules.factual.device)]

    def at(self, rows: Rows, loss: Array, radius: Array) -> Aim:
        """The best moves of the linearised task within boxes.

        Arguments:
            rows: the rows to step from.
            loss: the loss at their present codes, `(R,)`.
            radius: the radius of each box, `(R,)`.
        """
        count = len(rows)
        move = np.zeros((count, self.model.slope.shape[1]))
        there, miss, price = np.zeros((3, count))
        cuts = [np.zeros((0, self.model.prices.shape[1]))] * count
        open_rows = np.arange(count)
        signed = self.model.prices[rows].min(axis=1) >= 0
        for _ in range(_ROUNDS):
            for i in open_rows.tolist():
                move[i], there[i], miss[i], price[i], cuts[i] = self._step(
                    int(rows[i]), float(loss[i]), float(radius[i])
                )
            chosen = rows[open_rows]
            prices = self.model.prices[chosen] + np.einsum(
                "rmn,rn->rm", self.model.jacobian[chosen], move[open_rows]
            )
            # Costs of one sign stay so: the linear model may cross 0 where the predictor cannot.
            prices = np.where(signed[open_rows, None], np.maximum(prices, 0.0), prices)
            open_rows = open_rows[self._ask(chosen, prices)]
            if not len(open_rows):
                break
        return Aim(move, there, miss, price, cuts)

    def keep(self, rows: Rows, decisions: Array) -> NDArray[np.bool_]:
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

    def look_around(self, rows: Rows, prices: torch.Tensor) -> None:
        """Where one decision is enough, keep some that make less and less use of the factual one.

        The best decision, which at home is the factual one itself, is of no use for a first step.
        """
        if not len(rows):
            return
        task = self.part(rows)
        used = task.factual.abs() / task.factual.abs().amax(1, keepdim=True).clamp(min=1e-12)
        size = prices.abs().mean(1, keepdim=True)
        for weight in _DISCOURAGED:
            found = task.optimum(prices + weight * size * used.to(prices))
            self.keep(rows, host(found.decisions))
        self.solves[rows] += len(_DISCOURAGED)

    def _ask(self, rows: Rows, prices: Array) -> NDArray[np.bool_]:
        """Solve for linearised prices; which rows have got another decision to reckon with."""
        task = self.part(rows)
        if not task.calls_solver:
            return np.zeros(len(rows), dtype=bool)
        solved = task.rival(torch.from_numpy(prices).to(task.factual))
        self.solves[rows] += 1
        return self.keep(rows, host(solved.decisions))

    def _step(
        self, row: int, here: float, radius: float
    ) -> tuple[Array, float, float, float, Array]:
        """One row's step problem with the decisions kept so far: as `Aim` says."""
        model, unit = self.model, self.unit[row]
        decisions = torch.from_numpy(np.stack(self.kept[row])).to(self.rules.factual)
        prices = torch.from_numpy(model.prices[row]).to(decisions).expand_as(decisions)
        rules = self.part(np.full(len(decisions), row))
        directions = host(rules.direction(prices, decisions))
        directions = directions[np.abs(directions).max(axis=1) > 0]  # the alternative itself
        normals = directions @ model.jacobian[row] / unit
        limits = -(directions @ model.prices[row]) / unit
        curvature, slope = model.curvature[row], model.slope[row]
        choices: list[slice] = [slice(None)]
        if self.some[row]:
            order = dearness(curvature, slope, normals, limits).argsort(kind="stable")
            choices = [slice(k, k + 1) for k in order[:_TRIED].tolist()]
        best, least = (np.zeros(len(slope)), np.inf, np.inf, 0.0, directions[:0]), np.inf
        elastic = _ELASTIC * (1.0 + here)
        for choice in choices:
            step = solve_step(
                curvature, slope, normals[choice], limits[choice] - _INSIDE, radius, elastic
            )
            move, weights = step.move, step.multipliers
            loss = float(here + slope @ move + 0.5 * move @ curvature @ move)
            miss = float((normals[choice] @ move - limits[choice]).max(initial=0.0))
            if loss + elastic * miss < least:
                least = loss + elastic * miss
                binding = directions[choice][weights > _BINDING * weights.max(initial=0.0)]
                best = (move, loss, miss, float(weights.sum()) if step.met else 0.0, binding)
        return best


def host(values: torch.Tensor) -> Array:
    """Values in float64 on the CPU."""
    array: Array = values.detach().double().cpu().numpy()
    return array
