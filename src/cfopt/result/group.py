"""One change for many contexts: what it is, in which rows it is enough, and what is proved."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from cfopt.names import counted, join_words
from cfopt.result.explanation import Explanation, is_optimal
from cfopt.result.nearness import measure_said

#: How many changes a summary lists.
_SHOWN = 6


@dataclass(frozen=True, eq=False)
class GroupExplanation:
    """The same change of some features in every row.

    Arguments:
        explanation: all rows after the change, each verified by a fresh solve: where the criterion
            holds, its status is valid.
        change: the change of each entry of a context, `(p,)`; 0 where none was found.
        needed: the number of rows in which the criterion had to hold.
        loss: what was minimised, the proximity of the change; NaN where none was found.
        bound: the loss that every change that is enough was proved to have at least; inf if there
            is none, NaN where nothing was proved.
        message: how it ended, in words.
    """

    explanation: Explanation
    change: Tensor
    needed: int
    loss: float
    bound: float
    message: str

    @property
    def holds(self) -> Tensor:
        """In which rows the criterion holds after the change, `(B,)`."""
        return self.explanation.valid

    @property
    def valid(self) -> bool:
        """Whether that is verified in as many rows as were needed."""
        return not math.isnan(self.loss) and int(self.holds.sum()) >= self.needed

    @property
    def distance(self) -> float:
        """How far the change goes, measured as every row's `distance`; NaN where none was found."""
        near = self.explanation.asked.near(self.explanation.x)
        return float(near.length(torch.tensor(self.loss, dtype=torch.float64)))

    @property
    def optimal(self) -> bool:
        """Whether it was proved that no smaller change is enough."""
        loss, bound = self.explanation.x0.new_tensor([[self.loss], [self.bound]]).double()
        return self.valid and bool(is_optimal(loss, bound)[0])

    @property
    def infeasible(self) -> bool:
        """Whether it was proved that no change is enough."""
        return self.bound == math.inf

    def table(self) -> pd.DataFrame:
        """Feature and change; the largest first, in units of its scale."""
        size = len(self.change)
        names = self.explanation.features.labels(size)
        scale = self.explanation.features.scales or [1.0] * size
        rows = [
            (name, value, abs(value) / unit)
            for name, value, unit in zip(names, self.change.tolist(), scale, strict=True)
            if value != 0
        ]
        rows.sort(key=lambda one: -one[2])
        return pd.DataFrame([one[:2] for one in rows], columns=["feature", "change"])

    def summary(self) -> str:
        """A few lines for the terminal."""
        rows, held = len(self.explanation), int(self.holds.sum())
        asked = f"One change for {counted(rows, 'context')}, enough in at least {self.needed}."
        lines = [asked, f"{self.message[0].upper()}{self.message[1:]}."]
        if math.isnan(self.loss):
            return "\n".join(lines)
        table = self.table()
        moves = [
            f"{name} {value:+.4g}" for name, value in table.head(_SHOWN).itertuples(index=False)
        ]
        more = len(table) - len(moves)
        moves += [f"{more} smaller ones"] if more else []
        lines.append(f"  {join_words(moves)}" if moves else "  nothing")
        after = f"After it, the criterion holds in {held} of {rows}."
        lines.append(f"{after} Distance {self.distance:.3g}.")
        return "\n".join([*lines, *measure_said(self.explanation)])
