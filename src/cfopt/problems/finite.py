"""Decisions that can be listed: one matrix product solves a whole batch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array, Indices
from cfopt.errors import InputError
from cfopt.problems.arrays import as_array
from cfopt.problems.base import Problem
from cfopt.problems.conditions import Conditions
from cfopt.problems.sense import Sense
from cfopt.problems.solved import FEASIBILITY_TOLERANCE, NO_OTHER, ROUNDING, Solved

#: How many scores are held in memory at once (of 8 bytes).
_SCORES_AT_ONCE = 4_000_000


@registry.problems.register
class Finite(Problem):
    """A listed set of decisions, the best of which is found by scoring them all.

    Arguments:
        decisions: the decisions, `(D, n)`; of equal ones the first is kept.
        sense: "min" or "max".
    """

    def __init__(self, decisions: ArrayLike | Tensor, sense: Sense | str = Sense.MIN) -> None:
        listed = as_array("decisions", decisions)
        if listed.ndim != 2 or listed.size == 0 or not np.isfinite(listed).all():
            raise InputError(
                "Finite needs a table of finite decisions, (decisions, columns), with at least one "
                f"of each; got shape {listed.shape}."
            )
        _, first = np.unique(listed, axis=0, return_index=True)
        self._decisions: Array = np.ascontiguousarray(listed[np.sort(first)])
        self._largest = float(np.abs(listed).max())
        self.num_costs = listed.shape[1]
        self.sense = Sense(sense)
        # By torch, whose threads are awake already: NumPy's own would compete with them for the
        # cores at every step of a search, and make it many times slower.
        self._turned = torch.from_numpy(self.sense.sign * self._decisions).T  # (n, D)

    def optimise(self, prices: Array) -> Array:
        rows = max(1, _SCORES_AT_ONCE // len(self._decisions))
        if len(prices) <= rows:
            best = self._first_best(prices, self._scores(prices))
        else:
            parts = [prices[start : start + rows] for start in range(0, len(prices), rows)]
            best = np.concatenate([self._first_best(part, self._scores(part)) for part in parts])
        decisions: Array = self._decisions[best]
        return decisions

    def faults(self, decisions: Array) -> list[str]:
        near = [self._is(row).any() for row in decisions]
        count = len(self._decisions)
        return ["" if ok else f"is none of the {count} listed decisions" for ok in near]

    def column_bounds(self) -> tuple[Array, Array]:
        return self._decisions.min(axis=0), self._decisions.max(axis=0)

    def integer_columns(self) -> NDArray[np.bool_]:
        return np.asarray((self._decisions == self._decisions.round()).all(axis=0))

    def list_decisions(self, limit: int) -> Array | None:
        return self._decisions.copy() if len(self._decisions) <= limit else None

    def narrowed(self, conditions: Conditions) -> Finite | None:
        kept = self._decisions[conditions.met(self._decisions)]
        return Finite(kept, self.sense) if len(kept) else None

    @property
    def ranks_decisions(self) -> bool:
        """The list can be ranked, whatever its values."""
        return True

    def runner_up(self, prices: Tensor, decisions: Tensor) -> Solved:
        if len(self._decisions) == 1:
            failures = dict.fromkeys(range(len(prices)), NO_OTHER)
            return Solved(torch.full_like(prices, torch.nan), failures)
        host = prices.detach().to("cpu", torch.float64).numpy()
        own = decisions.detach().to("cpu", torch.float64).numpy()
        best = np.empty(len(host), dtype=np.intp)
        for row in range(len(host)):
            scores = self._scores(host[row : row + 1])
            scores[0, self._is(own[row])] = np.inf
            best[row] = self._first_best(host[row : row + 1], scores)[0]
        return Solved(torch.from_numpy(self._decisions[best]).to(prices.device, prices.dtype), {})

    def has_equal(self, prices: Tensor, decisions: Tensor, tolerance: float) -> Tensor:
        second = self.runner_up(prices, decisions)
        terms = prices * (second.decisions.to(prices) - decisions.to(prices))
        slack = tolerance * terms.abs().sum(1) + ROUNDING * prices.abs().amax(1)
        return self.sense.sign * terms.sum(1) <= slack

    def _is(self, decision: Array) -> NDArray[np.bool_]:
        """Which listed decisions a given one is, up to the tolerance: `(n,) -> (D,)`."""
        slack = FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(decision))
        return np.asarray((np.abs(self._decisions - decision) <= slack).all(axis=1))

    def _scores(self, prices: Array) -> Array:
        """The cost of each decision, in minimisation form: `(B, n) -> (B, D)`."""
        scores: Array = (torch.from_numpy(prices) @ self._turned).numpy()
        return scores

    def _first_best(self, prices: Array, scores: Array) -> Indices:
        """The index of each row's smallest score, the first of those equal but for rounding.

        A matrix product sums in another order for another batch size. Were ties left to its last
        bit, a row's decision would depend on the rows around it.
        """
        slack = 1e-14 * self._largest * np.abs(prices).sum(axis=1)
        best: Indices = np.argmax(scores <= (scores.min(axis=1) + slack)[:, None], axis=1)
        return best
