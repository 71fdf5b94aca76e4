"""Numbers as the report prints them: rounded against the claim they serve, and without noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from cfopt.drawing.elements import without_noise
from cfopt.engine.rules import TOLERANCE

#: Significant digits: the usual number, and the most where fewer would hide a difference.
_USUAL, _MOST = 4, 9


def percent_up(fraction: float) -> str:
    """A fraction in whole percent, rounded up."""
    # The last digits of a quotient are rounding: 100.00000000000001 is 100.
    return f"{math.ceil(round(100 * fraction, 8))}%"


def with_enough_digits(
    values: Sequence[float], equal: float = TOLERANCE, trailing: bool = False
) -> list[str]:
    """Numbers that stand together, with enough digits that those that differ look different.

    Arguments:
        values: the numbers; "?" stands for those that are not finite.
        equal: the fraction of the largest up to which two of them count as equal.
        trailing: whether zeros at the end are kept.
    """
    largest = max([abs(value) for value in values if math.isfinite(value)], default=0.0)
    values = [without_noise(value, largest) for value in values]
    ordered = sorted([value for value in values if math.isfinite(value)])
    pairs = [(a, b) for a, b in pairwise(ordered) if b - a > equal * largest]
    digits = _USUAL
    while digits < _MOST and any(f"{a:.{digits}g}" == f"{b:.{digits}g}" for a, b in pairs):
        digits += 1
    style = f"{'#' if trailing else ''}.{digits}g"
    return [_printed(value, style) for value in values]


def _printed(value: float, style: str) -> str:
    if not math.isfinite(value):
        return "?"
    return f"{value:{style}}".rstrip(".") if value else "0"
