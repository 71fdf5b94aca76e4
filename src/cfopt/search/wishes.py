"""The nearest context that grants a wish of an affine pipeline, with a proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from cfopt import registry
from cfopt._typing import Array
from cfopt.engine.progress import Points, Progress
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.exact.decision_table import DecisionTable
from cfopt.exact.rivals import Rivals
from cfopt.exact.wish_task import WishProof, WishTask
from cfopt.exact.worst_case import WorstCases
from cfopt.problems.solved import Solved
from cfopt.search.base import Search, check_whole
from cfopt.search.cuts import EASE, CutRow
from cfopt.search.cutting_plane import CuttingPlane

#: A rival that wins by more than this fraction of the terms compared is worth a cut.
_WORTH_A_CUT = 1e-10
#: How many slopes, of each plan with each feature, are held in memory.
_NUMBERS = 100_000_000
#: What may be left open, as a fraction of the cost: many plans may share one bound.
_GAP = 1e-9
#: How many rows are handed over at once, which costs little more than one: at least so many, and
#: this fraction of all.
_TOGETHER, _SHARE = 25, 0.25


@registry.searches.register
@dataclass(frozen=True)
class Wishes(Search):
    """Looks at every plan that grants a wish, the most promising first.

    The contexts in which a plan beats a set of rivals form a polyhedron, and the closest
    explanation is the closest point of those of all plans. The half-space in which a plan beats one
    rival bounds its distance from below, for all plans in one matrix product. The plan with the
    least bound is looked at: the nearest point at which it beats all rivals that matter so far
    raises its bound; if it is still the least, the solver is asked for a better decision at that
    point, which becomes a rival of all plans. If there is none, no context is nearer.

    Where answers have to stand up to something, one plan is to beat the rivals in every context and
    under every predictor: its half-spaces shift, and those of all predictors count.

    One round is a batched solve for all rows still running.

    Arguments:
        max_plans: the most plans to list.
        max_rounds: rounds after which a row is given up, with the bound that it has reached.
    """

    heeds_variation: ClassVar[bool] = True
    max_plans: int = 100_000
    max_rounds: int = 10_000
    counts_changes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole(self, max_plans=1, max_rounds=1)

    def refusal(self, task: Task) -> str:
        """Needs an affine predictor, a wish, and a list of the plans that grant it."""
        reason = WishTask.refusal(task)
        if reason:
            return reason
        assert task.rules.wish is not None
        listed = task.rules.wish.plans.decisions(self.max_plans)
        if listed is None:
            return f"the plans that grant the wish are more than {self.max_plans}; use Auto()"
        size = task.space.origin[0].numel()
        if len(listed) * size > _NUMBERS:
            return f"{len(listed)} plans times {size} features are too many; use Auto()"
        return ""

    def steps(self, task: Task) -> Iterator[Progress]:
        """Rounds until every row is settled, or time is up."""
        self.check(task)
        run = _Run(task, self.max_plans)
        for k in range(1, self.max_rounds + 1):
            finished = run.advance(k, last=task.late or k == self.max_rounds)
            yield Progress(k, len(run.rows) + len(run.ended), len(task), finished)
            if not run.rows:
                return


class _Run:
    """The rows still running."""

    def __init__(self, task: Task, limit: int) -> None:
        self._task, self._limit = task, limit
        self._model = WishTask(task)
        table = self._model.plans(limit)
        assert table is not None  # as `refusal` has made sure
        deadline = task.rules.problem.deadline
        self.rows = {row: _Row(self._model, table, row, deadline) for row in range(len(task))}
        self._solves = np.zeros(len(task), dtype=np.int64)
        #: Rows that are done and not yet handed over, with the rounds that they took.
        self.ended: dict[int, tuple[_Row, int]] = {}
        self._together = max(_TOGETHER, round(_SHARE * len(task)))

    def advance(self, k: int, last: bool) -> Points | None:
        """One question to the solver for each row that has one; those without are finished."""
        asked = {row: one.next_plan() for row, one in self.rows.items()}
        asking = [row for row, plan in asked.items() if plan is not None]
        if asking:
            self._ask(asking)
        for row in [row for row in self.rows if last or asked[row] is None]:
            self.ended[row] = self.rows.pop(row), k
        if not self.ended or (self.rows and len(self.ended) < self._together):
            return None
        return self._finish()

    def _ask(self, rows: list[int]) -> None:
        rules = self._model.rules[torch.tensor(rows)]
        rival, holds, good = self._judged(rows)
        bad = rules.problem.audit(rival.decisions.numpy()) if rules.calls_solver else {}
        for i, row in enumerate(rows):
            if i in rival.failures or i in bad:
                self.rows[row].give_up(rival.failures.get(i) or bad[i])
            elif holds[i]:
                self.rows[row].accept()
            else:
                self.rows[row].reject(rival.decisions[i].numpy().copy(), good[i])

    def _judged(self, rows: list[int]) -> tuple[Solved, list[bool], list[bool]]:
        """The worst rivals at the rows' points; whether none wins, but for noise, and enough."""
        model, rules = self._model, self._model.rules[torch.tensor(rows)]
        u = np.stack([self.rows[row].point for row in rows])
        self._solves[rows] += 1 + int(rules.calls_solver)
        if not model.affine.varied:
            prices = model.affine.prices(rows, u)
            rival = rules.rival(prices)
            holds, good = (
                rules.judge(prices, rival.decisions, tolerance, rival.shortfall).holds.tolist()
                for tolerance in (_WORTH_A_CUT, TOLERANCE / 2)
            )
            return rival, holds, good
        plans = model.rules.factual.numpy().copy()
        plans[rows] = [self.rows[row].plan for row in rows]
        about = model.affine.about(plans)
        every = [one.prices(rows, u) for one in about.models]
        worst = WorstCases(about).of(about.rules[torch.tensor(rows)], rows, every)
        return worst.rival, worst.holds(_WORTH_A_CUT).tolist(), worst.holds(TOLERANCE / 2).tolist()

    def _finish(self) -> Points:
        """Hand over the rows that are done."""
        done, ended = list(self.ended), [row for row, _ in self.ended.values()]
        rounds = [k for _, k in self.ended.values()]
        self.ended = {}
        device = self._task.space.origin.device
        rows = torch.tensor(done, dtype=torch.long, device=device)
        proofs = tuple(one.proof(self._limit) for one in ended)
        points = Points(
            rows=rows,
            x=self._model.affine.contexts(done, np.stack([one.u for one in ended])),
            found=torch.tensor([one.cost < np.inf for one in ended], device=device),
            steps=torch.tensor(rounds, dtype=torch.long, device=device),
            solves=torch.from_numpy(self._solves[done]).to(device),
            passes=torch.zeros_like(rows),
            notes=tuple(one.note for one in ended),
            methods=("plan by plan",) * len(done),
            certificates=proofs,
        )
        return self._firm(points, ended)

    def _firm(self, points: Points, ended: list[_Row]) -> Points:
        """Points that do not hold in the contexts' own precision, moved off the boundary."""
        seen = self._task[points.rows].look(points.x)
        blurred = (points.found & ~seen.holds.to(points.found.device)).nonzero().flatten()
        if not len(blurred):
            return points
        plans = np.stack([ended[i].best_plan for i in blurred.tolist()])
        rows = points.rows[blurred]
        rules = self._task.rules[rows].about(torch.from_numpy(plans).to(self._task.rules.factual))
        firm = CuttingPlane().run(replace(self._task[rows], rules=rules))
        x, found = points.x.clone(), points.found.clone()
        x[blurred], found[blurred] = firm.x, firm.found
        return replace(points, x=x, found=found)


