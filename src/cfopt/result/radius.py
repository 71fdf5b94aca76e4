"""How far an answer's context may be off before the criterion stops holding."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor

from cfopt._batch import where_rows
from cfopt._typing import Array
from cfopt.engine.attack import attack
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy, Variation
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.failure import distance_to_failure
from cfopt.exact.geometry import Euclidean
from cfopt.pipeline import Pipeline
from cfopt.question.ball import Ball
from cfopt.question.proximity import L2
from cfopt.question.quantifier import Quantifier
from cfopt.result.explanation import Explanation

#: The most decisions that are listed, and how often a bound is improved by another decision.
_LISTED, _ROUNDS = 100_000, 50
#: The radii in which exceptions are looked for, and how often the way to one is halved.
_RADII, _HALVINGS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0), 20


class RadiusKind(StrEnum):
    """What is known about a radius."""

    EXACT = "exact"
    AT_LEAST = "at least"
    AT_MOST = "at most"
    UNKNOWN = ""


def with_radius(explanation: Explanation, pipeline: Pipeline) -> Explanation:
    """The same explanation with `radius`, how far x may be off, and `radius_kind`, how it is known.

    The Euclidean distance, in units of the features' scales, of the nearest context in which the
    criterion, any margin apart, does not hold; which features may be off is said in `Ball`. Behind
    an affine predictor it is the least `-h / |S' d|` over all decisions: exact if they can be
    listed, or if the criterion asks for some decision; otherwise a proved lower bound for binary
    decisions. Else it is an upper bound: the distance of an exception that was found.

    The nearest answers lie on a boundary, so that their radius is 0; ask for a margin or for a ball
    to get others. Rows without a valid answer have none: NaN.

    Arguments:
        explanation: the answers.
        pipeline: the one that was explained.
    """
    e = explanation
    radius = torch.full((len(e),), torch.nan, dtype=torch.float64)
    kinds = [RadiusKind.UNKNOWN] * len(e)
    rows = e.valid.nonzero().flatten().cpu()
    if len(rows):
        with torch.inference_mode(False), pipeline.eval_mode():
            found = _radii(e, pipeline, rows)
        for row, (length, kind) in zip(rows.tolist(), found, strict=True):
            radius[row], kinds[row] = length, kind
    return replace(e, radius=radius.to(e.x), radius_kind=tuple(str(kind) for kind in kinds))


def _radii(e: Explanation, pipeline: Pipeline, rows: Tensor) -> list[tuple[float, RadiusKind]]:
    part, problem = e[rows], pipeline.problem
    size = problem.prices(part.costs_before).abs().amax(1)
    rules = Rules(problem, part.factual, part.criterion, 0.0, size, None, part.x.dtype)
    units = Ball(1.0).units(e.features, part.x[0].numel())
    variation = Variation(OffBy(1.0, L2(), units))
    task = Task(rules, Space(part.x, L2()), pipeline.predictor, variation=variation)
    if not AffineTask.refusal(task):
        model, host = AffineTask(task), task.rules.on_host()
        with torch.no_grad():
            prices = host.turned(pipeline.deployed(part.x).to("cpu", torch.float64)).numpy()
        return [
            _AffineRow(model, host[torch.tensor([row])], row, prices[row]).radius()
            for row in range(len(part))
        ]
    differentiable = _differentiable(task)
    return _by_attack(replace(task, differentiable=differentiable), part.x, units)


class _AffineRow:
    """One row behind an affine predictor.

    Arguments:
        model: the task, in which contexts may be off by 1.
        rules: those of the row alone.
        row: its number in the model.
        prices: its prices, `(m,)`.
    """

    def __init__(self, model: AffineTask, rules: Rules, row: int, prices: Array) -> None:
        self.model, self.rules, self.row, self.prices = model, rules, row, prices

    def radius(self) -> tuple[float, RadiusKind]:
        """The least over all inequalities, and how it is known."""
        found = [(np.inf, RadiusKind.EXACT)]
        if self.model.multiples(Quantifier.GIVEN):
            found.append((self._least(Quantifier.GIVEN, self._factual), RadiusKind.EXACT))
        if self.model.multiples(Quantifier.EVERY):
            found.append(self._of_every())
        if self.model.multiples(Quantifier.SOME):
            length, sure = distance_to_failure(self.model, self.rules, self.row, self.prices)
            found.append((length, RadiusKind.EXACT if sure else RadiusKind.AT_LEAST))
        kinds = {kind for _, kind in found}
        least = min(length for length, _ in found)
        if RadiusKind.UNKNOWN in kinds or {RadiusKind.AT_LEAST, RadiusKind.AT_MOST} <= kinds:
            return np.nan, RadiusKind.UNKNOWN
        return least, (kinds - {RadiusKind.EXACT} or {RadiusKind.EXACT}).pop()

    @property
    def _factual(self) -> Array:
        factual: Array = self.rules.factual.numpy()
        return factual

    def _ratios(self, quantifier: Quantifier, decisions: Array) -> Array:
        """How far it is to the nearest exception of each decision: `(K, m) -> (K,)`."""
        directions = self.model.directions(self.row, quantifier, decisions)
        steepness = self.model.shift(directions)
        slack = np.maximum(-directions @ self.prices, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(steepness > 0, slack / steepness, np.inf)
        least: Array = ratio.reshape(len(decisions), -1).min(axis=1)
        return least

    def _least(self, quantifier: Quantifier, decisions: Array) -> float:
        return float(self._ratios(quantifier, decisions).min(initial=np.inf))

    def _of_every(self) -> tuple[float, RadiusKind]:
        listed = self.rules.problem.decisions(_LISTED)
        if listed is not None:
            return self._least(Quantifier.EVERY, listed.numpy()), RadiusKind.EXACT
        if self.rules.problem.binary:
            return self._by_parts()
        return np.nan, RadiusKind.UNKNOWN

    def _by_parts(self) -> tuple[float, RadiusKind]:
        """A lower bound: the least `-h / s`, where `s = sum_j |d_j| |S_j|` is at least `|S' d|`.

        Both are linear in a binary decision, so that the solver finds the decision with the largest
        `h + r s`; r is lowered to its ratio until none is above 0 (Dinkelbach).
        """
        parts = Euclidean().dual(self.model.spread(np.eye(len(self.prices))))
        least = np.inf
        for multiple in self.model.multiples(Quantifier.EVERY):
            for end in self.model.ends(self.row):
                added = (np.abs(multiple + end) - np.abs(end)) * parts
                radius = 1e6
                for _ in range(_ROUNDS):
                    turned = torch.from_numpy(-multiple * self.prices - radius * added)[None]
                    solved = self.rules.optimum(turned)
                    if solved.failures or solved.shortfall is not None:
                        return np.nan, RadiusKind.UNKNOWN
                    direction = multiple * solved.decisions[0].numpy() + end
                    h, s = float(direction @ self.prices), float(np.abs(direction) @ parts)
                    if s == 0 or h + radius * s <= TOLERANCE * radius * s:
                        break
                    radius = max(0.0, -h / s)
                else:
                    return np.nan, RadiusKind.UNKNOWN
                least = min(least, radius)
        return (1 - 2 * TOLERANCE) * least, RadiusKind.AT_LEAST


def _by_attack(task: Task, x: Tensor, units: Array) -> list[tuple[float, RadiusKind]]:
    """Upper bounds: the way to an exception, halved until it is as short as it gets."""
    nearest = np.full(len(x), np.inf)
    for radius in _RADII:
        left = torch.from_numpy(np.flatnonzero(nearest == np.inf))
        if not len(left):
            break
        part = replace(task[left], variation=Variation(OffBy(radius, L2(), units)))
        found = attack(part, x[left], Euclidean().steepest)
        broken = (found.excess > TOLERANCE).nonzero().flatten()
        if len(broken):
            some = left[broken]
            far = _first_exception(task[some], x[some], found.x[broken])
            scale = np.where(units > 0, units, 1.0)
            off = (far - x[some]).flatten(1).double().cpu().numpy() / scale
            nearest[some.numpy()] = np.linalg.norm(off, axis=1)
    return [
        (float(length), RadiusKind.AT_MOST) if length < np.inf else (np.nan, RadiusKind.UNKNOWN)
        for length in nearest
    ]


def _first_exception(task: Task, near: Tensor, far: Tensor) -> Tensor:
    """The first contexts on the way in which the criterion does not hold, nearly."""
    host = task.rules.on_host()
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        with torch.no_grad():
            prices = host.turned(task.pipeline.deployed(middle).to("cpu", torch.float64))
        holds = host.judge(prices, host.rival(prices).decisions).holds.to(near.device)
        near, far = where_rows(holds, middle, near), where_rows(holds, far, middle)
    return far


def _differentiable(task: Task) -> bool:
    """Whether the predictor has a gradient by its input."""
    x = task.space.origin[:1].detach().clone().requires_grad_()
    try:
        with torch.enable_grad():
            return bool(task.prices(x).requires_grad)
    except RuntimeError:
        return False
