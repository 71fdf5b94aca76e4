"""What answers must hold under besides: contexts that are a little off, other predictors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from cfopt._typing import Array
from cfopt.pipeline import Predictor
from cfopt.question.proximity import Proximity


@dataclass(frozen=True, eq=False)
class OffBy:
    """By how much contexts may be off: `x + units * w` for every w of length `radius` at most.

    Arguments:
        radius: the length.
        norm: how it is measured.
        units: by how much each feature is off at a length of 1; 0 where it is known, `(p,)`.
    """

    radius: float
    norm: Proximity
    units: Array


@dataclass(frozen=True, eq=False)
class Variation:
    """What may be otherwise, without making an answer of the task wrong.

    Arguments:
        off_by: how far contexts may be off, if they may.
        predictors: further predictors; in eval mode while a search runs.
        words: where answers hold, in a sentence.
    """

    off_by: OffBy | None = None
    predictors: tuple[Predictor, ...] = ()
    words: str = ""

    def of_one_model(self) -> Self:
        """The same, for one predictor alone."""
        return replace(self, predictors=())
