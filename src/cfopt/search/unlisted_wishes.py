"""Near contexts that grant a wish of an affine pipeline, with a bound, if plans are too many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array
from cfopt.clock import part_of
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.exact.affine_proof import CutProof
from cfopt.exact.far_plans import FarPlans, Reference, farthest, others
from cfopt.exact.geometry import Leaf
from cfopt.exact.wish_task import WishTask
from cfopt.search.base import Search, check_whole
from cfopt.search.cutting_plane import CuttingPlane
from cfopt.search.trust_region import Sequential

#: What may be left open, as a fraction of the cost.
_GAP = 1e-9


@registry.searches.register
@dataclass(frozen=True)
class UnlistedWishes(Search):
    """Looks at one plan after the other, each that which seems to be nearest by now.

    The nearest context in which a plan is best is found by cutting planes. Of all other plans the
    solver finds the one that could be best in a context nearest to x0, by a bound that is linear in
    the plan (`Reference`): it is the next, or proves that no other is nearer. The first plans are
    the one that is best at x0, and the one to which another search comes down.

    Arguments:
        first: the other search; None for none.
        max_plans: how many plans are looked at, at most, for each row.
    """

    counts_changes: ClassVar[bool] = True
    first: Search | None = field(default_factory=Sequential)
    max_plans: int = 8

    def __post_init__(self) -> None:
        check_whole(self, max_plans=1)

    def refusal(self, task: Task) -> str:
        """Needs an affine predictor, a wish, and decisions with bounds."""
        reason = WishTask.refusal(task)
        if reason:
            return reason
        if task.variation is not None or task.rules.margin > 0:
            return "answers have to stand up to something, or win by a margin; use Auto()"
        lower, upper = task.rules.problem.column_bounds()
        if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
            return "decisions have no bounds; use Auto()"
        return ""

    def steps(self, task: Task) -> Iterator[Progress]:
        """Plan by plan for all rows that are still running."""
        self.check(task)
        assert task.rules.wish is not None
        model = WishTask(task)
        rows = [_Row(model, row) for row in range(len(task))]
        every = list(range(len(rows)))
        self._look_best(task, model, rows, model.affine.prices(every, 0 * model.affine.origin))
        if self.first is not None and not self.first.refusal(task):
            found = self.first.run(task.until(part_of(task.rules.problem.deadline, 1 / 2)))
            found = found[found.rows.argsort()]
            with torch.no_grad():
                prices = task.prices(task.space.context(found.x))
            self._look_best(task, model, rows, prices.detach().to("cpu", torch.float64))
        running = list(range(len(rows)))
        for step in range(1, self.max_plans + 1):
            asked = {row: rows[row].next_plan(step < self.max_plans) for row in running}
            done = [row for row, plan in asked.items() if plan is None or task.late]
            running = [row for row in running if row not in done]
            finished = _finished(task, rows, done) if done else None
            yield Progress(step, len(running), len(task), finished)
            if not running:
                return
            self._look(task, {row: asked[row] for row in running}, rows)
        yield Progress(self.max_plans + 1, 0, len(task), _finished(task, rows, running))

    def _look_best(self, task: Task, model: WishTask, rows: list[_Row], prices: Tensor) -> None:
        """Look at the plans that are best at some prices, `(B, m)`."""
        plans = model.wish.best(task.rules.problem, prices).decisions.numpy()
        self._look(task, dict(enumerate(plans)), rows)

    def _look(self, task: Task, plans: Mapping[int, Array | None], rows: list[_Row]) -> None:
        """Find the nearest contexts in which plans are best, one for each row."""
        new = {
            row: plan
            for row, plan in plans.items()
            if plan is not None and np.isfinite(plan).all() and not rows[row].knows(plan)
        }
        if not new:
            return
        some = torch.tensor(list(new), device=task.space.origin.device)
        about = torch.from_numpy(np.stack(list(new.values()))).to(task.rules.factual)
        part = replace(task[some], rules=task.rules[some].about(about))
        points = CuttingPlane().run(part)
        for k, row in enumerate(points.rows.tolist()):
            one, its_own = (torch.tensor([at], device=some.device) for at in (k, row))
            rows[int(some[row])].learn(points[one], part[its_own])


class _Row:
    """One row: the plans that were looked at, and the nearest answer so far."""

    def __init__(self, model: WishTask, row: int) -> None:
        self._model, self._row = model, row
        self._factual: Array = model.rules.factual[row].numpy()
        self._looked: list[tuple[Array, CutProof]] = []
        self._reference = Reference(self._factual[None], np.ones(1), self._factual)
        self._length = 0.0
        self.best: Points | None = None
        self.cost = np.inf
        self.looked = self.solves = 0

    def knows(self, plan: Array) -> bool:
        """Whether a plan was looked at."""
        return any(np.array_equal(plan, known) for known, _ in self._looked)

    def learn(self, points: Points, task: Task) -> None:
        """Take what cutting planes found of a plan, for this row alone."""
        self.looked += 1
        self.solves += int(points.solves.sum())
        proof, plan = points.certificates[0], task.rules.on_host().pivot[0].numpy()
        if isinstance(proof, CutProof):
            self._looked.append((plan, proof))
        cost = float(task.space.loss(points.x)[0])
        if self.best is None or (bool(points.found[0]) and cost < self.cost):
            self.best, self.cost = points, cost if bool(points.found[0]) else np.inf
            if isinstance(proof, CutProof) and proof.cuts and isinstance(proof.tree, Leaf):
                self._reference = self._comparing(plan, proof, proof.tree.multipliers)

    def next_plan(self, more: bool) -> Array | None:
        """The plan to look at next; None if no other is nearer, or that cannot be said."""
        looked = [plan for plan, _ in self._looked] if self._model.rules.problem.binary else []
        try:
            plans = others(self._model, looked)
        except InputError:
            return None
        if plans is None:
            self._length = np.inf
            return None
        plain = Reference(self._factual[None], np.ones(1), self._factual)
        centered = replace(plain, center=self._reference.center)
        tried = [
            (*farthest(self._model, self._row, one, plans), one)
            for one in (self._reference, centered, plain)
        ]
        self._length, plan, self._reference = max(tried, key=lambda found: found[0])
        self._looked = self._looked if self._model.rules.problem.binary else []
        near = self._length**self._model.affine.norm.power
        return None if near >= (1 - _GAP) * self.cost or not more else plan

    def proof(self) -> FarPlans:
        """What is proved about all plans."""
        return FarPlans(tuple(self._looked), self._reference, self._length)

    def _comparing(self, plan: Array, proof: CutProof, multipliers: Array) -> Reference:
        """With the decisions that hold a plan back, as much as each of them does."""
        rivals, own = np.stack(proof.decisions()), self._model.about(plan)
        normals = np.linalg.norm((plan - rivals) @ own.slopes, axis=1)
        used = multipliers[len(multipliers) - len(rivals) :]
        weights = np.divide(used, normals, where=normals > 0, out=np.zeros_like(normals))
        weights = np.maximum(weights, 0.0)
        if not weights.sum() > 0:
            return Reference(self._factual[None], np.ones(1), plan)
        return Reference(rivals, weights, plan)


def _finished(task: Task, rows: list[_Row], done: list[int]) -> Points:
    """The nearest answers of rows that are done, and what is proved about them."""
    ended, device = [rows[row] for row in done], task.space.origin.device
    numbers = torch.tensor(done, dtype=torch.long, device=device)
    # Where not even one plan could be looked at, there is no better place than where it began.
    x = [
        task.space.origin[row] if one.best is None else one.best.x[0]
        for row, one in zip(done, ended, strict=True)
    ]
    return Points(
        rows=numbers,
        x=torch.stack(x),
        found=torch.tensor([one.cost < np.inf for one in ended], device=device),
        steps=torch.tensor([one.looked for one in ended], device=device),
        solves=torch.tensor([one.solves for one in ended], device=device),
        passes=torch.zeros_like(numbers),
        methods=("plan by plan, as they are found",) * len(done),
        certificates=tuple(one.proof() for one in ended),
    )
