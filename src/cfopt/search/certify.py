"""Proofs for what a search found behind networks or trees, and nearer answers if there are any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch

from cfopt import clock, registry
from cfopt._batch import where_rows
from cfopt.clock import is_over, part_of
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.exact.certificate import Cut
from cfopt.exact.relu import ReluListProof, ReluProof, ReluTask
from cfopt.exact.tree_task import trees_of
from cfopt.exact.verify import verify
from cfopt.problems.solved import same_decision
from cfopt.question.quantifier import Quantifier
from cfopt.search.base import Search, check_whole
from cfopt.search.by_cells import proved_by_cells
from cfopt.search.cases import SETTLED, CaseTree
from cfopt.search.listed_cases import ListedCases
from cfopt.search.tree_cells import TreeCells

#: Rows without an answer are looked at up to a change of one unit in every feature, then so many
#: times as far, until so many units.
_FARTHER, _FARTHEST = 2.0, 1e4
#: Beyond the farthest that is allowed, so that rounding leaves nothing out.
_ALL = 1.0 + 1e-9


def _auto() -> Search:
    from cfopt.search.auto import Auto  # which certifies in its turn

    return Auto()


@registry.searches.register
@dataclass(frozen=True)
class Certify(Search):
    """Another search, whose answers behind a ReLU network or trees are proved, or improved.

    Branch and cut over the neurons that may be on or off within the distance of the answer; each
    case is bounded by a convex relaxation with the network in it, the decisions found by the oracle
    as cuts. Where one decision is enough (epsilon), each of the list has a tree of cases of its
    own. Ended early, the bound holds all the same. Every bound is kept as a tree of cases with
    multipliers, which `explain` evaluates again. Behind trees, `TreeCells` proves what was found.

    Arguments:
        first: the search that finds the first answers; it may take half of the time.
        seconds: for the proofs of all rows together, the search apart; None for no limit. A time
            limit of `explain` ends them as well.
        max_cases: cases of one row after which it ends with the bound that it has; no limit by
            default. Unlike time, it makes answers the same on every machine. Trees have no cases.
    """

    heeds_variation: ClassVar[bool] = True
    first: Search = field(default_factory=_auto)
    seconds: float | None = 60.0
    max_cases: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"Certify needs seconds > 0, or None, got {self.seconds!r}.")
        if self.max_cases is not None:
            check_whole(self, max_cases=1)

    def refusal(self, task: Task) -> str:
        """Needs trees, or a ReLU network, and then a list of decisions if one is to be enough."""
        if trees_of(task.predictor) is not None:
            return TreeCells().refusal(task) or self.first.refusal(task)
        return ReluTask.refusal(task) or self.first.refusal(task)

    def unproved(self) -> Search:
        """The search that finds the first answers."""
        return self.first.unproved()

    def steps(self, task: Task) -> Iterator[Progress]:
        """The search, then its rows one after the other; what is open at the end ends with it."""
        self.check(task)
        step, parts = 0, []
        half = task.until(part_of(task.rules.problem.deadline, 1 / 2))
        for progress in self.first.steps(half):
            step += 1
            if progress.finished is not None:
                parts.append(progress.finished)
            yield Progress(step, len(task), len(task), None, progress.moving)
        points = Points.gather(parts)
        valid = verify(task, points.x).valid.to(points.found.device)
        points = replace(points, found=points.found & valid)
        seconds = np.inf if self.seconds is None else self.seconds
        if trees_of(task.predictor) is not None:
            yield from proved_by_cells(task, points, seconds, step)
            return
        task = task.until(clock.now() + seconds)
        deadline, model = task.rules.problem.deadline, ReluTask(task)
        rest = [row for row in range(len(task)) if not _proved(task, model, points, row)]
        proved = [row for row in range(len(task)) if row not in set(rest)]
        if proved:
            step += 1
            ended = points[torch.tensor(proved, device=points.rows.device)]
            yield Progress(step, len(rest), len(task), ended)
        most = np.inf if self.max_cases is None else self.max_cases
        waiting = [_Row(task, model, points, row, most) for row in rest]
        while waiting:
            left: list[_Row] = []
            for k, row in enumerate(waiting):
                now = clock.now()
                # Half of its share at first, so that hard rows do not use up what others need.
                share = (deadline - now) / (2 * (len(waiting) - k))
                row.run(now + max(share, 0.0))
                step += 1
                over = row.done or is_over(deadline)
                finished = row.finish() if over else None
                left += [] if over else [row]
                yield Progress(step, len(left) + len(waiting) - k - 1, len(task), finished)
            waiting = left


def _proved(task: Task, model: ReluTask, points: Points, row: int) -> bool:
    """Whether the first search leaves nothing to prove."""
    proof = points.certificates[row]
    if not isinstance(proof, ReluProof | ReluListProof):
        return proof is not None
    if proof.infeasible:
        return True
    one = torch.tensor([row])
    loss = float(task.space[one].loss(points.x[one.to(points.x.device)])[0])
    return bool(points.found[row]) and proof.bound(model, row) >= (1 - SETTLED) * loss


class _Row:
    """One row: its first answer, and the tree of cases that proves or improves it."""

    def __init__(self, task: Task, model: ReluTask, points: Points, row: int, most: float) -> None:
        self._cases = most
        self._task, self._model, self._row = task, model, row
        self._points = points[torch.tensor([row], device=points.rows.device)]
        self._solves = self._looks = 0
        self._cuts: list[Cut] = []
        rules = model.rules
        own = bool(same_decision(rules.pivot[row : row + 1], rules.factual[row : row + 1])[0])
        if not (own and rules.margin > 0 and rules.criterion.contrasts):
            self._cuts.append(Cut(rules.factual[row].numpy(), model.quantifier))
        self._reach = model.reach(row)
        first = points.certificates[row]
        #: That of a smaller radius, or of the first search.
        self._proved = first if isinstance(first, ReluProof | ReluListProof) else None
        loss, radius = np.inf, self._length(model.origin.shape[1])
        self._most = _FARTHEST * radius
        if bool(self._points.found[0]):
            loss = float(task.space[torch.tensor([row])].loss(self._points.x)[0])
            radius = self._length(loss) * _ALL
        self._tree = self._case_tree(radius, loss)

    def _case_tree(self, radius: float, loss: float) -> CaseTree | ListedCases:
        radius = min(radius, self._reach * _ALL)
        if self._model.quantifier is Quantifier.SOME:
            return ListedCases(self._task, self._model, self._row, radius, loss, self._cases)
        return CaseTree(self._task, self._model, self._row, self._cuts, radius, loss, self._cases)

    @property
    def done(self) -> bool:
        """Whether nothing more can be proved."""
        tree = self._tree
        far = tree.radius >= min(self._length(tree.loss), self._reach, self._most)
        return tree.done and (tree.full or far)

    def _length(self, loss: float) -> float:
        """The length of changes of a loss."""
        return float(loss ** (1 / self._model.norm.power))

    def run(self, deadline: float) -> None:
        """Go on; where there is no explanation within the radius, look farther."""
        self._tree.run(deadline)
        while self._tree.done and not self.done and not is_over(deadline):
            before = self._tree
            self._proved = before.proof()
            farther = self._length(before.loss) * _ALL
            radius = min(farther, before.radius * _FARTHER)
            self._solves, self._looks = self._solves + before.solves, self._looks + before.looks
            self._tree = self._case_tree(radius, before.loss)
            self._tree.x = before.x if self._tree.x is None else self._tree.x
            self._tree.run(deadline)

    def finish(self) -> Points:
        """The answer, nearer or not, with what is proved."""
        tree, points = self._tree, self._points
        proof = tree.proof()
        if not self.done or tree.loss == np.inf:
            proof = self._claim()
        x, found, method = points.x, points.found, points.methods[0]
        if tree.x is not None:
            x, found = where_rows(torch.ones_like(found), tree.x.to(x), x), torch.ones_like(found)
            method = f"{method}, then branch and cut"
        return replace(
            points,
            x=x,
            found=found,
            steps=points.steps + tree.count,
            solves=points.solves + self._solves + tree.solves,
            passes=points.passes + self._looks + tree.looks,
            notes=("",) if tree.x is not None else points.notes,
            methods=(method,),
            certificates=(proof,),
        )

    def _claim(self) -> ReluProof | ReluListProof:
        """That there is no explanation, or the proof that reaches farthest."""
        proof = self._tree.proof()
        bound = proof.bound(self._model, self._row)
        if bound == np.inf:
            return replace(proof, infeasible=True)
        if self._proved is None or bound >= self._proved.bound(self._model, self._row):
            return proof
        return self._proved
