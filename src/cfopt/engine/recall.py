"""What was solved and read off before, so that nothing is solved or read off twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.problems.base import Problem, Solved


class Recall:
    """Proven optima by their prices, for the length of one explanation.

    The factual contexts are solved to learn the decisions and again to see whether they already
    explain; what a search found is verified between searches and at the end. The same prices have
    the same answer, so the second time it is looked up.

    Attributes:
        read: what was read off predictors, with each of them, by their identities.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Array, float, str]] = {}
        self.read: dict[int, tuple[object, Any]] = {}

    def keep(self, prices: Tensor, solved: Solved) -> None:
        """Remember answers: `(B, m)` in float64 on the CPU, and what a proven solve said."""
        known = solved.shortfall
        shortfall = [0.0] * len(prices) if known is None else known.double().tolist()
        answers = zip(_keys(prices), solved.decisions.numpy(), shortfall, strict=True)
        for row, (key, decision, missed) in enumerate(answers):
            self._known[key] = decision, missed, solved.failures.get(row, "")

    def attempt(self, problem: Problem, prices: Tensor) -> Solved:
        """As `problem.attempt`, of rows whose prices are new: `(B, m) -> Solved`."""
        keys = _keys(prices)
        new = {key: row for row, key in enumerate(keys) if key not in self._known}
        if new:
            rows = sorted(new.values())
            self.keep(prices[rows], problem.attempt(prices[rows]))
        answers = [self._known[key] for key in keys]
        decisions = np.stack([decision for decision, *_ in answers]) if answers else prices.numpy()
        missed = torch.tensor([missed for _, missed, _ in answers], dtype=torch.float64)
        failures = {row: why for row, (*_, why) in enumerate(answers) if why}
        return Solved(torch.from_numpy(decisions), failures, missed if missed.any() else None)


def _keys(prices: Tensor) -> list[bytes]:
    return [row.tobytes() for row in prices.numpy() + 0.0]  # + 0.0 turns -0.0 into 0.0
