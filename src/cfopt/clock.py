"""The clock that limits of time are read from, all of them in one place.

A deadline is a moment of this clock, infinite where time is not limited.
"""

from __future__ import annotations

import time


def now() -> float:
    """The present moment, in seconds; only differences of moments mean anything."""
    return time.monotonic()


def is_over(deadline: float) -> bool:
    """Whether a deadline has passed."""
    return now() > deadline


def part_of(deadline: float, fraction: float) -> float:
    """The moment at which a fraction of the time that is left until a deadline will have passed."""
    return now() + fraction * (deadline - now())
