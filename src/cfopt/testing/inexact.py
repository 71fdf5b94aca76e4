"""A solver with a chosen inaccuracy, for tests of what is claimed about answers like its own."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.problems.base import Problem
from cfopt.problems.solved import FEASIBILITY_TOLERANCE


class InexactOracle(Problem):
    """A problem of listed decisions, solved as inexactly as one likes, and always alike.

    Entries may be off by noise, as in the answers of an interior point, which lie a little inside
    or outside of the feasible set. And where there is a gap, the answer is the worst decision that
    a solver could stop at: the one that falls short of the best by the largest amount within
    `gap * |value of the answer|`.

    Arguments:
        problem: an exact problem whose decisions can be listed.
        noise: the most by which each entry of an answer may be off.
        gap: the fraction of its value by which an answer may fall short.
        declared: whether the problem says how inexact it is. Many solvers do not.
        listed: whether it lists the exact decisions; a solver usually cannot.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        noise: float = 0.0,
        gap: float = 0.0,
        declared: bool = True,
        listed: bool = False,
    ) -> None:
        decisions = problem.decisions()
        if decisions is None:
            raise InputError(
                "InexactOracle needs a problem whose decisions can be listed; those of this "
                f"{type(problem).__name__} cannot. Pass a smaller one."
            )
        if not (noise >= 0 and 0 <= gap < 1):
            raise InputError(
                f"InexactOracle needs noise >= 0 and 0 <= gap < 1, got {noise!r} and {gap!r}."
            )
        self.wrapped = problem
        self.num_costs = problem.num_costs
        self.sense = problem.sense
        self.noise, self.gap = noise, gap
        self.binary = problem.binary and noise == 0
        self.declared, self.listed = declared, listed
        self.tolerance = gap if declared else 0.0
        self._decisions: Array = decisions.numpy()

    @property
    def num_columns(self) -> int:
        return self.wrapped.num_columns

    def prices(self, costs: Tensor) -> Tensor:
        return self.wrapped.prices(costs)

    def optimise(self, prices: Array) -> Array:
        """A decision within the gap of the best, with noise: a function of the prices alone."""
        turned = self.sense.sign * prices
        # Each decision summed on its own: the last bits must not depend on the rows around it.
        values = np.stack([(turned * decision).sum(axis=1) for decision in self._decisions], axis=1)
        shortfall = values - values.min(axis=1, keepdims=True)
        within = shortfall <= self.gap * np.abs(values)
        chosen = np.where(within, shortfall, -1.0).argmax(axis=1)
        size = np.maximum(np.abs(prices).max(axis=1, keepdims=True), np.finfo(float).tiny)
        wave = np.sin(1e3 * prices / size + np.arange(prices.shape[1]))
        answers: Array = self._decisions[chosen] + self.noise * wave
        return answers

    def optimise_within(self, prices: Array) -> tuple[Array, Array]:
        """What is declared of the answers: the gap, and what noise in every entry can cost."""
        decisions, shortfall = super().optimise_within(prices)
        if self.declared:
            shortfall = shortfall + self.noise * np.abs(prices).sum(axis=1)
        return decisions, shortfall

    def exact_decisions(self, decisions: Array) -> Array:
        """The listed decisions that are nearest to inexact ones: `(B, m) -> (B, m)`."""
        distance = [np.abs(self._decisions - decision).max(axis=1) for decision in decisions]
        nearest: Array = self._decisions[np.argmin(distance, axis=1)]
        return nearest

    def faults(self, decisions: Array) -> list[str]:
        """A decision is feasible if it is a listed one but for the noise."""
        slack = FEASIBILITY_TOLERANCE + self.noise
        off = np.abs(decisions - self.exact_decisions(decisions)).max(axis=1)
        return ["" if miss <= slack else "is not a decision of the solver" for miss in off]

    def list_decisions(self, limit: int) -> Array | None:
        return self.wrapped.list_decisions(limit) if self.listed else None

    def __repr__(self) -> str:
        how = "declared" if self.declared else "undeclared"
        return f"InexactOracle(noise={self.noise:g}, gap={self.gap:g}, {how})"
