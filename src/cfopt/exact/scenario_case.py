"""Answers for which known decisions are enough in some scenarios, and what they cost at least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfopt._typing import Array
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.geometry import FAR, HalfSpaces, Leaf, Leeway, System, Tree
from cfopt.exact.scenario import Scenario, constant
from cfopt.question.quantifier import Quantifier

#: Of how many scenarios half-spaces are kept.
_KEPT = 50


class Asker:
    """A row of whose answers scenarios are asked which decision is enough.

    Arguments:
        model: the task.
        row: the number of the row.
        decisions: every decision, `(D, m)`.
    """

    def __init__(self, model: AffineTask, row: int, decisions: Array) -> None:
        self.model, self.row, self.decisions = model, row, decisions
        self._asked: dict[Scenario, HalfSpaces] = {}

    def half_spaces(self, scenario: Scenario) -> HalfSpaces:
        """Where each decision is enough in a scenario; those of the last ones are kept."""
        if scenario not in self._asked:
            if len(self._asked) == _KEPT:
                del self._asked[next(iter(self._asked))]
            found = scenario.half_spaces(self.model, self.row, self.decisions)
            self._asked[scenario] = found
        return self._asked[scenario]

    def leeway(self, scenario: Scenario, some: slice | list[int] = slice(None)) -> Leeway:
        """By how much these may be broken in contexts that verification calls valid."""
        return scenario.leeway(self.model, self.row, self.decisions[some])

    def of_every(self, decisions: Array) -> HalfSpaces:
        """What some decisions make every answer meet: `(K, m)`."""
        directions = self.model.directions(self.row, Quantifier.EVERY, decisions)
        return self.model.cut(self.row, directions)


@dataclass(frozen=True)
class Step:
    """A decision is enough in a scenario.

    Arguments:
        scenario: the scenario.
        number: the number of the decision.
    """

    scenario: Scenario
    number: int

    def leeway(self, asker: Asker) -> Leeway:
        """By how much that may be broken in contexts that verification calls valid."""
        return asker.leeway(self.scenario, [self.number])


@dataclass(frozen=True)
class Turns:
    """Two decisions are enough in two scenarios, and no others in the contexts between these.

    Let y be enough at w, and z at v. Where between w and v only these two are, both of them are in
    some context, since each is so up to one: there is a t with `h_y(w + t (v - w)) <= 0`, and the
    same of z. The sum of the two in which t cancels is a half-space.

    Arguments:
        first, second: y at w, and z at v, about the same inequality.
    """

    first: Step
    second: Step

    @classmethod
    def last_of(cls, path: Path) -> Turns | None:
        """That of the last step and of the last one before it with another decision, if any."""
        steps = [step for step in path if isinstance(step, Step)]
        for step in reversed(steps[:-1]):
            turns = cls(step, steps[-1])
            if turns.belongs(path):
                return turns
        return None

    def belongs(self, path: Path) -> bool:
        """Whether what is known of a case implies both, and they are two."""
        first, second = self.first, self.second
        alike = first.scenario.numbers == second.scenario.numbers
        return alike and first.number != second.number and first in path and second in path

    def half_space(self, asker: Asker) -> HalfSpaces | None:
        """The sum; None if t does not cancel."""
        weights = self._weights(asker)
        if weights is None:
            return None
        here = asker.half_spaces(self.first.scenario)
        parts = (here.normals, here.limits, here.rounding, here.doubt, here.grain)
        both = [self.first.number, self.second.number]
        return HalfSpaces(*((weights @ part[both])[None] for part in parts))

    def leeway(self, asker: Asker) -> Leeway:
        """By how much the sum may be broken in contexts that verification calls valid."""
        weights = self._weights(asker)
        assert weights is not None
        parts = Leeway.joined([self.first.leeway(asker), self.second.leeway(asker)])
        return Leeway((weights @ parts.constant)[None], (weights @ parts.growth)[None])

    def _weights(self, asker: Asker) -> Array | None:
        """How much of either is in the sum, `(2,)`."""
        both = [self.first.number, self.second.number]
        ends = [asker.half_spaces(one.scenario).limits for one in (self.first, self.second)]
        slopes = ends[1][both] - ends[0][both]
        if not slopes[0] < 0 < slopes[1]:
            return None
        weights: Array = np.array([slopes[1], -slopes[0]]) / (slopes[1] - slopes[0])
        return weights


#: What is known of the answers of a case, in the order of their half-spaces.
Path = tuple[Step | Turns, ...]


@dataclass(frozen=True)
class Case:
    """Answers of which something is known.

    Arguments:
        asker: the row that they are about.
        path: what is known.
        cuts: what does not depend on the decision, and what follows of the path.
    """

    asker: Asker
    path: Path
    cuts: HalfSpaces

    @classmethod
    def whole(cls, asker: Asker) -> Case:
        """All answers."""
        return cls(asker, (), asker.model.cut(asker.row, constant(asker.model, asker.row)))

    def knowing(self, what: Step | Turns, half_space: HalfSpaces) -> Case:
        """Those of which one thing more is known, and its half-space."""
        return Case(self.asker, (*self.path, what), HalfSpaces.joined([self.cuts, half_space]))

    def system(self, every: Array) -> System:
        """The limits and half-spaces, and those of what every decision must meet, `(K, m)`."""
        return self.asker.model.system(self.asker.row).with_cuts(self._rows(every))

    def granting(self, every: Array) -> System:
        """The same, with what verification grants."""
        model, row = self.asker.model, self.asker.row
        parts = [model.leeway(row, np.abs(constant(model, row)))]
        parts += [one.leeway(self.asker) for one in self.path]
        if len(every):
            parts.append(model.leeway(row, model.weights(row, Quantifier.EVERY, every)))
        return self.system(every).with_leeway(Leeway.joined(parts), self._rows(every))

    def _rows(self, every: Array) -> HalfSpaces:
        if not len(every):
            return self.cuts
        return HalfSpaces.joined([self.cuts, self.asker.of_every(every)])

    def bounds(
        self, system: System, tree: Tree, here: float, scenario: Scenario
    ) -> tuple[Array, HalfSpaces]:
        """What answers cost at least for which each decision is enough in a scenario: `(D,)`.

        No less than without it; than to reach its half-space alone; than to reach it and what the
        multipliers make of all others. And these half-spaces, D of them.

        Arguments:
            system, tree: the others, and multipliers for them.
            here: what these prove.
            scenario: the scenario.
        """
        asked, norm = self.asker.half_spaces(scenario), self.asker.model.norm
        excess, movable = -asked.limits, (system.lower < system.upper).astype(np.float64)
        normals = asked.normals * movable
        bounds = norm.to_half_spaces(excess, normals, system.support)
        if (bounds == np.inf).any():
            leeway = self.asker.leeway(scenario)
            bounds[(bounds == np.inf) & (excess <= FAR * leeway.constant)] = 0.0
        if isinstance(tree, Leaf) and system.support is None and here > 0:
            slope, limit = system.combine(tree.multipliers)
            both = norm.to_each_and(slope * movable, -limit, excess, normals)
            bounds = np.maximum(bounds, both)
        return np.maximum(bounds, here), asked

    def of_thirds(self, system: System, tree: Tree, here: float, turns: Turns) -> float:
        """What answers cost at least for which a third decision is enough between two scenarios.

        Half-spaces between are between those of the two, so that none is nearer than both.
        """
        ends = (turns.first.scenario, turns.second.scenario)
        least = np.minimum(*(self.bounds(system, tree, here, one)[0] for one in ends))
        least[[turns.first.number, turns.second.number]] = np.inf
        return float(least.min())
