"""The nearest answer for which some decision is enough in every context of a ball."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.decision_table import DecisionTable
from cfopt.exact.geometry import HalfSpaces, Master, System
from cfopt.exact.scenario import Mixture, SomeDecision
from cfopt.exact.scenario_case import Asker, Case, Path, Step, Turns
from cfopt.exact.scenario_proof import Asked, Between, Part, Settled
from cfopt.question.quantifier import Quantifier
from cfopt.search.cuts import INSIDE

#: What may be left open, as a fraction of the cost.
_GAP = 5e-7
#: An inequality that is broken by more than this fraction of its size is broken.
_BROKEN = 1e-10
#: The most cases that are looked at, and how often a mixture is exchanged for a better one.
_CASES, _ROUNDS = 2000, 3
#: What slopes count at least across the way, as a fraction of what they are.
_ACROSS = 1e-3


@dataclass(frozen=True)
class _Nearest:
    """The nearest answer of a case.

    Arguments:
        u: the change; None if there is none, or it was not found.
        bound: what every one costs at least.
        settled: what proves it.
        system: the system that it solves.
    """

    u: Array | None
    bound: float
    settled: Settled
    system: System


@dataclass
class _Open:
    """A case to be looked at, and where what is proved of it is kept, under which number."""

    case: Case
    home: dict[int, Part]
    number: int = 0
    nearest: _Nearest | None = None


class ScenarioTree:
    """Best-first over which decision is enough in which scenario.

    What is not explained, for one inequality `<prices, a y + e> <= 0` and one predictor, is a
    convex set N, where no decision meets it. Answers are at least the length r away from N. Of a
    context that is not, some context of its ball lies in N: that scenario is asked which decision
    is to be enough in it, and each one makes a case with a half-space more, in which the context
    does not lie. Asked is the scenario that lies deepest in N as the cases see it: by how far they
    would have to move across the way from x0.

    A case whose nearest context is away from N is settled. In others mixtures of decisions make
    half-spaces that are at least r away from N, and in these are answers. Where two decisions take
    turns, their mixture is a cut of the case (`Turns`), so that bounds and answers soon meet.

    Arguments:
        model: the task.
        row: the number of the row.
        table: every decision.
        u, cost: the best answer so far; inf if there is none.
        deadline: when to stop.

    Attributes:
        looked: how many cases it has looked at.
        late: whether it was stopped.
        complete: whether its cases prove that there is no nearer answer.
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
        candidates = table.decisions[model.may_suffice(row, table.decisions)]
        self._whole = Case.whole(Asker(model, row, candidates))
        self._inequalities = SomeDecision.every(model, row, candidates)
        self._heap: list[tuple[float, int, _Open]] = []
        self._proved: dict[int, Part] = {}
        self._pushed = self.looked = 0
        self.late, self.complete = False, True

    @property
    def part(self) -> Part:
        """What was proved, once it has run."""
        return self._proved[0]

    def run(self) -> None:
        """Look at cases while they may hold nearer answers."""
        first = _Open(self._whole, self._proved)
        self._push(self._solve(first), first)
        while self._heap:
            bound, _, one = heapq.heappop(self._heap)
            if bound >= self._enough:
                return
            if self.looked >= _CASES or is_over(self._deadline):
                self.late, self.complete = True, False
                return
            if one.nearest is None:
                bound = self._solve(one)
                if bound < self._enough:
                    self._push(bound, one)
            else:
                self._divide(one, one.nearest)

    @property
    def _enough(self) -> float:
        return (1 - _GAP) * self.cost

    def _push(self, bound: float, one: _Open) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (bound, self._pushed, one))

    def _solve(self, one: _Open) -> float:
        """The nearest answer of a case; return what every one of them costs at least."""
        self.looked += 1
        one.nearest = nearest = self._nearest(one.case.cuts)
        one.home[one.number] = nearest.settled
        turns = Turns.last_of(one.case.path)
        if turns is None or nearest.u is None or nearest.bound >= self._enough:
            return nearest.bound
        half_space = turns.half_space(self._whole.asker)
        if half_space is None or (half_space.normals @ nearest.u <= half_space.limits).all():
            return nearest.bound
        where = nearest.system, nearest.settled.tree, nearest.bound
        if one.case.of_thirds(*where, turns) < self._enough:
            return nearest.bound
        between = Between(nearest.settled, turns)
        one.case = one.case.knowing(turns, half_space)
        one.nearest = self._nearest(one.case.cuts)
        one.home[one.number], between.further[0] = between, one.nearest.settled
        one.home, one.number = between.further, 0
        return one.nearest.bound

    def _nearest(self, cuts: HalfSpaces) -> _Nearest:
        """The nearest change that meets cuts and what every decision must."""
        model, decisions, every = self._model, self._table.decisions, list[int]()
        limits = model.system(self._row).with_cuts(cuts)
        grid = model.grid(self._row)
        master = Master(limits, model.norm, grid, self._deadline, why=False)
        while True:
            found = master.solve()
            worst = None
            if found.u is not None and model.multiples(Quantifier.EVERY):
                worst = self._table.most_violated(self._row, found.u, _BROKEN)
            if worst is None or worst in every or is_over(self._deadline):
                settled = Settled(found.tree, decisions[every])
                return _Nearest(found.u, found.bound, settled, master.system)
            every.append(worst)
            master.add(self._whole.asker.of_every(decisions[worst][None]))

    def _divide(self, one: _Open, nearest: _Nearest) -> None:
        """Ask the worst scenario of a case's nearest context, unless that one is an answer."""
        if nearest.u is None:
            self.complete = False
            return
        broken = self._broken(nearest.u, nearest.u, one.case.path)
        if not broken:
            self._take(self._inside(one.case.cuts, nearest.u))
            self.complete &= nearest.bound >= self._enough
            return
        self._improve(broken, nearest.u)
        if nearest.bound >= self._enough:
            return
        scenario = max(broken, key=lambda worst: worst.depth).scenario
        one.home[one.number] = asked = Asked(nearest.settled, scenario)
        where = nearest.system, nearest.settled.tree, nearest.bound
        bounds, cuts = one.case.bounds(*where, scenario)
        for k in np.flatnonzero(bounds < self._enough).tolist():
            case = one.case.knowing(Step(scenario, k), cuts.part(k, k + 1))
            self._push(float(bounds[k]), _Open(case, asked.further, k))

    def _broken(self, u: Array, way: Array, path: Path = ()) -> list[Mixture]:
        """The worst of each inequality that no mixture meets in the whole ball after a change.

        Where contexts are not off, one scenario is all that an inequality is about: what a path
        says of it holds, but for rounding.
        """
        steps = path if self._model.off_by is None else ()
        met = [step.scenario.numbers for step in steps if isinstance(step, Step)]
        found = []
        for one in self._inequalities:
            if one.numbers in met:
                continue
            own = self._model.models[one.numbers[0]]
            prices = own.prices([self._row], u[None])[0].numpy()
            worst = one.worst(prices, one.across(way, _ACROSS))
            if worst.excess > _BROKEN * float(np.abs(worst.direction) @ np.abs(prices)):
                found.append(worst)
        return found

    def _improve(self, broken: list[Mixture], way: Array) -> None:
        """Take the nearest change that some mixtures make valid, if that is nearer."""
        cuts = self._whole.cuts
        for _ in range(_ROUNDS):
            parts = [
                self._model.models[one.scenario.model].cut(self._row, one.direction[None])
                for one in broken
            ]
            cuts = HalfSpaces.joined([cuts, *parts])
            u = self._nearest(cuts).u
            if u is None or self._model.norm(u) >= self.cost:
                return
            broken = self._broken(u, way)
            if not broken:
                self._take(self._inside(cuts, u))
                return

    def _inside(self, cuts: HalfSpaces, u: Array) -> Array | None:
        """The change, or the nearest off the boundary, if only there the factual is beaten."""
        terms = np.abs(cuts.normals) @ np.abs(u) + np.abs(cuts.limits)
        for distance in INSIDE:
            firm = cuts._replace(limits=cuts.limits - distance * terms)
            found = self._nearest(firm).u if distance else u
            if found is not None and self._table.unseats(self._row, found):
                return found
        return None

    def _take(self, u: Array | None) -> None:
        if u is not None and self._model.norm(u) < self.cost:
            self.u, self.cost = u, self._model.norm(u)
