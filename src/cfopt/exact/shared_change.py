"""One change for many rows: the nearest after which a criterion holds in enough of them.

Prices of an affine predictor move by the same `V u` in every row, so that the cuts of all rows are
half-spaces of one u: cutting planes find the nearest u that meets those of some rows. Which rows
are met, where not all need be, is found by branch and bound: a row is required, or it is not.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.geometry import Grid, HalfSpaces, Master, System
from cfopt.problems.solved import same_decision
from cfopt.question.quantifier import Quantifier

#: Truth values.
Truths: TypeAlias = NDArray[np.bool_]
#: A decision is worth a cut if it beats the plan by more than this fraction of its terms.
_WORTH_A_CUT = 1e-10
#: Rounds of cuts for one set of rows, at most.
_ROUNDS = 1000
#: A change is the nearest if nothing can be nearer by more than this fraction.
_SAME = 1e-6


@dataclass(frozen=True)
class SharedChange:
    """A change u of all rows, and what is proved of it.

    Arguments:
        u: the change in units of the features' scales, `(p,)`; None if none was found.
        cost: what it costs; inf if none was found.
        bound: what every change costs at least after which enough rows hold; inf if there is none.
        nodes: how many sets of rows were looked at.
    """

    u: Array | None
    cost: float
    bound: float
    nodes: int

    @property
    def optimal(self) -> bool:
        """Whether it was proved that no nearer one is enough."""
        return self.u is not None and self.cost - self.bound <= _SAME * max(self.cost, 1e-12)


class SharedTask:
    """The cuts of all rows in terms of one change.

    Arguments:
        task: a task that `refusal` accepts.
        free: which entries of a context may change, `(p,)`.
        needed: the number of rows in which the criterion has to hold.
        ease: the fraction of its terms at x0 by which a cut may be broken; below 0, by which it has
            to be overfulfilled.
    """

    def __init__(self, task: Task, free: Truths, needed: int, ease: float = 0.0) -> None:
        self.model = AffineTask(task)
        self.needed, self._ease, self.deadline = needed, ease, task.rules.problem.deadline
        self._rows = list(range(len(self.model)))
        self._system = common_system(self.model, free)
        self._grid = _common_grid(self.model)
        self._cuts: dict[int, list[HalfSpaces]] = {row: [] for row in self._rows}
        self._known: set[tuple[int, bytes]] = set()
        self.kind = Quantifier.EVERY if self.model.multiples(Quantifier.EVERY) else Quantifier.GIVEN
        rules = self.model.rules
        factual = rules.factual.numpy()
        # With a margin, what the alternative must beat are the other decisions only.
        own = same_decision(rules.pivot, rules.factual).numpy()
        skipped = own & (rules.margin > 0) & rules.criterion.contrasts
        for row in self._rows:
            if not skipped[row]:
                self._add(row, factual[row])

    @staticmethod
    def refusal(task: Task) -> str:
        """Why a task cannot be treated exactly, or ""."""
        reason = AffineTask.refusal(task)
        if reason or task.variation is not None:
            return reason or "answers have to stand up to something"
        if Quantifier.SOME in task.rules.criterion.multiples:
            return "its criterion asks for some decision, not for every one"
        domain = task.space.domain
        if domain is not None and domain.counted:
            return "the number of changes is limited"
        return ""

    def solve(self, most_nodes: int) -> SharedChange:
        """The nearest change after which enough rows hold.

        Arguments:
            most_nodes: how many sets of rows are looked at, at most.
        """
        if self.needed == len(self._rows):
            found = self._nearest(self._rows)
            return SharedChange(found.u, found.cost, found.bound, 1)
        return _Branching(self, most_nodes).run()

    def _add(self, row: int, decision: Array) -> bool:
        """Keep the cut of a decision; whether it is new."""
        key = (row, (decision + 0.0).tobytes())
        if key in self._known:
            return False
        self._known.add(key)
        directions = self.model.directions(row, self.kind, decision[None])
        self._cuts[row].append(self.model.cut(row, directions, self._ease))
        return True

    def _nearest(self, rows: Iterable[int]) -> _Found:
        """The nearest change after which all of some rows hold."""
        wanted = sorted(rows)
        for _ in range(_ROUNDS):
            system = self._system
            parts = [cut for row in wanted for cut in self._cuts[row]]
            if parts:
                system = system.with_cuts(HalfSpaces.joined(parts))
            nearest = Master(system, self.model.norm, self._grid, self.deadline).solve()
            if nearest.u is None or is_over(self.deadline):
                return _Found(None, np.inf, nearest.bound, np.zeros(len(self._rows), dtype=bool))
            holds, firm, decisions = self._judge(nearest.u)
            # Cuts of rows that are not required are kept for later.
            broken = np.flatnonzero(~firm & np.isfinite(decisions).all(axis=1)).tolist()
            new = {row for row in broken if self._add(row, decisions[row])}
            if not new.intersection(wanted):
                cost = float(self.model.norm(nearest.u))
                return _Found(nearest.u, cost, nearest.bound, holds)
        return _Found(None, np.inf, nearest.bound, holds)

    def _judge(self, u: Array) -> tuple[Truths, Truths, Array]:
        """In which rows the criterion holds after a change, in which to the last digits.

        And the decisions that it is measured against, `(B, m)`.
        """
        model, rules = self.model, self.model.rules
        prices = model.prices(self._rows, np.broadcast_to(u, model.origin.shape))
        rival = rules.rival(prices)
        holds, firm = (
            rules.judge(prices, rival.decisions, tolerance).holds.numpy().copy()
            for tolerance in (TOLERANCE / 2, _WORTH_A_CUT)
        )
        holds[list(rival.failures)] = firm[list(rival.failures)] = False
        return holds, firm, rival.decisions.numpy()


@dataclass(frozen=True)
class _Found:
    """The nearest change for some rows, its cost and bound, and in which rows it holds."""

    u: Array | None
    cost: float
    bound: float
    holds: Truths


class _Branching:
    """Which rows are met: the set with the lowest bound is divided next."""

    def __init__(self, task: SharedTask, most_nodes: int) -> None:
        self.task, self.most = task, most_nodes
        self.rows = range(len(task.model))
        self.needed = task.needed
        self.best: Array | None = None
        self.cost = np.inf
        self.nodes, self._order = 0, count()
        self._left = np.inf  # the least bound of what could not be decided
        # What each row costs alone: what enough of them cost together is no less.
        self.own = np.array([task._nearest([row]).bound for row in self.rows])

    def run(self) -> SharedChange:
        self._greedy()
        queue: list[tuple[float, int, frozenset[int], frozenset[int]]] = []
        self._push(queue, 0.0, frozenset(), frozenset())
        bound = np.inf
        while queue:
            low, _, required, dropped = queue[0]
            if low >= self.cost * (1 - _SAME) or self._late():
                bound = low
                break
            heapq.heappop(queue)
            self._divide(queue, required, dropped)
        return SharedChange(self.best, self.cost, min(bound, self._left, self.cost), self.nodes)

    def _late(self) -> bool:
        return self.nodes >= self.most or is_over(self.task.deadline)

    def _divide(
        self,
        queue: list[tuple[float, int, frozenset[int], frozenset[int]]],
        required: frozenset[int],
        dropped: frozenset[int],
    ) -> None:
        left = [row for row in self.rows if row not in dropped]
        if len(left) == self.needed:
            required = frozenset(left)
        found = self._look(required)
        if found.bound >= self.cost * (1 - _SAME):
            return
        if int(found.holds.sum()) >= self.needed:
            return  # kept as the best so far: nothing in this set is nearer
        broken = [row for row in left if row not in required and not found.holds[row]]
        if found.u is None or not broken:
            self._left = min(self._left, found.bound)  # time is up, or a solve has failed
            return
        row = min(broken, key=lambda one: (self.own[one], one))
        self._push(queue, found.bound, required | {row}, dropped)
        self._push(queue, found.bound, required, dropped | {row})

    def _push(
        self,
        queue: list[tuple[float, int, frozenset[int], frozenset[int]]],
        low: float,
        required: frozenset[int],
        dropped: frozenset[int],
    ) -> None:
        left = np.sort([self.own[row] for row in self.rows if row not in dropped])
        if len(left) < self.needed:
            return
        low = max(
            low, float(left[self.needed - 1]), *(float(self.own[row]) for row in required), 0.0
        )
        if np.isfinite(low):
            heapq.heappush(queue, (low, next(self._order), required, dropped))

    def _look(self, rows: Iterable[int]) -> _Found:
        """The nearest change for some rows, which may be enough for others, too."""
        self.nodes += 1
        found = self.task._nearest(rows)
        if found.u is not None and int(found.holds.sum()) >= self.needed and found.cost < self.cost:
            self.best, self.cost = found.u, found.cost
        return found

    def _greedy(self) -> None:
        """A first answer: the rows that are cheapest alone, and those that are broken least."""
        order = np.argsort(self.own, kind="stable")
        if np.isfinite(self.own[order[self.needed - 1]]):
            self._look(order[: self.needed].tolist())
        required: set[int] = set()
        while not self._late():
            found = self._look(required)
            if found.u is None or int(found.holds.sum()) >= self.needed:
                return
            broken = [row for row in self.rows if row not in required and not found.holds[row]]
            broken = [row for row in broken if np.isfinite(self.own[row])]
            if not broken:
                return
            required.add(min(broken, key=lambda one: (self.own[one], one)))


def common_system(model: AffineTask, free: Truths) -> System:
    """What a change may be that is allowed in every row, of some features alone."""
    systems = [model.system(row) for row in range(len(model))]
    lower = np.max([one.lower for one in systems], axis=0)
    upper = np.min([one.upper for one in systems], axis=0)
    common = System.box(np.where(free, lower, 0.0), np.where(free, upper, 0.0))
    first = systems[0]
    if len(first.matrix):
        least = np.max([one.rows[0] for one in systems], axis=0)
        most = np.min([one.rows[1] for one in systems], axis=0)
        common = common.with_rows(first.matrix, least, most)
    return common


def _common_grid(model: AffineTask) -> Grid | None:
    """Whole numbers stay whole: those of the first row stand for all."""
    return model.grid(0)
