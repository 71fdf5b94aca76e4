"""Relative explanations of an affine pipeline: the projection on one half-space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from cfopt import registry
from cfopt._typing import Array
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.exact.affine_proof import CutProof
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.certificate import Cut
from cfopt.exact.geometry import Cases, HalfSpaces, Leaf
from cfopt.question.proximity import L2
from cfopt.question.quantifier import Quantifier
from cfopt.search.base import Search
from cfopt.search.cutting_plane import CuttingPlane


@registry.searches.register
@dataclass(frozen=True)
class ClosedForm(Search):
    """The nearest x with `<phi(x), y_alt - y0> <= 0`, for all rows at once and without a solver.

        u = -max(0, v) g / |g|^2,   v = <theta0, d>,   g = V' d,   d = y_alt - y0

    for the Euclidean distance; for L1 the one feature with the largest |g| moves, for LInf all move
    alike. Where few features may change, those of the largest |g| do. Where x has other limits, a
    margin is asked for, or there are several predictors, it is a small quadratic or linear program
    instead.
    """

    counts_changes: ClassVar[bool] = True
    heeds_variation: ClassVar[bool] = True

    def refusal(self, task: Task) -> str:
        """Needs an affine predictor and a criterion about the factual decision alone."""
        reason = AffineTask.refusal(task)
        if not reason and set(task.rules.criterion.multiples) != {Quantifier.GIVEN}:
            return "its criterion involves more than the factual decision; use Auto()"
        return reason

    def steps(self, task: Task) -> Iterator[Progress]:
        """All rows in one step."""
        self.check(task)
        several = task.variation is not None and bool(task.variation.predictors)
        limited = several or task.rules.margin > 0 or not _unlimited(task)
        model = None if limited else AffineTask(task)
        if model is None or not _listed(model):
            for progress in CuttingPlane().steps(task):
                done = progress.finished
                named = done and replace(done, methods=("closed form",) * len(done))
                yield replace(progress, finished=named)
            return
        yield Progress(1, 0, len(task), _project(task, model))


def _unlimited(task: Task) -> bool:
    """Whether nothing limits x but which features may change together."""
    domain = task.space.domain
    if domain is None:
        return True
    free = bool((domain.lower == -torch.inf).all() and (domain.upper == torch.inf).all())
    euclidean = type(task.space.proximity) is L2
    return free and euclidean and not domain.discrete and not len(domain.sums()[0])


def _listed(model: AffineTask) -> bool:
    """Whether the sets of features that may change together are listed, in all rows."""
    supports = (model.support(row) for row in range(len(model)))
    return all(one is None or one.cases is not None for one in supports)


def _project(task: Task, model: AffineTask) -> Points:
    factual = model.rules.factual.numpy()
    cuts = Cut.of_each(factual, Quantifier.GIVEN)
    rows = np.arange(len(factual))
    directions = model.directions_of_each(rows, Quantifier.GIVEN, factual)[:, 0]
    found = model.cut(rows, directions)
    excess = np.where(found.limits < 0, found.rounding - found.limits, 0.0)
    by_case = [_by_case(model, row, found.part(row, row + 1)) for row in range(len(factual))]
    moving = [np.ones(found.normals.shape[1]) if one is None else one[0] for one in by_case]
    normals = found.normals * np.stack(moving)
    norm, steepness = model.norm, model.norm.dual(normals)
    reachable = (excess > 0) & (steepness > 0)
    distance = np.divide(excess, steepness, where=reachable, out=np.zeros_like(excess))
    change = -distance[:, None] * norm.steepest(normals)
    # What the cost grows by where the limit of the half-space, whose normal has length 1, moves.
    length = np.linalg.norm(found.normals, axis=1)
    slope = np.divide(length, steepness, where=reachable, out=np.zeros_like(excess))
    slope *= norm.power * distance ** (norm.power - 1)
    unreachable = np.where(excess > 0, 1.0, 0.0)  # a half-space that nothing can reach
    multipliers = np.where(reachable, slope, unreachable)
    solved = torch.from_numpy(reachable | (excess == 0)).to(task.space.origin.device)
    trees = [
        Leaf(multipliers[row : row + 1]) if one is None or one[1] is None else one[1]
        for row, one in enumerate(by_case)
    ]
    proofs = [CutProof((cut,), tree) for cut, tree in zip(cuts, trees, strict=True)]
    none = torch.zeros(len(task), dtype=torch.long, device=task.space.origin.device)
    return Points(
        rows=task.row_numbers,
        x=model.contexts(list(range(len(task))), change),
        found=solved,
        steps=none + 1,
        solves=none,
        passes=none,
        methods=("closed form",) * len(task),
        certificates=tuple(
            proof if solved[row] else replace(proof, infeasible=proof.bound(model, row) == np.inf)
            for row, proof in enumerate(proofs)
        ),
    )


def _by_case(model: AffineTask, row: int, cut: HalfSpaces) -> tuple[Array, Cases | None] | None:
    """Which entries change, 1 for each, in a row that counts changes, `(p,)`: the best case.

    And multipliers of the half-space for each case, if any is needed: `2 e / |g|^2` with the
    entries of the case, of the half-space whose normal has length 1.
    """
    support = model.support(row)
    if support is None:
        return None
    assert support.cases is not None  # as `_listed` has made sure
    square = np.square(cut.normals[0])
    steepness = support.cases @ square
    moving = support.cases[int(steepness.argmax())]
    if cut.limits[0] >= 0 or not (steepness > 0).all():
        return moving, None
    length = float(np.sqrt(square.sum()))
    return moving, Cases((-2 * cut.limits[0] * length / steepness)[:, None])
