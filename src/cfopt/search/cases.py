"""Branch and cut over the cases of a ReLU network's neurons, for one row."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.exact.certificate import Cut
from cfopt.exact.relu import Division, Node, Relaxed, ReluProof, ReluTask, State, relax
from cfopt.exact.relu.relaxation import Multipliers, combined
from cfopt.problems.solved import same_decision
from cfopt.question.quantifier import Quantifier
from cfopt.search.cuts import LEADS

#: A decision is worth a cut if it beats the plan by more than this fraction of its terms.
_WORTH_A_CUT = 1e-10
#: A case whose bound is this near to the best loss known, as a fraction of it, is settled: nearer
#: than what counts as proved to be the closest.
SETTLED = 2e-7
#: How far beyond the best context known cases are looked at, as a fraction of its distance.
_BEYOND = 1e-9
#: How often a case is relaxed at most before it is divided, and the fraction of its gap that must
#: be closed for another time.
_ROUNDS, _WORTHWHILE = 4, 0.03


@dataclass
class _Case:
    """A node of the tree that may still be divided."""

    state: State
    steps: list[Multipliers] = field(default_factory=list)
    division: Division | None = None


class CaseTree:
    """The cases of one row, divided until the nearest explanation is known.

    A case is bounded by the nearest change of its convex relaxation. The oracle is asked what is
    best there: either the plan, and the change is a nearer explanation; or another decision, which
    becomes a cut for all cases. Of all cases, the one of the least bound is divided next.

    Arguments:
        task: the task; the row may be any of it.
        model: the same as a network.
        row: the row.
        cuts: what is known to be in the way of the plan.
        radius: the length of change up to which to look.
        loss: the loss of the best context known; inf if there is none.
        most: how many cases to look at.
    """

    def __init__(
        self,
        task: Task,
        model: ReluTask,
        row: int,
        cuts: list[Cut],
        radius: float,
        loss: float,
        most: float = np.inf,
    ) -> None:
        self._task, self._model, self._row = task[torch.tensor([row])], model, row
        self._rules, self._predictors = model.rules_of(row), model.predictors
        self._network, self._grid = model.network(row), model.grid(row)
        self.cuts = cuts
        self._keys = {(cut.decision + 0.0).tobytes() for cut in cuts}
        self._known = model.inequalities(row, cuts, LEADS)
        self.loss, self._most = loss, most
        self.x: Tensor | None = None  # a context that is nearer than what was known
        self.radius, self.solves, self.looks = radius, 0, 0
        self._nodes: list[Node] = []
        self._heap: list[tuple[float, int, _Case]] = []
        root = State.root(self._network, model.region(row, radius))
        self._open(root, -1, above=False)

    @property
    def count(self) -> int:
        """How many cases there are."""
        return len(self._nodes)

    @property
    def bound(self) -> float:
        """The least bound of a case that may be divided; inf if there is none."""
        return self._heap[0][0] if self._heap else np.inf

    @property
    def full(self) -> bool:
        """Whether there are as many cases as there may be."""
        return self.count >= self._most

    @property
    def done(self) -> bool:
        """Whether no case is worth dividing, or there are too many."""
        return self.full or self.bound >= self._goal

    @property
    def _goal(self) -> float:
        """The bound from which on a case is settled."""
        return (1 - SETTLED) * self.loss

    def run(self, deadline: float) -> None:
        """Divide cases until all are settled, or time is up."""
        while not self.done and not is_over(deadline):
            self.advance()

    def advance(self) -> None:
        """Divide the case of the least bound."""
        _, number, case = heapq.heappop(self._heap)
        assert case.division is not None
        self._nodes[number] = replace(self._nodes[number], division=case.division)
        for above in (False, True):
            state = case.state.case(self._network, case.division, above, self.radius, self._grid)
            self._open(state, number, above)

    def proof(self) -> ReluProof:
        """What the cases prove so far."""
        return ReluProof(tuple(self.cuts), tuple(self._nodes))

    def _open(self, state: State, parent: int, above: bool) -> None:
        """Bound a new case, and keep it if it may hold a nearer explanation."""
        number = len(self._nodes)
        case = _Case(state)
        self._nodes.append(Node(parent, above, state.region.radius, ()))
        # Without a bound, when time is up: then the case proves nothing.
        if state.bound < self._goal and not is_over(self._rules.problem.deadline):
            self._bound(case)
        self._nodes[number] = replace(self._nodes[number], steps=tuple(case.steps))
        if case.state.bound < self._goal and case.division is not None:
            heapq.heappush(self._heap, (case.state.bound, number, case))

    def _bound(self, case: _Case) -> None:
        """Relax a case, as often as it pays, and choose how to divide it."""
        for k in count(1):
            before, cuts = case.state, len(self.cuts)
            relaxed = relax(self._network, before.intervals, before.region, self._known)
            if relaxed is None:
                case.division = self._widest(before)
                return
            weights: list[Array] = []
            plane = combined(
                self._network, before.intervals, self._known, relaxed.multipliers, weights
            )
            case.steps.append(relaxed.multipliers)
            case.state = before.beyond(self._network, plane)
            if case.state.bound >= self._goal:
                return
            if relaxed.u is not None:
                self._look(relaxed.u)
            case.division = self._choose(case.state, relaxed, weights[::-1])
            if case.state.bound >= self._goal:
                return  # what was found is as near as can be
            gained = case.state.bound - before.bound
            learned = len(self.cuts) > cuts or _unstable(case.state) < _unstable(before)
            if case.division is None:
                more = learned
            else:
                worth = gained > _WORTHWHILE * (self.loss - case.state.bound)
                more = k == 1 or (k < _ROUNDS and (learned or worth))
            if not more:
                return

    def _look(self, u: Array) -> None:
        """Ask the oracle about a change: it is an explanation, or a decision becomes a cut."""
        x, rules = self._model.contexts([self._row], u[None]), self._rules
        with torch.no_grad():
            costs = [self._task.by_itself(one).pipeline.predict(x) for one in self._predictors]
        prices = rules.turned(torch.cat(costs).to("cpu", torch.float64))
        rival = rules.rival(prices)
        self.solves += len(costs) * int(rules.calls_solver)
        self.looks += len(costs)
        if rival.failures:
            return
        good = rules.judge(prices, rival.decisions, TOLERANCE / 2, rival.shortfall).holds
        if bool(good.all()) and bool(self._task.space.allows(x)[0]):
            loss = float(self._task.space.loss(x)[0])
            if loss < self.loss:
                self.loss, self.x = loss, x
                length = loss ** (1 / self._model.norm.power)
                self.radius = min(self.radius, length * (1 + _BEYOND))
        if self._model.quantifier is Quantifier.SOME:
            return  # the tree is about one decision alone
        beaten = ~rules.judge(prices, rival.decisions, _WORTH_A_CUT).holds
        if rules.criterion.contrasts and rules.margin > 0:
            beaten &= ~same_decision(rival.decisions, rules.pivot)
        for decision in rival.decisions[beaten].numpy():
            self._cut(decision.copy())

    def _cut(self, decision: Array) -> None:
        """Make a decision a cut for all cases, if it is a new one."""
        key = (decision + 0.0).tobytes()
        if key in self._keys or self._rules.problem.audit(decision[None]):
            return
        self._keys.add(key)
        self.cuts.append(Cut(decision, self._model.quantifier))
        self._known = self._model.inequalities(self._row, self.cuts, LEADS)

    def _choose(self, state: State, relaxed: Relaxed, weights: list[Array]) -> Division | None:
        """A feature that is not whole; else the neuron whose relaxation falls shortest.

        That is, by how much the plane would rise at the relaxed change if the neuron were exact.
        """
        if relaxed.u is None:
            return self._widest(state, weights)
        if self._grid is not None and (found := self._grid.fractional(relaxed.u)) is not None:
            feature, value = found
            return Division(feature, at=int(np.floor(value)))
        best, choice = 0.0, None
        for layer, z in enumerate(self._network.neurons(relaxed.u)):
            miss = np.abs(weights[layer] * (relaxed.active[layer] - np.maximum(z, 0.0)))
            miss = np.where(state.intervals.unstable(layer), np.nan_to_num(miss), 0.0)
            if miss.max(initial=0.0) > best:
                best, choice = float(miss.max()), Division(int(miss.argmax()), layer)
        return choice or self._widest(state, weights)

    def _widest(self, state: State, weights: list[Array] | None = None) -> Division | None:
        """The unstable neuron of the widest interval, by its weight where that is known."""
        best, choice = -1.0, None
        for layer in range(len(self._network.widths)):
            low, high = state.intervals.lower[layer], state.intervals.upper[layer]
            width = np.minimum(high, -low)
            if weights is not None:
                width = width * np.abs(weights[layer])
            width = np.where(state.intervals.unstable(layer), width, -1.0)
            if width.max(initial=-1.0) > best:
                best, choice = float(width.max()), Division(int(width.argmax()), layer)
        return choice


def _unstable(state: State) -> int:
    return sum(int(state.intervals.unstable(k).sum()) for k in range(len(state.intervals.lower)))
