"""What was solved and read off before, so that neither is done twice for one explanation."""

from __future__ import annotations

from typing import Any
from weakref import ref

import torch
from torch import Tensor

from cfopt._rows import row_keys, stacked
from cfopt._typing import Array
from cfopt.problems.base import Problem
from cfopt.problems.solved import Solved


class Recall:
    """Proven optima by their prices, for the length of one explanation.

    The factual contexts are solved to learn the decisions and again to see whether they already
    explain; what a search found is verified between searches and at the end. The same prices have
    the same answer, so the second time it is looked up.

    Attributes:
        maps: what has been read off affine predictors, beside each predictor itself, which is kept
            so that no other object can take its identity.
        verdict: what was verified last: the task, its contexts and the verdict. What ends a search
            and what settles its rows ask for the same.
    """

    def __init__(self) -> None:
        self.maps: dict[Any, tuple[Any, Any]] = {}
        self.verdict: tuple[ref[Any], Tensor, Any] | None = None
        self._known: dict[bytes, tuple[Array, float, str]] = {}

    def keep(self, prices: Tensor, solved: Solved) -> None:
        """Remember answers: `(B, m)` in float64 on the CPU, and what a proven solve said."""
        known = solved.shortfall
        shortfall = [0.0] * len(prices) if known is None else known.double().tolist()
        answers = zip(row_keys(prices.numpy()), solved.decisions.numpy(), shortfall, strict=True)
        for row, (key, decision, missed) in enumerate(answers):
            self._known[key] = decision, missed, solved.failures.get(row, "")

    def attempt(self, problem: Problem, prices: Tensor) -> Solved:
        """As `problem.attempt`, of rows whose prices are new: `(B, m) -> Solved`."""
        keys = row_keys(prices.numpy())
        new = {key: row for row, key in enumerate(keys) if key not in self._known}
        if new:
            rows = sorted(new.values())
            self.keep(prices[rows], problem.attempt(prices[rows]))
        answers = [self._known[key] for key in keys]
        decisions = stacked([decision for decision, *_ in answers]) if answers else prices.numpy()
        missed = torch.tensor([missed for _, missed, _ in answers], dtype=torch.float64)
        failures = {row: why for row, (*_, why) in enumerate(answers) if why}
        return Solved(torch.from_numpy(decisions), failures, missed if missed.any() else None)
