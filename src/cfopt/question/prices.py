"""What would it have had to cost? A second question beside the one about contexts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cfopt.errors import InputError
from cfopt.problems.base import Problem
from cfopt.question.features import Features
from cfopt.question.proximity import L1, L2, LInf, Proximity


@dataclass(frozen=True)
class Prices:
    """That the costs themselves change, as little as possible, until the criterion holds.

    Arguments:
        proximity: what to keep small; by default the sum of all changes.
        features: what the entries of the costs may be: names, scales, bounds and locks, as for
            contexts.
    """

    proximity: Proximity = field(default_factory=L1)
    features: Features = field(default_factory=Features)

    def __post_init__(self) -> None:
        if not isinstance(self.proximity, L2 | L1 | LInf):
            raise InputError(
                f"Prices needs a proximity such as L1() or L2(), got {self.proximity!r:.80}."
            )
        if not isinstance(self.features, Features):
            raise InputError(f"Prices needs Features, got {self.features!r:.80}.")

    def entries(self, problem: Problem) -> Features:
        """The entries of the costs, all in the unit of the objective where no scales are given.

        Without names, with those that the problem has for them.
        """
        features, names = self.features, problem.cost_names
        if features.scale is None:
            features = replace(features, scale=[1.0] * problem.num_costs)
        if names is None and problem.num_costs == problem.num_columns:
            names = tuple(problem.cached_scene.names)
        if features.names is not None or names is None or len(set(names)) < len(names):
            return features
        return replace(features, names=names)
