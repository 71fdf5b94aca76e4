"""Affine steps of another library's model as one matrix and one vector."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from cfopt._typing import Array
from cfopt.pipeline import Columns

#: How many rows are put through the model at once.
_AT_ONCE = 1024
#: How far, as a fraction of the terms of a sum, the model may be from the matrix read off it.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Inputs:
    """What a model or a step of it is given.

    Arguments:
        width: the number of columns that it was fitted on.
        columns: those of them that it reads, if it reads DataFrames.
        named: whether they have names there, or are those of an array.
    """

    width: int
    columns: Columns | None = None
    named: bool = True

    @property
    def size(self) -> int:
        """The number of features."""
        return self.width if self.columns is None else len(self.columns.layout.labels)

    def __call__(self, x: Array) -> Any:
        """Features as the model reads them: `(B, p)`."""
        if self.columns is None:
            return x
        frame = self.columns.decode(x)
        return frame if self.named else frame.to_numpy(dtype=object)

    @property
    def base(self) -> Array:
        """A context of zeros, with the first value of each category: `(p,)`."""
        base = np.zeros(self.size)
        base[[group[0] for group in self.groups]] = 1.0
        return base

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The features of each category."""
        return () if self.columns is None else self.columns.layout.groups


def fold(function: Callable[[Any], Any], inputs: Inputs) -> nn.Linear | None:
    """An affine function as a layer in float64; None if its values are not those of one.

    The weights are read off by giving it one row for each feature, rather than by formulas for
    each of its steps. That is safe because the function is known to be affine by its structure
    (`structure.py`), so that it is determined by these rows: of a category, the rows in which it
    has each of its values. Other rows are tried as well, which can only speak against it.

    Arguments:
        function: `predict` or `transform` of a fitted model, `(B, p) -> (B, n)` or `(B,)`.
        inputs: what it is given.
    """
    values, base = evaluated(function, inputs), inputs.base
    at_base = values(base[None])[0]
    step = np.ones(inputs.size)
    members = [j for group in inputs.groups for j in group]
    weight = _slopes(values, base, at_base, step, inputs)
    # Again, by steps that change values by as much as they are: otherwise the slopes of features
    # that are large would drown in the rounding of a large constant.
    size = np.maximum(np.abs(at_base).max(initial=0.0), 1e-6)
    slope = np.abs(weight).max(axis=0, initial=0.0)
    with np.errstate(divide="ignore"):
        exponent = np.round(np.log2(np.where(slope > 0, size / slope, 1.0)))
    step = np.exp2(np.clip(exponent, -60, 60))
    step[members] = 1.0
    weight = _slopes(values, base, at_base, step, inputs)
    if not np.isfinite(weight).all() or not _agrees(values, weight, at_base, base, step, inputs):
        return None
    bias = at_base - weight @ base
    layer = nn.Linear(inputs.size, len(at_base)).double().requires_grad_(False)
    layer.weight.copy_(torch.from_numpy(weight))
    layer.bias.copy_(torch.from_numpy(bias))
    return layer


def evaluated(function: Callable[[Any], Any], inputs: Inputs) -> Callable[[Array], Array]:
    """`predict` or `transform` of a fitted model on features, in float64: `(B, p) -> (B, n)`.

    Arguments:
        function: the method.
        inputs: what it is given.
    """

    def values(x: Array) -> Array:
        return np.concatenate([_called(function, inputs(part)) for part in _chunks(x)])

    return values


def _slopes(
    values: Callable[[Array], Array], base: Array, at_base: Array, step: Array, inputs: Inputs
) -> Array:
    """What values change by, for each feature: `(n, p)`."""
    rows = base + np.diag(step)
    for group in inputs.groups:
        members = list(group)
        rows[np.ix_(members, members)] = np.eye(len(members))
    slopes: Array = ((values(rows) - at_base) / step[:, None]).T
    return slopes


def _agrees(
    values: Callable[[Array], Array],
    weight: Array,
    at_base: Array,
    base: Array,
    step: Array,
    inputs: Inputs,
) -> bool:
    """Whether rows that differ in all features at once have the values they should."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, inputs.size)) * step
    for group in inputs.groups:
        x[:, list(group)] = np.eye(len(group))[rng.integers(len(group), size=len(x))]
    expected = at_base + (x - base) @ weight.T
    terms = np.abs(at_base) + np.abs(x - base) @ np.abs(weight).T
    return bool((np.abs(values(x) - expected) <= _TOLERANCE * terms.max(1, keepdims=True)).all())


def _chunks(x: Array) -> list[Array]:
    return [x[start : start + _AT_ONCE] for start in range(0, len(x), _AT_ONCE)]


def _called(function: Callable[[Any], Any], given: Any) -> Array:
    """What a function of another library gives, as an array `(B, n)` of float64."""
    with warnings.catch_warnings():
        # A step within a model may miss the names that the model itself is given.
        warnings.simplefilter("ignore")
        found = function(given)
    found = found.toarray() if hasattr(found, "toarray") else found
    return np.asarray(found, dtype=np.float64).reshape(len(given), -1)
