"""Whether a criterion holds in a whole ball behind a ReLU network: by bounds, case by case."""

from __future__ import annotations

import numpy as np

from cfopt._typing import Array
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy
from cfopt.exact.exact_task import NORMS
from cfopt.exact.relu.region import Region
from cfopt.exact.relu.relaxation import Intervals, Lines, Network, lower_lines, tightened
from cfopt.exact.relu.task import ReluTask
from cfopt.question.quantifier import Quantifier

#: The most cases of neurons that are looked at for a row, and the most decisions that are listed.
_CASES, _LISTED = 200, 2_000


class ReluBall:
    """The contexts around each row of a task that `ReluTask` does not refuse.

    In each case the network is bounded from both sides by lines in the change. The criterion holds
    where no direction that it is about can be above 0; otherwise the neuron that is most undecided
    is on in one case, and off in the other. That proves nothing where cases are too many.

    Arguments:
        task: the rows; the balls are around its origins.
        off_by: by how much contexts may be off.
    """

    def __init__(self, task: Task, off_by: OffBy) -> None:
        self._model, self._off_by = ReluTask(task), off_by
        listed = self._model.rules.problem.decisions(_LISTED)
        self._listed = None if listed is None else listed.numpy()

    def holds(self, row: int, prices: Array) -> bool:
        """Whether it is proved of a row.

        Arguments:
            row: the row.
            prices: those at its origin, `(m,)`.
        """
        directions = self._directions(row, prices)
        if directions is None:
            return False
        model, units, radius = self._model, self._off_by.units, self._off_by.radius
        plain = model.network(row)
        network = Network((plain.weights[0] * units, *plain.weights[1:]), plain.biases)
        ends = np.where(units > 0, radius, 0.0)
        region = Region(-ends, ends, radius, NORMS[type(self._off_by.norm)])
        size = 0.0 if model.rules.size is None else float(model.rules.size[row])
        granted = model.rules.rounding * size
        if Quantifier.SOME in model.rules.criterion.multiples:
            # Another plan has to win by a lead; the largest price may be twice that at x0.
            lead = 2 * model.rules.lead * size * float(np.abs(directions).sum(axis=1).max())
            granted = -max(lead, float(np.finfo(np.float64).tiny))
        weights = -directions @ network.weights[-1]
        constants = -directions @ network.biases[-1]
        waiting = [Intervals.unknown(network)]
        for _ in range(_CASES):
            if not waiting:
                return True
            case = tightened(network, waiting.pop(), region, None)
            if case.empty:
                continue
            slopes, levels = lower_lines(
                network, Lines(case), len(network.widths), weights, constants
            )
            broken = region.least(slopes) + levels < -granted
            if not broken.any():
                continue
            neuron = _most_undecided(case)
            if neuron is None:
                return False
            waiting += case.split(*neuron)
        return False

    def _directions(self, row: int, prices: Array) -> Array | None:
        """The d of all `<prices, d> <= 0`, `(C, m)`; None if decisions cannot be listed.

        Where some decision is to meet the criterion, the best one at the origin is.
        """
        model, rules = self._model, self._model.rules
        parts = []
        if Quantifier.GIVEN in rules.criterion.multiples:
            own = rules.factual[row].numpy()[None]
            parts.append(model.directions(row, Quantifier.GIVEN, own))
        if self._listed is None and len(parts) < len(rules.criterion.multiples):
            return None
        if Quantifier.SOME in rules.criterion.multiples:
            assert self._listed is not None
            best = self._listed[(self._listed @ prices).argmin()][None]
            parts.append(model.directions(row, Quantifier.SOME, best))
        if Quantifier.EVERY in rules.criterion.multiples:
            assert self._listed is not None
            rivals = self._listed
            if rules.margin > 0 and rules.criterion.contrasts:
                rivals = rivals[(rivals != rules.pivot[row].numpy()).any(axis=1)]
            parts.append(model.directions(row, Quantifier.EVERY, rivals))
        return np.concatenate(parts)


def _most_undecided(case: Intervals) -> tuple[int, int] | None:
    """Layer and number of the neuron that is most on either side of 0; None if none is."""
    found, most = None, 0.0
    for layer, (low, high) in enumerate(zip(case.lower, case.upper, strict=True)):
        room = np.minimum(-low, high)
        if len(room) and room.max() > most:
            found, most = (layer, int(room.argmax())), float(room.max())
    return found
