"""The nearest epsilon explanation of an affine pipeline whose decisions can be listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from cfopt import registry
from cfopt._typing import Array
from cfopt.clock import is_over, part_of
from cfopt.engine.progress import Points, Progress
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.exact.affine_proof import AffineProof, CutProof, ListProof
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.certificate import Cut
from cfopt.exact.geometry import Euclidean
from cfopt.exact.scenario_proof import ScenarioProof
from cfopt.exact.worst_case import WorstCases
from cfopt.question.quantifier import Quantifier
from cfopt.search.base import Search, check_whole
from cfopt.search.cuts import INSIDE, CutRow
from cfopt.search.scenario_tree import ScenarioTree

#: A decision whose inequality is broken by more than this fraction of its size is worth a cut.
_WORTH_A_CUT = 1e-10
#: How many slopes, of each decision with each feature, are held in memory.
_NUMBERS = 100_000_000
#: What may be left open, as a fraction of the cost: many decisions may share one bound.
_GAP = 1e-9
#: How many rows are handed over at once, which costs little more than one.
_TOGETHER = 25
_UNSOLVED = "a master problem could not be solved"
#: What may be left open where decisions may take turns, of which so many are tried alone.
_LEFT, _ALONE = 5e-7, 3
#: What fraction of the time their cases may take: the check of their proof takes less than that.
_PART = 0.6


@registry.searches.register
@dataclass(frozen=True)
class Enumeration(Search):
    """Looks at every decision that could topple the plan, the most promising first.

    Where the criterion asks for some decision y, the contexts that y makes valid form a polyhedron
    P_y, and the closest explanation is the closest point of all of them. Half-spaces of P_y bound
    its distance from below, for all decisions in one matrix product; P_y itself is looked at only
    while its bound is below the best point found. What every decision must meet as well (epsilon
    above 1) is added to P_y by cutting planes.

    Where answers have to stand up to something, one decision y is to do in every context and under
    every predictor: P_y shrinks. No answer is nearer than the nearest of the plain task, and the
    length by which contexts may be off comes on top (`ListProof`), which often proves it. Otherwise
    one for which decisions take turns may be nearer: these are looked for, or excluded, scenario by
    scenario (`ScenarioTree`).

    Arguments:
        max_decisions: the most decisions to list.
    """

    heeds_variation: ClassVar[bool] = True
    max_decisions: int = 100_000
    counts_changes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole(self, max_decisions=1)

    def refusal(self, task: Task) -> str:
        """Needs an affine predictor, a criterion about some decision, and a list of them."""
        reason = AffineTask.refusal(task)
        if reason:
            return reason
        if Quantifier.SOME not in task.rules.criterion.multiples:
            return "its criterion asks for every decision; use CuttingPlane() or Auto()"
        problem = task.rules.problem
        listed = problem.decisions(self.max_decisions)
        if listed is None:
            return (
                f"the decisions of {type(problem).__name__} are more than {self.max_decisions} or "
                "cannot be listed; use Sequential(), MDMM() or Auto()"
            )
        size = task.space.origin[0].numel()
        if len(listed) * size > _NUMBERS:
            return f"{len(listed)} decisions times {size} features are too many; use MDMM()"
        return ""

    def steps(self, task: Task) -> Iterator[Progress]:
        """One row after the other, some of which are handed over together."""
        self.check(task)
        model = AffineTask(task)
        worst = WorstCases(model) if model.varied else None
        deadline, total = task.rules.problem.deadline, len(task)
        for start in range(0, total, _TOGETHER):
            numbers = range(start, min(start + _TOGETHER, total))
            rows = [_Row(model, worst, row, self.max_decisions) for row in numbers]
            _Row.try_alone(rows)
            done = []
            for one in rows[:-1]:
                done.append(one.run(deadline))
                yield Progress(one.row + 1, total - start, total)
            done.append(rows[-1].run(deadline))
            yield Progress(numbers.stop, total - numbers.stop, total, Points.gather(done))


class _Row:
    """One row: its decisions in the order of their bounds, and the best point so far."""

    def __init__(self, model: AffineTask, worst: WorstCases | None, row: int, limit: int) -> None:
        table = model.decision_table(limit)
        assert table is not None  # as `refusal` has made sure
        self.model, self.row, self.limit, self.table = model, row, limit, table
        self.worst = worst
        self.u: Array = np.zeros(model.origin.shape[1])
        self.cost = np.inf
        self.deadline = np.inf
        self.looked = 0
        #: What each decision costs at least, `(D,)`.
        self.bounds: Array = np.zeros(len(table))
        #: Decisions whose own masters were solved.
        self.branches: dict[int, CutRow] = {}
        #: Whether the most promising decisions were tried alone, each for the whole ball.
        self.tried = False

    @staticmethod
    def try_alone(rows: Sequence[_Row]) -> None:
        """Take in each row the nearest change for which one of a few decisions is enough alone.

        In closed form, for all rows of one task at once: where a decision has two half-spaces at
        the most, nothing else limits a change, and decisions may take turns.
        """
        model, decisions = rows[0].model, rows[0].table.decisions
        simple = model.only_farther and isinstance(model.norm, Euclidean)
        if not simple or model.rules.passed_over or model.multiples(Quantifier.EVERY):
            return
        for row in rows:
            row.bounds = row._least()
        bounds = np.stack([row.bounds for row in rows])
        some = bounds.argsort(axis=1, kind="stable")[:, :_ALONE]  # (R, K)
        numbers = np.repeat([row.row for row in rows], some.shape[1])
        found = model.directions_of_each(numbers, Quantifier.SOME, decisions[some.ravel()])
        count = found.shape[1]
        if count > 2:
            return
        cuts = model.cut(numbers.repeat(count), found.reshape(-1, found.shape[2]))
        which = np.arange(len(numbers)) * count + np.array([[0], [count - 1]])  # (2, R K)
        limits, normals = (cuts.limits - cuts.rounding)[which], cuts.normals[which]
        cost, weights = model.norm.to_both(-limits, normals, np.ones((1, normals.shape[2])))
        changes = -(weights * normals).sum(axis=0)
        kept = ((normals * changes).sum(axis=2) <= limits + cuts.rounding[which]).all(axis=0)
        # Others are never enough alone, or have half-spaces that are nearly parallel.
        costs = np.where(kept, cost[:, 0], np.inf).reshape(some.shape)
        costs[np.take_along_axis(bounds, some, axis=1) == np.inf] = np.inf
        for row, own, each in zip(rows, costs, changes.reshape(*some.shape, -1), strict=True):
            best = int(own.argmin())
            row.tried = bool(own[best] < np.inf)
            if row.tried:
                row.looked = len(own)
                row.u, row.cost = each[best], model.norm(each[best])

    def run(self, deadline: float) -> Points:
        """The closest point of all polyhedra, or the best until the deadline."""
        self.deadline = deadline
        if self.tried:
            return self._in_all_scenarios(ListProof(self.limit, None, {}))
        # Where decisions take turns, what clashes for one of them is no part of the proof.
        why = bool(self.model.multiples(Quantifier.EVERY)) or not self._takes_turns
        root = CutRow(self.model, self.row, deadline, why=why)
        if self.model.multiples(Quantifier.EVERY):
            change = self._meet_every(root)
            if change is None:
                return self._points(root.proof(), "" if root.infeasible else _UNSOLVED)
            if not len(self.model.passed_over(self.row)) and self._holds(change):
                # Valid, and no change that meets what every decision must is smaller.
                self.u, self.cost = change, self.model.norm(change)
                return self._points(root.proof(), "")
        late = self._look(root, deadline)
        every = root.proof() if self.model.multiples(Quantifier.EVERY) else None
        proof = ListProof(self.limit, every, {} if self.model.varied else self._proofs())
        if self._takes_turns and not late:
            return self._in_all_scenarios(proof)
        nothing = self.cost == np.inf and not late
        infeasible = nothing and proof.bound(self.model, self.row) == np.inf
        note = "time was up" if late else _UNSOLVED if nothing and not infeasible else ""
        return self._points(replace(proof, infeasible=infeasible), note)

    @property
    def _takes_turns(self) -> bool:
        """Whether one decision may be enough here, and another there."""
        return self.model.varied and not len(self.model.passed_over(self.row))

    def _in_all_scenarios(self, plain: ListProof) -> Points:
        """The same where decisions may take turns, unless that is not needed."""
        enough, only_farther = (1 - _LEFT) * self.cost, self.model.only_farther
        proved = only_farther and self.bounds.min() >= enough
        # Without a root, the plain proof says of these bounds what they say themselves.
        if not proved and not (only_farther and plain.root is None):
            proved = plain.bound(self.model, self.row) >= enough
        if proved:
            return self._points(plain, "")
        where = self.model, self.row, self.table
        end = part_of(self.deadline, _PART)
        cases = ScenarioTree(*where, self.u, self.cost, end)
        cases.run()
        self.u, self.cost, self.looked = cases.u, cases.cost, self.looked + cases.looked
        nothing = self.cost == np.inf
        alone = cases.complete and self.model.exact_decisions and not nothing
        proof = ScenarioProof(self.limit, cases.part, None if alone else plain)
        infeasible = nothing and proof.bound(self.model, self.row) == np.inf
        note = "time was up" if cases.late else _UNSOLVED if nothing and not infeasible else ""
        return self._points(replace(proof, infeasible=infeasible), note)

    def _proofs(self) -> dict[int, CutProof]:
        """Those of decisions that their half-spaces alone do not put far enough."""
        far = self.bounds >= (1 - _GAP) * self.cost
        return {k: branch.proof() for k, branch in self.branches.items() if not far[k]}

    def _look(self, root: CutRow, deadline: float) -> bool:
        """Look at decisions while they may be nearer; return whether time was up."""
        self.bounds = bounds = self._least()
        order = bounds.argsort(kind="stable").tolist()
        if self._takes_turns:
            order = order[:_ALONE]
        for k in order:
            if bounds[k] == np.inf or bounds[k] >= (1 - _GAP) * self.cost:
                return False
            if is_over(deadline):
                return True
            branch = root.branch()
            branch.add(Cut(self.table.decisions[k], Quantifier.SOME))
            self.looked += 1
            change = self._as_near(branch, k, float(bounds[k]))
            if change is None:
                change = self._meet_every(branch)
                self.branches[k] = branch
            change = None if change is None else self._inside(branch, change)
            if change is not None and self.model.norm(change) < self.cost:
                self.u, self.cost = change, self.model.norm(change)
        return False

    def _least(self) -> Array:
        """What each decision costs at least if it is to be enough, `(D,)`."""
        if not self.model.only_farther:
            return self.table.bounds(self.row)
        # As they are for the plain proof, which is to follow from them.
        plain = self.model.nominal.decision_table(self.limit)
        assert plain is not None
        return self.model.farther(plain.bounds(self.row))

    def _as_near(self, branch: CutRow, k: int, bound: float) -> Array | None:
        """A change that is as near as a decision's bound, which then proves it; or None."""
        held = self.table.promising(self.row, k)
        if not held or self.model.multiples(Quantifier.EVERY):
            return None
        change = branch.holding(held)
        near = change is not None and bound >= (1 - _GAP) * self.model.norm(change)
        return change if near else None

    def _meet_every(self, cuts: CutRow) -> Array | None:
        """The nearest change that meets the cuts and what every decision must."""
        while True:
            change = cuts.solve()
            if change is None:
                return None
            worst = self.table.most_violated(self.row, change, _WORTH_A_CUT)
            if worst is None:
                return change
            cut = Cut(self.table.decisions[worst], Quantifier.EVERY)
            if cuts.knows(cut):
                return change
            if is_over(self.deadline):
                return None
            cuts.add(cut)

    def _inside(self, cuts: CutRow, change: Array) -> Array | None:
        """The change, or the nearest off the boundary, if only there the factual is beaten."""
        for distance in INSIDE:
            found = cuts.relaxed(-distance).solve() if distance else change
            if found is not None and self.table.unseats(self.row, found):
                return found
        return None

    def _holds(self, change: Array) -> bool:
        """Whether the whole criterion holds after a change."""
        rules = self.model.rules[torch.tensor([self.row])]
        if self.worst is not None:
            everywhere = [one.prices([self.row], change[None]) for one in self.model.models]
            return bool(self.worst.of(rules, [self.row], everywhere).holds(TOLERANCE / 2))
        prices = self.model.prices([self.row], change[None])
        return bool(rules.judge(prices, rules.optimum(prices).decisions, TOLERANCE / 2).holds)

    def _points(self, proof: AffineProof, note: str) -> Points:
        device = self.model.space.origin.device
        looked = torch.tensor([max(1, self.looked)], device=device)
        return Points(
            rows=torch.tensor([self.row], device=device),
            x=self.model.contexts([self.row], self.u[None]),
            found=torch.tensor([self.cost < np.inf], device=device),
            steps=looked,
            solves=torch.zeros_like(looked),
            passes=torch.zeros_like(looked),
            notes=(note,),
            methods=("enumeration",),
            certificates=(proof,),
        )
