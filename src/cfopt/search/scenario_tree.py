"""The nearest answer for which some decision is enough in every context of a ball."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass

import numpy as np

from cfopt._typing import Array
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.decision_table import DecisionTable
from cfopt.exact.geometry import HalfSpaces, Master, System
from cfopt.exact.scenario import Mixture, SomeDecision
from cfopt.exact.scenario_proof import Asked, Part, Path, ScenarioSystems, Settled

#: What may be left open, as a fraction of the cost.
_GAP = 9e-7
#: An inequality that is broken by more than this fraction of its size is broken.
_BROKEN = 1e-10
#: The most cases that are looked at, and how often a mixture is exchanged for a better one.
_CASES, _ROUNDS = 2000, 3
#: Slopes that are not across the change, as a fraction of the largest, count as this much.
_ACROSS = 1e-3


@dataclass
class _Case:
    """Answers for which known decisions are enough in some scenarios.

    Arguments:
        path: which, and where.
        cuts: the half-spaces that follow.
        home: where what is proved of it is kept, and under which number.
        solved: the nearest of these answers, what proves it, and the system of which it is.
    """

    path: Path
    cuts: HalfSpaces
    home: tuple[dict[int, Part], int]
    solved: tuple[Array, Settled, System] | None = None

    def keep(self, part: Part) -> None:
        home, number = self.home
        home[number] = part


class ScenarioTree:
    """Best-first over which decision is enough in which scenario.

    What is not explained, for one inequality `a y + e` and one predictor, is a convex set N: where
    no decision meets it. Answers keep the length r away from N. Where an answer does not, a context
    of its ball lies in N: that scenario is asked which decision is to be enough in it, and each
    one makes a case with a half-space more, in which the answer does not lie. Of scenarios that of
    the context which lies deepest in N is asked, as the cases see it: by how far they would have to
    move across the way to x0.

    A case whose nearest answer keeps away from N is settled. Elsewhere mixtures of decisions make
    half-spaces that lie at least r away from N, and in them answers.

    Arguments:
        model: the task.
        row: the number of the row.
        table: every decision.
        u, cost: the best answer so far; inf if there is none.
        deadline: when to stop, by `time.monotonic`.

    Attributes:
        part: the proof, once it has run.
        late: whether it was stopped.
        looked: how many cases it has looked at.
    """

    def __init__(
        self,
        model: AffineTask,
        row: int,
        table: DecisionTable,
        u: Array,
        cost: float,
        deadline: float,
    ) -> None:
        self._model, self._row, self._table, self._deadline = model, row, table, deadline
        self.u, self.cost = u, cost
        self._systems = ScenarioSystems(model, row, table.decisions)
        self._inequalities = SomeDecision.every(model, row, table.decisions)
        self._heap: list[tuple[float, int, _Case]] = []
        self._parts: dict[int, Part] = {}
        self._pushed = self.looked = 0
        self.late = False

    @property
    def part(self) -> Part:
        """What was proved."""
        return self._parts[0]

    def run(self) -> None:
        """Look at cases while they may hold nearer answers."""
        self._push(0.0, _Case((), self._systems.common, (self._parts, 0)))
        while self._heap:
            bound, _, case = heapq.heappop(self._heap)
            if bound >= self._enough:
                return
            if self.looked >= _CASES or time.monotonic() > self._deadline:
                self.late = True
                if case.home[1] not in case.home[0] and not case.path:
                    self._solve(case)
                return
            if case.solved is None:
                bound = self._solve(case)
                if case.solved is None or bound >= self._enough:
                    continue
                if self._heap and bound > self._heap[0][0]:
                    self._push(bound, case)
                    continue
            self._divide(case, bound)

    @property
    def _enough(self) -> float:
        return (1 - _GAP) * self.cost

    def _push(self, bound: float, case: _Case) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (bound, self._pushed, case))

    def _solve(self, case: _Case) -> float:
        """The nearest answer of a case, if any; return what every one of them costs at least."""
        self.looked += 1
        found = self._nearest(case.cuts)
        case.keep(found[1])
        if found[0] is not None:
            case.solved = found[0], found[1], found[2]
        return found[3]

    def _nearest(self, cuts: HalfSpaces) -> tuple[Array | None, Settled, System, float]:
        """The nearest change that meets cuts and what every decision must."""
        model, row, every = self._model, self._row, list[int]()
        decisions = self._table.decisions
        master = Master(
            self._systems.system(cuts, decisions[:0]), model.norm, model.grid(row), self._deadline
        )
        while True:
            nearest = master.solve()
            worst = None
            if nearest.u is not None:
                worst = self._table.most_violated(row, nearest.u, _BROKEN)
            if worst is None or worst in every or time.monotonic() > self._deadline:
                settled = Settled(nearest.tree, decisions[every])
                return nearest.u, settled, master.system, nearest.bound
            every.append(worst)
            master.add(self._systems.of_every(decisions[worst][None]))

    def _divide(self, case: _Case, bound: float) -> None:
        """Ask the worst scenario of a case's nearest answer, unless that one is an answer."""
        assert case.solved is not None
        u, settled, system = case.solved
        broken = self._broken(u, u)
        if not broken:
            self._take(u)
            return
        self._improve(broken, u)
        if bound >= self._enough:
            return
        scenario = max(broken, key=lambda one: one.depth).scenario
        asked = Asked(settled, scenario)
        case.keep(asked)
        bounds, cuts = self._systems.bounds(system, settled.tree, bound, scenario)
        for k in np.flatnonzero(bounds < self._enough).tolist():
            joined = HalfSpaces.joined([case.cuts, cuts[k : k + 1]])
            further = _Case((*case.path, (scenario, k)), joined, (asked.further, k))
            self._push(float(bounds[k]), further)

    def _broken(self, u: Array, way: Array) -> list[Mixture]:
        """The worst of each inequality that no mixture meets in the whole ball after a change."""
        found = []
        for one in self._inequalities:
            own = self._model.models[one.numbers[0]]
            prices = own.prices([self._row], u[None])[0].numpy()
            worst = one.worst(prices, one.across(way, _ACROSS))
            size = float(np.abs(worst.direction) @ np.abs(prices))
            if worst.excess > _BROKEN * size:
                found.append(worst)
        return found

    def _improve(self, broken: list[Mixture], way: Array) -> None:
        """Take the nearest change that some mixtures make valid, if that is nearer."""
        cuts = self._systems.common
        for _ in range(_ROUNDS):
            parts = [
                self._model.models[one.scenario.model].cut(self._row, one.direction[None])
                for one in broken
            ]
            cuts = HalfSpaces.joined([cuts, *parts])
            u = self._nearest(cuts)[0]
            if u is None or self._model.norm(u) >= self.cost:
                return
            broken = self._broken(u, way)
            if not broken:
                self._take(u)
                return

    def _take(self, u: Array) -> None:
        if self._model.norm(u) < self.cost:
            self.u, self.cost = u, self._model.norm(u)
