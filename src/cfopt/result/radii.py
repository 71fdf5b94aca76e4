"""How far answers may be off, as a result keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from torch import Tensor

from cfopt._batch import ROWS, Batch


class RadiusKind(StrEnum):
    """What is known about a radius."""

    EXACT = "exact"
    AT_LEAST = "at least"
    AT_MOST = "at most"
    UNKNOWN = ""


@dataclass(frozen=True, eq=False)
class Radii(Batch):
    """How far each row's context may be off before the criterion stops holding.

    Arguments:
        length: the distance, NaN where nothing is known, `(B,)`.
        kind: how it is known.
    """

    length: Tensor = field(metadata=ROWS)
    kind: tuple[str, ...] = field(metadata=ROWS)
