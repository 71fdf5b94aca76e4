"""How far an answer's context may be off before the criterion stops holding."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt._batch import where_rows
from cfopt._typing import Array
from cfopt.engine.attack import attack
from cfopt.engine.recall import Recall
from cfopt.engine.rules import TOLERANCE, Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy, Variation
from cfopt.errors import InputError
from cfopt.exact.affine import is_affine
from cfopt.exact.affine_radius import AffineRadius
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.geometry import Euclidean
from cfopt.exact.tree_failure import TreeFailures
from cfopt.pipeline import Pipeline
from cfopt.question.ball import Ball
from cfopt.question.proximity import L2
from cfopt.result.explanation import Explanation
from cfopt.result.radii import Radii, RadiusKind

#: The radii in which exceptions are looked for, and how often the way to one is halved.
_RADII, _HALVINGS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0), 20


def radii(e: Explanation, pipeline: Pipeline) -> Radii:
    """How far each x may be off: the nearest context in which the criterion does not hold.

    The Euclidean distance, in units of the features' scales, any margin apart; which features may
    be off is said in `Ball`. Behind an affine predictor as `AffineRadius` says and behind trees as
    `TreeFailures` does, for a wish of the plan that it comes down to, which is a lower bound. Else
    it is an upper bound: the distance of an exception that was found. Rows without an answer have
    none: NaN.

    Arguments:
        e: the answers.
        pipeline: the one that was explained.
    """
    rows = e.answered.nonzero().flatten()
    with torch.inference_mode(False), torch.no_grad(), pipeline.eval_mode():
        now = pipeline.deployed(e.x[rows]) if len(rows) else e.costs[rows]
    if not torch.allclose(now.to(e.costs), e.costs[rows], rtol=1e-3, atol=1e-6):
        raise InputError(
            "The radius needs the predictor that was explained, which predicts other costs by now. "
            "Explain again."
        )
    return _measured(e, pipeline, all_costs=True) or _nothing(e)


def quick_radii(
    e: Explanation, pipeline: Pipeline, recall: Recall | None = None, deadline: float = math.inf
) -> Radii | None:
    """The same where it takes few solves for all rows together: behind affine predictors.

    Arguments:
        e, pipeline: as for `radii`.
        recall: what the explanation has read off the predictor already, if it is at hand.
        deadline: when the solver is asked no more.
    """
    if e.answered.any() and not is_affine(pipeline.predictor):
        return None
    in_time = Pipeline(pipeline.predictor, pipeline.problem.until(deadline))
    return _measured(e, in_time, all_costs=False, recall=recall)


def _nothing(e: Explanation) -> Radii:
    unknown = torch.full((len(e),), torch.nan, dtype=e.x.dtype, device=e.x.device)
    return Radii(unknown, (str(RadiusKind.UNKNOWN),) * len(e))


def _measured(
    e: Explanation, pipeline: Pipeline, all_costs: bool, recall: Recall | None = None
) -> Radii | None:
    rows = e.answered.nonzero().flatten().cpu()
    if not len(rows):
        return _nothing(e)
    with torch.inference_mode(False), pipeline.eval_mode():
        part = e if len(rows) == len(e) else e[rows]
        found = _of_rows(part, pipeline, all_costs, recall)
    if found is None:
        return None
    lengths, known = found
    length = torch.full((len(e),), torch.nan, dtype=torch.float64)
    length[rows] = torch.from_numpy(lengths)
    kinds = np.full(len(e), str(RadiusKind.UNKNOWN), dtype=object)
    kinds[rows.numpy()] = np.where(np.isnan(lengths), str(RadiusKind.UNKNOWN), known)
    return Radii(length.to(e.x), tuple(kinds.tolist()))


def _of_rows(
    part: Explanation, pipeline: Pipeline, all_costs: bool, recall: Recall | None
) -> tuple[Array, NDArray[Any]] | None:
    """Of rows that are all valid, lengths and kinds; None where that is not quick, and is to be.

    Nothing is known where a length is NaN, whatever its kind.
    """
    problem = pipeline.problem
    size = problem.prices(part.costs_before).abs().amax(1)
    rules = Rules(problem, part.factual, part.criterion, 0.0, size, None, part.x.dtype)
    units = Ball(1.0).units(part.features, part.x[0].numel())
    variation = Variation(OffBy(1.0, L2(), units))
    space = Space(part.x, L2())
    task = Task(rules, space, pipeline.predictor, recall=recall, variation=variation)
    wish = rules.wish is not None
    about = replace(task, rules=rules.about(part.wanted)) if wish else task
    if not AffineTask.refusal(about):
        if not all_costs and not AffineRadius.is_quick(about.rules):
            return None
        model, host = AffineTask(about), about.rules.on_host()
        with torch.no_grad():
            prices = host.turned(pipeline.deployed(part.x).to("cpu", torch.float64)).numpy()
        length, exact = AffineRadius(model, host, prices).measured()
        sure = RadiusKind.AT_LEAST if wish else RadiusKind.EXACT
        return length, np.where(exact, str(sure), str(RadiusKind.AT_LEAST))
    if not all_costs:
        return None
    if TreeFailures.serves(about):
        length, kinds = _by_cells(about, units)
        if wish:
            kinds[kinds == RadiusKind.EXACT] = RadiusKind.AT_LEAST
    else:
        length, kinds = np.zeros(len(part)), np.full(len(part), "", dtype=object)
    unknown = np.flatnonzero(kinds == "")
    if len(unknown):
        rows = torch.from_numpy(unknown)
        rest = replace(task[rows], differentiable=_differentiable(task))
        # By the array: NumPy takes a tensor of one entry for a number.
        length[unknown], kinds[unknown] = _by_attack(rest, part.x[rows], units)
    return length, kinds


def _by_cells(task: Task, units: Array) -> tuple[Array, NDArray[Any]]:
    """The nearest cell of trees that is an exception, or how far it is at least; else no kind."""
    length, kinds = np.zeros(len(task)), np.full(len(task), "", dtype=object)
    rows = list(range(len(task)))
    for radius in (*_RADII, np.inf):
        trees = TreeFailures(task, OffBy(radius, L2(), units))
        found = {row: trees.nearest(row) for row in rows}
        rows = [row for row, one in found.items() if one.bound == np.inf]
        for row, one in found.items():
            length[row] = max(length[row], min(one.bound, radius))
            exact = one.bound == one.distance
            kinds[row] = RadiusKind.EXACT if exact else RadiusKind.AT_LEAST if length[row] else ""
    return length, kinds


def _by_attack(task: Task, x: Tensor, units: Array) -> tuple[Array, NDArray[Any]]:
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
    nearest[nearest == np.inf] = np.nan
    return nearest, np.full(len(x), str(RadiusKind.AT_MOST))


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