class _Row:
    """One row: its plans in the order of their bounds, and the best point so far."""

    def __init__(self, model: WishTask, table: DecisionTable, row: int, deadline: float) -> None:
        self._model, self._table, self._row, self._deadline = model, table, row, deadline
        self._rivals = Rivals(table, row)
        #: Plans with a master of their own, and how many rivals it has met.
        self._branches: dict[int, CutRow] = {}
        self._met: dict[int, int] = {}
        #: The nearest points of the other plans, with multipliers of the first so many rivals.
        self._quick: dict[int, tuple[Array, Array]] = {}
        self._bounds: Array = self._rivals.bounds
        self._plan = -1
        self._best = -1
        self.point: Array = np.zeros(model.affine.origin.shape[1])
        self.u: Array = self.point.copy()
        self.cost = np.inf
        self.note = ""
        factual: Array = model.rules.factual[row].numpy()
        if model.admits(row, factual):
            self._meet(factual)

    @property
    def best_plan(self) -> Array:
        """The plan that the best point is about, `(m,)`."""
        plan: Array = self._table.decisions[self._best]
        return plan

    @property
    def plan(self) -> Array:
        """The plan that the solver is asked about, `(m,)`."""
        plan: Array = self._table.decisions[self._plan]
        return plan

    def next_plan(self) -> int | None:
        """The plan that the solver is to be asked about, at `point`; None if nothing is left."""
        while not self.note:
            plan = int(self._bounds.argmin())
            if self._bounds[plan] == np.inf or self._bounds[plan] >= (1 - _GAP) * self.cost:
                return None
            point = self._nearest(plan)
            if point is None:
                self._close(plan)
            elif self._bounds[plan] <= self._bounds.min():
                self._plan, self.point = plan, point
                return plan
        return None

    def accept(self) -> None:
        """Some plan that grants the wish is good enough at the point."""
        cost = self._model.affine.norm(self.point)
        if cost < self.cost:
            self.u, self.cost, self._best = self.point, cost, self._plan
        self._bounds[self._plan] = max(self._bounds[self._plan], cost)

    def reject(self, rival: Array, good: bool) -> None:
        """A rival is better at the point; by how little, if it has been met before."""
        branch = self._branches.get(self._plan)
        if branch is None:
            if self._rivals.knows(rival):
                self._own_master(self._plan)  # which is more precise
            else:
                self._meet(rival)
            return
        cut = self._model.cut(rival)
        if not branch.knows(cut) and not (good and branch.resembles(cut)):
            self._meet(rival)
        elif good:
            self.accept()
        else:
            self.give_up("a master's answer is not precise enough")

    def give_up(self, why: str) -> None:
        """End with what there is."""
        self.note = why

    def proof(self, limit: int) -> WishProof:
        """What follows from all that was looked at."""
        rivals = np.array(self._rivals.decisions).reshape(-1, self._table.decisions.shape[1])
        # A plan that a single rival puts too far away needs no proof of its own.
        alone = self._rivals.bounds >= (1 - _GAP) * self.cost
        quick = {plan: found[1] for plan, found in self._quick.items() if not alone[plan]}
        looked = {plan: branch for plan, branch in self._branches.items() if not alone[plan]}
        proofs = {plan: branch.proof() for plan, branch in looked.items()}
        proof = WishProof(limit, rivals, quick, proofs)
        nothing = self.cost == np.inf and not self.note
        hopeless = nothing and proof.bound(self._model, self._row) == np.inf
        if nothing and not hopeless:
            self.note = "a master problem could not be solved"
        return replace(proof, infeasible=hopeless)

    def _nearest(self, plan: int) -> Array | None:
        """The nearest point at which a plan beats all rivals so far; its bound rises to that."""
        if plan not in self._branches:
            found = self._rivals.nearest(plan) if self._rivals.simple else None
            if found is not None:
                point, multipliers, bound = found
                self._quick[plan] = point, multipliers
                self._bounds[plan] = max(self._bounds[plan], bound)
                return point
            self._own_master(plan)
        branch, known = self._branches[plan], len(self._rivals.decisions)
        if self._met[plan] < known or known == 0:
            cuts = [self._model.cut(one) for one in self._rivals.decisions[self._met[plan] :]]
            new = [cut for cut in cuts if not branch.knows(cut)]
            if new:
                branch.add_all(new)
            self._met[plan] = known
            branch.solve()
        self._bounds[plan] = max(self._bounds[plan], branch.nearest.bound)
        return branch.nearest.u

    def _own_master(self, plan: int) -> None:
        about = self._model.about(self._table.decisions[plan])
        self._branches[plan], self._met[plan] = CutRow(about, self._row, self._deadline), 0

    def _meet(self, rival: Array) -> None:
        """Reckon with another rival of all plans."""
        self._rivals.meet(rival[None])
        self._bounds = np.maximum(self._bounds, self._rivals.bounds)

    def _close(self, plan: int) -> None:
        """A plan without a point: proved to be hopeless, or asked for less, or left open."""
        branch = self._branches[plan]
        if branch.infeasible:
            self._bounds[plan] = np.inf
        elif branch.clashes and not branch.ease:
            # No more than verification grants stands in the way: ask for no more than that.
            self._branches[plan], self._met[plan] = branch.relaxed(EASE), 0
        elif branch.clashes:
            self._bounds[plan] = np.inf  # of which nothing is claimed
        else:
            self.give_up("time was up, or a master problem could not be solved")
