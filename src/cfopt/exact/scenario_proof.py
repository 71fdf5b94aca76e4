"""Proofs about criteria that some decision must meet in every context of a ball."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cfopt._typing import Array
from cfopt.exact.affine_proof import AffineProof, ListProof
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.certificate import Clash
from cfopt.exact.geometry import System, Tree, proved_bound
from cfopt.exact.scenario import Scenario
from cfopt.exact.scenario_case import Asker, Case, Step, Turns


@dataclass(frozen=True)
class Settled:
    """What is proved of the answers of a case.

    Arguments:
        tree: multipliers of the limits on sums of features, of the half-spaces of the case, and of
            those of what every decision must meet, in this order.
        every: decisions of the last, `(K, m)`.
    """

    tree: Tree
    every: Array


@dataclass(frozen=True)
class Asked:
    """The same, and a scenario in which one of all decisions must be enough.

    Arguments:
        before: what is proved whichever decision it is.
        scenario: the scenario.
        further: what is proved besides of some decisions, by their numbers.
    """

    before: Settled
    scenario: Scenario
    further: dict[int, Part] = field(default_factory=dict)


@dataclass(frozen=True)
class Between:
    """The same, where two decisions take turns, unless a third is enough.

    Arguments:
        before: what is proved without that.
        turns: the two.
        further: what is proved if no third is enough, under the number 0.
    """

    before: Settled
    turns: Turns
    further: dict[int, Part] = field(default_factory=dict)


#: A part of a proof.
Part = Settled | Asked | Between


@dataclass(frozen=True)
class ScenarioProof(AffineProof):
    """In each of some scenarios, one decision must be enough: all cases, case by case.

    Arguments:
        limit: the most decisions to list.
        part: the cases.
        plain: what is proved of the task whatever the scenarios, where that may be more.
        infeasible: whether they are said to prove that there is no explanation.
    """

    limit: int
    part: Part
    plain: ListProof | None = None
    infeasible: bool = False

    def bound(self, model: AffineTask, row: int) -> float:
        """The least bound of any case, or that of the plain task."""
        plain = 0.0 if self.plain is None else self.plain.bound(model, row)
        table = model.decision_table(self.limit)
        if table is None or len(model.passed_over(row)) or not model.exact_decisions:
            return plain
        candidates = table.decisions[model.may_suffice(row, table.decisions)]
        return max(plain, self._bound(Case.whole(Asker(model, row, candidates))))

    def _bound(self, whole: Case) -> float:
        """The least bound of any case, evaluated anew.

        A part of a case costs at least what the case costs: the most that is proved on the way to
        it. That way may be long, so that parts wait for their turn in a list.
        """
        least, waiting = np.inf, [(self.part, whole, 0.0)]
        while waiting:
            part, case, floor = waiting.pop()
            settled = part if isinstance(part, Settled) else part.before
            system, here = _settled(settled, case)
            further: list[tuple[Part, Case, float]] = []
            if isinstance(part, Asked):
                bounds, asked = case.bounds(system, settled.tree, here, part.scenario)
                for k, one in part.further.items():
                    step = case.knowing(Step(part.scenario, k), asked.part(k, k + 1))
                    further.append((one, step, max(floor, float(bounds[k]))))
                    bounds[k] = np.inf
                here = float(bounds.min())
            elif isinstance(part, Between):
                half_space = part.turns.half_space(case.asker)
                if half_space is not None and part.turns.belongs(case.path) and 0 in part.further:
                    further.append((part.further[0], case.knowing(part.turns, half_space), floor))
                    here = case.of_thirds(system, settled.tree, here, part.turns)
            least = min(least, max(floor, here))
            waiting += [one for one in further if one[2] < least]
        return least

    def decisions(self) -> list[Array]:
        """Those of the plain proof, and those that every answer must beat."""
        found, parts = [] if self.plain is None else self.plain.decisions(), [self.part]
        while parts:
            part = parts.pop()
            settled = part if isinstance(part, Settled) else part.before
            found += list(settled.every)
            parts += [] if isinstance(part, Settled) else list(part.further.values())
        return found

    def clash(self, model: AffineTask, row: int) -> Clash:
        """That of the plain task."""
        plain = ListProof(self.limit, None, {}) if self.plain is None else self.plain
        return plain.clash(model, row)


def _settled(part: Settled, case: Case) -> tuple[System, float]:
    """The system of a part, and what its multipliers prove of it."""
    model = case.asker.model
    grid, system = model.grid(case.asker.row), case.system(part.every)
    bound = proved_bound(system, model.norm, part.tree, grid)
    if bound == np.inf:  # of all that would be called valid
        bound = proved_bound(case.granting(part.every), model.norm, part.tree, grid)
    return system, bound
