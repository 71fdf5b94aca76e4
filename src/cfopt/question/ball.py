"""Would it hold if the context were a little off?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real

import numpy as np

from cfopt import registry
from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.question.features import Features
from cfopt.question.limits import Which
from cfopt.question.proximity import L1, L2, LInf, Proximity
from cfopt.question.robustness import Robustness


@registry.robustness.register
@dataclass(frozen=True)
class Ball(Robustness):
    """Every context within a radius of the answer, such as the error of a forecast or a sensor.

    Distances count in units of the features' scales: those given, else the usual changes in the
    reference; without both, in the features' own units. Every feature that is a plain number may be
    off: bounds and locks say what a planner may choose, and do not keep a forecast from being
    wrong. Whole numbers, one-hot groups and categories are counted or chosen, not measured, and are
    taken to be known, and so are the features listed in `known`.

    Arguments:
        radius: how far contexts may be off, > 0; a plain distance, not its square.
        norm: how that is measured: `L2()`, `L1()` for the sum of all errors, or `LInf()` for the
            largest of them. With scales of its own, it counts in these.
        known: further features that are not off, by name or number.
    """

    radius: float
    norm: Proximity = field(default_factory=L2)
    known: Sequence[Which] = ()

    def __post_init__(self) -> None:
        radius = self.radius
        number = isinstance(radius, Real) and not isinstance(radius, bool)
        if not number or not (radius > 0 and math.isfinite(radius)):
            raise InputError(
                "Ball needs a finite radius > 0, in units of the features' scales; got "
                f"{radius!r:.60}."
            )
        if not isinstance(self.norm, L2 | L1 | LInf):
            raise InputError(f"Ball needs L2(), L1() or LInf() as its norm, got {self.norm!r:.80}.")
        if isinstance(self.known, str):
            raise InputError(f"known of Ball needs a list of features, got {self.known!r}.")
        object.__setattr__(self, "radius", float(radius))
        object.__setattr__(self, "known", tuple(self.known))

    @property
    def ball(self) -> Ball:
        return self

    @property
    def words(self) -> str:
        measured = "" if isinstance(self.norm, L2) else f", measured {self.norm.words}"
        return f"in every context within {self.radius:g} of it{measured}"

    def units(self, features: Features, size: int) -> Array:
        """By how much each feature is off at a distance of 1; 0 where it is known: `(p,)`."""
        units: Array = np.ones(size)
        if self.norm.scale is not None:
            units = self.norm.units(size)
            if len(units) != size:
                raise InputError(
                    f"The contexts have {size} features, but the norm of Ball has {len(units)} "
                    "scales."
                )
        elif features.scales is not None:
            units = np.array(features.scales, dtype=np.float64)
        still = features.whole(size) | features.mask("known of Ball", self.known, size)
        return np.where(still, 0.0, units)
