"""The clock that limits of time are read from, all of them in one place.

A deadline is a moment of this clock, infinite where time is not limited.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

_listener: Callable[[], None] | None = None


def now() -> float:
    """The present moment, in seconds; only differences of moments mean anything."""
    if _listener is not None:
        _listener()
    return time.monotonic()


def heard_by(listener: Callable[[], None]) -> None:
    """Call a function whenever this process reads the clock.

    Whatever keeps a limit reads it between any two calls of a solver or a model. So a process in
    which nobody reads it any more is in a call that does not end.
    """
    global _listener
    _listener = listener


def is_over(deadline: float) -> bool:
    """Whether a deadline has passed."""
    return now() > deadline


def part_of(deadline: float, fraction: float) -> float:
    """The moment at which a fraction of the time that is left until a deadline will have passed."""
    return now() + fraction * (deadline - now())


@dataclass(frozen=True)
class Limit:
    """The time that one call of a user may take.

    Arguments:
        end: when to search no more.
        grace: for how many seconds after that what was found may still be verified.
    """

    end: float
    grace: float

    @classmethod
    def of(cls, seconds: float | None, began: float, deadline: float = math.inf) -> Limit:
        """So many seconds from a moment on, None for no limit, and in any case until a deadline."""
        end = min(math.inf if seconds is None else began + float(seconds), deadline)
        return cls(end, max(1.0, 0.05 * (end - began)))

    @property
    def closing(self) -> float:
        """When verification ends that begins now, be it late because a solve was."""
        return max(self.end, now()) + self.grace
