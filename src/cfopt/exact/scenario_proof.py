"""Proofs about criteria that some decision must meet in every context of a ball."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from cfopt._typing import Array
from cfopt.exact.affine_proof import AffineProof, ListProof
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.certificate import Clash
from cfopt.exact.geometry import FAR, HalfSpaces, Leaf, Leeway, System, Tree, proved_bound
from cfopt.exact.scenario import Scenario, constant
from cfopt.question.quantifier import Quantifier

#: Which decision is enough in each of some scenarios, by their numbers.
Path: TypeAlias = "tuple[tuple[Scenario, int], ...]"


@dataclass(frozen=True)
class Settled:
    """What is proved of all answers in which known decisions are enough in some scenarios.

    Arguments:
        tree: multipliers of the limits on sums of features, of what does not depend on the
            decision, of the scenarios, and of what every decision must meet, in this order.
        every: decisions of the last, `(K, m)`.
    """

    tree: Tree
    every: Array


@dataclass(frozen=True)
class Asked:
    """The same, with a further scenario, in which one of all decisions must be enough.

    Arguments:
        before: what is proved without the scenario, which is so whichever decision it is.
        scenario: the scenario.
        further: what is proved besides of some decisions, by their numbers.
    """

    before: Settled
    scenario: Scenario
    further: dict[int, Part] = field(default_factory=dict)


#: A part of a proof.
Part: TypeAlias = "Settled | Asked"


class ScenarioSystems:
    """The systems of one row in which known decisions are enough in some scenarios.

    Arguments:
        model: the task.
        row: the number of the row.
        decisions: every decision, `(D, m)`.
    """

    def __init__(self, model: AffineTask, row: int, decisions: Array) -> None:
        self.model, self.row, self.decisions = model, row, decisions
        self.limits: System = model.system(row)
        self._constant = constant(model, row)
        #: The half-spaces that all of them have.
        self.common: HalfSpaces = model.cut(row, self._constant)

    def system(self, cuts: HalfSpaces, every: Array) -> System:
        """The limits, half-spaces that begin with the common ones, and those of every decision."""
        parts = [cuts] if not len(every) else [cuts, self.of_every(every)]
        return self.limits.with_cuts(HalfSpaces.joined(parts))

    def of_every(self, decisions: Array) -> HalfSpaces:
        """What some decisions make every answer meet: `(K, m)`."""
        directions = self.model.directions(self.row, Quantifier.EVERY, decisions)
        return self.model.cut(self.row, directions)

    def granting(self, path: Path, cuts: HalfSpaces, every: Array) -> System:
        """The same system, the half-spaces with what verification grants."""
        model, row = self.model, self.row
        parts = [model.leeway(row, np.abs(self._constant))]
        parts += [one.leeway(model, row, self.decisions[k][None]) for one, k in path]
        if len(every):
            parts.append(model.leeway(row, model.weights(row, Quantifier.EVERY, every)))
        system = self.system(cuts, every)
        count = len(system.matrix) - len(self.limits.matrix)
        last = HalfSpaces.joined([cuts, self.of_every(every)] if len(every) else [cuts])
        assert len(last.limits) == count
        return system.with_leeway(Leeway.joined(parts), last)

    def bounds(
        self, system: System, tree: Tree, here: float, scenario: Scenario
    ) -> tuple[Array, HalfSpaces]:
        """What it costs at least if a decision is enough in a scenario besides: `(D,)`.

        No less than without it; than to reach its half-space alone; than to reach it and what the
        multipliers make of all others. And these half-spaces, D of them.

        Arguments:
            system, tree: the others, and multipliers for them.
            here: what these prove.
            scenario: the scenario.
        """
        asked = scenario.half_spaces(self.model, self.row, self.decisions)
        norm, excess = self.model.norm, -asked.limits
        movable = (system.lower < system.upper).astype(np.float64)
        normals = asked.normals * movable
        bounds = norm.to_half_spaces(excess, normals, system.support)
        if (bounds == np.inf).any():
            leeway = scenario.leeway(self.model, self.row, self.decisions)
            bounds[(bounds == np.inf) & (excess <= FAR * leeway.constant)] = 0.0
        if isinstance(tree, Leaf) and system.support is None and here > 0:
            slope, limit = system.combine(tree.multipliers)
            both = np.stack([normals, np.broadcast_to(slope * movable, normals.shape)])
            pair, _ = norm.to_both(
                np.stack([excess, np.full(len(excess), -limit)]), both, movable[None]
            )
            bounds = np.maximum(bounds, pair[:, 0])
        return np.maximum(bounds, here), asked


@dataclass(frozen=True)
class ScenarioProof(AffineProof):
    """In each of some scenarios, one decision must be enough: all cases, case by case.

    Arguments:
        plain: what is proved of the task whatever the scenarios.
        part: the cases.
        infeasible: whether they are said to prove that there is no explanation.
    """

    plain: ListProof
    part: Part
    infeasible: bool = False

    def bound(self, model: AffineTask, row: int) -> float:
        """The least bound of any case, or that of the plain task."""
        plain = self.plain.bound(model, row)
        table = model.decision_table(self.plain.limit)
        if table is None or len(model.passed_over(row)) or not model.exact_decisions:
            return plain
        check = _Check(ScenarioSystems(model, row, table.decisions))
        return max(plain, check.bound(self.part, (), check.systems.common))

    def decisions(self) -> list[Array]:
        """Those of the plain proof, and those that every answer must beat."""
        found = self.plain.decisions()
        parts = [self.part]
        while parts:
            part = parts.pop()
            settled = part.before if isinstance(part, Asked) else part
            found += list(settled.every)
            parts += list(part.further.values()) if isinstance(part, Asked) else []
        return found

    def clash(self, model: AffineTask, row: int) -> Clash:
        """That of the plain task."""
        return self.plain.clash(model, row)


class _Check:
    """Evaluates the parts of a proof anew."""

    def __init__(self, systems: ScenarioSystems) -> None:
        self.systems = systems

    def bound(self, part: Part, path: Path, cuts: HalfSpaces) -> float:
        """What a part proves, where decisions are enough as on the path, which makes these cuts."""
        settled = part if isinstance(part, Settled) else part.before
        system, here = self._settled(settled, path, cuts)
        if isinstance(part, Settled):
            return here
        bounds, asked = self.systems.bounds(system, settled.tree, here, part.scenario)
        for k, further in part.further.items():
            joined = HalfSpaces.joined([cuts, asked[k : k + 1]])
            bounds[k] = max(bounds[k], self.bound(further, (*path, (part.scenario, k)), joined))
        return float(bounds.min())

    def _settled(self, part: Settled, path: Path, cuts: HalfSpaces) -> tuple[System, float]:
        """The system of a part, and what its multipliers prove of it."""
        systems = self.systems
        model, grid = systems.model, systems.model.grid(systems.row)
        system = systems.system(cuts, part.every)
        bound = proved_bound(system, model.norm, part.tree, grid)
        if bound == np.inf:  # of all that would be called valid
            granting = systems.granting(path, cuts, part.every)
            bound = proved_bound(granting, model.norm, part.tree, grid)
        return system, bound
