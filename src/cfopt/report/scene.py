"""What one picture of a task shows."""

from __future__ import annotations

from dataclasses import dataclass

from cfopt.types import Array


@dataclass(frozen=True)
class Line:
    """A decision `(m,)` and its role: "factual", "other", "third", "rival1" or "rival2"."""

    decision: Array
    role: str


@dataclass(frozen=True)
class Panel:
    """One picture: decisions over prices.

    Arguments:
        prices: of each column, `(m,)`.
        strong: the decision in the foreground.
        weak: those to compare it with.
        low, high: the range of prices, shared by the panels of a task.
        label: what is seen, in words.
        backdrop: the map to draw on, as a data URI; "" for the costs.
    """

    prices: Array
    strong: Line
    weak: tuple[Line, ...]
    low: float
    high: float
    label: str
    backdrop: str = ""
