"""Predictors cut into pieces by the judge itself: polyhedra with affine prices, cells of trees."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.hostile.instances import Array, predicted


class Piece(NamedTuple):
    """Where `rows @ x <= limit`, prices are `weight @ x + bias`."""

    rows: Array
    limit: Array
    weight: Array
    bias: Array


@dataclass(frozen=True)
class Predictor:
    """A predictor as deployed, its costs turned into prices of which less is better.

    Arguments:
        model: the model itself.
        sign: -1 where the problem maximises.
        shift: what is added to points first, `(p,)`: the row of a group, where points are changes.
    """

    model: Any
    sign: float
    shift: Array

    def prices(self, x: Array) -> Array:
        """`(K, p) -> (K, m)`."""
        return self.sign * predicted(self.model, x + self.shift)

    @cached_property
    def pieces(self) -> list[Piece] | None:
        """Every piece of an affine model or a ReLU network of one hidden layer, else None."""
        size, none = len(self.shift), np.zeros((0, len(self.shift)))
        if isinstance(self.model, torch.nn.Identity):
            return [Piece(none, none[:, 0], self.sign * np.eye(size), np.zeros(size))]
        if isinstance(self.model, torch.nn.Linear):
            return [self._shifted(none, none[:, 0], *_numbers(self.model))]
        if not isinstance(self.model, torch.nn.Sequential):
            return None
        first, between, last = self.model
        if not isinstance(between, torch.nn.ReLU):
            return None
        (inner, start), (outer, bias) = _numbers(first), _numbers(last)
        found = []
        for on in itertools.product([0.0, 1.0], repeat=len(start)):
            way = 1 - 2 * np.array(on)  # a unit that is on has inner @ x + start >= 0
            through = outer * on
            found.append(
                self._shifted(
                    way[:, None] * inner, -way * start, through @ inner, through @ start + bias
                )
            )
        return found

    def _shifted(self, rows: Array, limit: Array, weight: Array, bias: Array) -> Piece:
        moved = bias + weight @ self.shift
        return Piece(rows, limit - rows @ self.shift, self.sign * weight, self.sign * moved)

    @property
    def thresholds(self) -> list[Array] | None:
        """Where trees compare each feature, None without trees; there is no shift."""
        parts = getattr(self.model, "estimators_", None)
        if parts is None or self.shift.any():
            return None
        trees = []
        for part in parts:
            trees += [part] if hasattr(part, "tree_") else [*part.estimators_.flat]
        nodes = [
            (tree.tree_.feature[k], tree.tree_.threshold[k])
            for tree in trees
            for k in range(tree.tree_.node_count)
        ]
        return [
            np.unique([cut for feature, cut in nodes if feature == j])
            for j in range(len(self.shift))
        ]


def cells(cuts: list[Array]) -> tuple[Array, Array]:
    """The least and the greatest float32 numbers of every cell between cuts: two of `(K, p)`.

    Trees compare float32 numbers: on the left is what is at most the cut.
    """
    sides = []
    for values in cuts:
        last = values.astype(np.float32)
        above = last > values
        last[above] = np.nextafter(last[above], np.float32(-np.inf))
        first = np.nextafter(last, np.float32(np.inf))
        sides.append([*zip([-np.inf, *first], [*last, np.inf], strict=True)])
    both = np.array([*itertools.product(*sides)], dtype=np.float64)
    return both[:, :, 0], both[:, :, 1]


def _numbers(layer: torch.nn.Linear) -> tuple[Array, Array]:
    return layer.weight.detach().numpy(), layer.bias.detach().numpy()
