"""What a problem answers: best decisions, why rows have none, and when two of them are the same."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

#: How far a decision may break a constraint, and an integer column miss an integer, as a fraction
#: of its size (at least of 1).
FEASIBILITY_TOLERANCE = 1e-6
#: How exactly prices are known at best, as a fraction of the largest of them.
ROUNDING = 1e-12
#: Why rows fail that are asked for after the deadline.
TIME_IS_UP = "time is up"
#: Why there is no second-best decision.
NO_OTHER = "there is no other decision"


@dataclass(frozen=True)
class Solved:
    """Best decisions, and how good they are known to be.

    Arguments:
        decisions: `(B, m)`; NaN in rows without one.
        failures: why a row has none.
        shortfall: the most by which the value of each may fall short of the best, `(B,)`; None
            where all are proven optima.
    """

    decisions: Tensor
    failures: dict[int, str]
    shortfall: Tensor | None = None


def same_decision(left: Tensor, right: Tensor) -> Tensor:
    """Whether decisions agree up to the solvers' tolerance: `(B, m), (B, m) -> (B,)`."""
    return ((left - right).abs() <= FEASIBILITY_TOLERANCE * right.abs().clamp(min=1)).all(1)
