"""The units in which changes count: given by the caller, or learned from known contexts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cfopt._typing import Array
from cfopt.errors import InputError

if TYPE_CHECKING:  # which check their scales here
    from cfopt.question.features import Features

#: The interquartile range of a normal distribution, in standard deviations.
QUARTILES_APART = 1.349
#: Values that differ by less than this fraction of the largest of them differ by rounding.
_ROUNDING = 1e-9


def check_scale(scale: Tensor) -> None:
    """Raise InputError unless every scale is finite and > 0."""
    bad = ~(scale.isfinite() & (scale > 0))
    if bad.any():
        first = int(bad.reshape(-1).nonzero()[0])
        value = scale.reshape(-1)[first]
        raise InputError(
            f"Scales need to be finite and > 0, got {value:g} for feature {first}. A feature that "
            "never varies can have scale 1."
        )


def in_usual_units(features: Features, known: Tensor) -> Features:
    """Features that count in the usual changes of known contexts, unless they have scales.

    Not of images: their pixels are in one unit already, and the same change of a colour should
    count the same in a pixel that hardly differs among the known images.

    Arguments:
        features: those of the contexts.
        known: the known contexts, `(N, ...)`.
    """
    if features.unit is not None or known.ndim > 2:
        return features
    usual = usual_changes(known)
    if usual is None:
        return features
    layout, entries = features.layout, usual.tolist()
    # A category counts as one of its entries does: these are 0 or 1, and have scale 1.
    each = entries if layout is None else [entries[place[0]] for place in layout.places]
    return replace(features, usual=each)


def usual_changes(known: Tensor) -> Array | None:
    """How much features usually differ among known contexts: `(N, p) -> (p,)`.

        (third quartile - first quartile) / 1.349

    For a normal distribution that is the standard deviation, but a few extreme values do not change
    it. The range stands in where the quartiles are equal, and where a feature has two values only:
    flags and one-hot columns have scale 1. So does a feature that never varies. Values that are not
    finite do not count. None if no feature varies, as in a single context.
    """
    columns = known.detach().to("cpu", torch.float64).numpy().T
    found = np.array([_usual_change(values[np.isfinite(values)]) for values in columns])
    return np.where(found > 0, found, 1.0) if found.any() else None


def _usual_change(values: Array) -> float:
    """The usual change of one feature, 0 if it never varies: `(N,)`."""
    if not len(values):
        return 0.0
    low, first, third, high = np.quantile(values, [0, 0.25, 0.75, 1])
    same = _ROUNDING * max(abs(low), abs(high))
    if high - low <= same:
        return 0.0
    two_values = bool(((values - low <= same) | (high - values <= same)).all())
    apart = float(third - first)
    return float(high - low) if two_values or apart <= same else apart / QUARTILES_APART
