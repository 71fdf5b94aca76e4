"""What was solved and read off before, so that neither is done twice for one explanation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cfopt._rows import row_keys, stacked
from cfopt._typing import Array
from cfopt.problems.base import Problem
from cfopt.problems.solved import TIME_IS_UP, Solved

#: A decision, by how much it may fall short, and why there is none.
_Answer = tuple[Array, float, str]


class Recall:
    """Proven optima by their prices, for the length of one explanation.

    The factual contexts are solved to learn the decisions and again to see whether they already
    explain; what a search found is verified between searches and at the end. The same prices have
    the same answer, so the second time it is looked up.

    Attributes:
        maps: what has been read off affine predictors, beside each predictor itself, which is kept
            so that no other object can take its identity.
        verdict: what was verified last: what was asked, of which contexts, and the verdict. What
            ends a search and what settles its rows ask for the same, by another deadline.
    """

    def __init__(self) -> None:
        self.maps: dict[Any, tuple[Any, Any]] = {}
        self.verdict: tuple[tuple[Any, ...], Tensor, Any] | None = None
        self._known: dict[bytes, _Answer] = {}

    def keep(self, prices: Tensor, solved: Solved) -> dict[bytes, _Answer]:
        """Remember answers: `(B, m)` in float64 on the CPU, and what a proven solve said.

        Returns all of them, with those that there was no time for, which are not remembered.
        """
        known = solved.shortfall
        shortfall = [0.0] * len(prices) if known is None else known.double().tolist()
        answers = zip(row_keys(prices.numpy()), solved.decisions.numpy(), shortfall, strict=True)
        found = {
            key: (decision, missed, solved.failures.get(row, ""))
            for row, (key, decision, missed) in enumerate(answers)
        }
        self._known |= {key: one for key, one in found.items() if one[2] != TIME_IS_UP}
        return found

    def attempt(self, problem: Problem, prices: Tensor) -> Solved:
        """As `problem.attempt`, of rows whose prices are new: `(B, m) -> Solved`."""
        keys = row_keys(prices.numpy())
        new = {key: row for row, key in enumerate(keys) if key not in self._known}
        rows = sorted(new.values())
        fresh = self.keep(prices[rows], problem.attempt(prices[rows])) if rows else {}
        answers = [fresh.get(key) or self._known[key] for key in keys]
        decisions = stacked([decision for decision, *_ in answers]) if answers else prices.numpy()
        missed = torch.tensor([missed for _, missed, _ in answers], dtype=torch.float64)
        failures = {row: why for row, (*_, why) in enumerate(answers) if why}
        return Solved(torch.from_numpy(decisions), failures, missed if missed.any() else None)
