"""A task with a ReLU network, as a network of the change u and inequalities on its prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE
from cfopt.engine.task import Task
from cfopt.exact.certificate import Cut
from cfopt.exact.exact_task import ExactTask
from cfopt.exact.relu.layers import layer_sizes, read_layers, refusal_of, side_by_side
from cfopt.exact.relu.region import Region
from cfopt.exact.relu.relaxation import (
    Inequalities,
    Intervals,
    Lines,
    Network,
    lower_lines,
    tightened,
)
from cfopt.problems.solved import FEASIBILITY_TOLERANCE
from cfopt.question.quantifier import Quantifier

#: How many entries a layer may have: networks are held as dense matrices.
_WIDEST = 2000
#: How many decisions are looked at one by one, where one of them is enough.
_LISTED = 1000


class ReluTask(ExactTask):
    """A task whose prices are those of a ReLU network.

    Arguments:
        task: a task that `refusal` accepts.
    """

    def __init__(self, task: Task) -> None:
        further = () if task.variation is None else task.variation.predictors
        self.predictors = (task.predictor, *further)
        super().__init__(task, len(self.predictors))
        self._layers = side_by_side(
            [read_layers(replace(task, predictor=one)) for one in self.predictors]
        )

    @staticmethod
    def refusal(task: Task) -> str:
        """Why a task cannot be treated exactly, or ""."""
        if task.space.latent is not None:
            return "codes are searched, not contexts"
        further = () if task.variation is None else task.variation.predictors
        if task.variation is not None and task.variation.off_by is not None:
            return "answers have to hold around them, which is served for affine predictors"
        reason = refusal_of(task.predictor) or ExactTask.limitation(task)
        reason = reason or next(filter(None, map(refusal_of, further)), "")
        if reason:
            return reason
        widest = max(layer_sizes(task))
        if widest > _WIDEST:
            return f"a layer has {widest} entries, more than {_WIDEST}"
        multiples, problem = task.rules.criterion.multiples, task.rules.problem
        if Quantifier.SOME not in multiples:
            return ""
        if Quantifier.EVERY in multiples:
            return "its criterion asks for some decision and for every one"
        listed = problem.decisions(_LISTED)
        if listed is None or len(listed) ** (1 + len(further)) > _LISTED:
            return (
                "its criterion asks for some decision, and those of "
                f"{type(problem).__name__} are more than {_LISTED} or cannot be listed"
            )
        return ""

    @property
    def quantifier(self) -> Quantifier:
        """The role in which decisions become cuts."""
        found = (one for one in (Quantifier.EVERY, Quantifier.SOME) if self.multiples(one))
        return next(found, Quantifier.GIVEN)

    def candidates(self, row: int) -> Array | None:
        """All choices of a decision for each predictor that may be enough, `(D, K m)`."""
        listed = self.rules.problem.decisions(_LISTED)
        if listed is None:
            return None
        return self.choices(listed.numpy()[self.may_suffice(row, listed.numpy())])

    def network(self, row: int) -> Network:
        """Prices as a function of a row's change."""
        first, *rest = self._layers.weights
        bias, *others = self._layers.biases
        return Network((first * self.scale, *rest), (bias + first @ self.origin[row], *others))

    def region(self, row: int, radius: float) -> Region:
        """The changes that a row may make, no farther than a radius."""
        system = self.system(row)
        return Region(system.lower, system.upper, radius, self.norm)

    def reach(self, row: int) -> float:
        """The length of the longest change that a row may make; inf if there is none."""
        system = self.system(row)
        farthest = np.maximum(np.abs(system.lower), np.abs(system.upper))
        return float(self.norm(farthest) ** (1 / self.norm.power))

    def inequalities(self, row: int, cuts: Sequence[Cut], leads: float = 1.0) -> Inequalities:
        """The criterion's cuts, to the last digit, and the limits on sums of features.

        With leads over the factual decision that are so many times what is asked for.
        """
        system = self.system(row)
        nothing = np.empty((0, self._layers.weights[-1].shape[0]))
        found = [(cut.quantifier, self.parts(cut.decision[None])) for cut in cuts]
        each = [
            block_diag(*(self.directions(row, role, own) for own in parts)) for role, parts in found
        ]
        asked = [self.lead(row, role, own) for role, parts in found for own in parts]
        leeway = -leads * np.concatenate([np.empty(0), *asked])
        directions = np.concatenate([nothing, *each])
        return Inequalities(directions, leeway, system.matrix, system.row_lower, system.row_upper)

    def granted(self, row: int, cuts: Sequence[Cut], radius: float) -> Array:
        """By how much cuts may be broken in contexts that verification calls valid, `(C,)`.

        It grants `TOLERANCE` of the terms that it compares, and rounding; decisions that are not
        known exactly may break what they stand for.
        """
        network, region = self.network(row), self.region(row, radius)
        intervals = tightened(network, Intervals.unknown(network), region, None)
        weight, bias = network.weights[-1], network.biases[-1]
        both, constants = np.concatenate([weight, -weight]), np.concatenate([bias, -bias])
        slopes, constants = lower_lines(
            network, Lines(intervals), len(network.widths), both, constants
        )
        sizes = np.abs(region.least(slopes) + constants).reshape(2, -1).max(axis=0)
        largest = float(sizes.max(initial=0.0))
        if self.rules.size is not None:
            largest = max(largest, float(self.rules.size[row]))
        fraction = TOLERANCE + (0.0 if self.exact_decisions else FEASIBILITY_TOLERANCE)
        terms = (
            [self.weights(row, cut.quantifier, own) for own in self.parts(cut.decision[None])]
            for cut in cuts
        )
        nothing = np.empty((0, len(sizes)))
        weights = np.concatenate([nothing, *(block_diag(*each) for each in terms)])
        found: Array = fraction * (weights @ sizes) + self.rules.rounding * largest * weights.sum(1)
        return found
