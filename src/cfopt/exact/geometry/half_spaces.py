"""Half-spaces of a change of context: how exactly they are known, how far they may be broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cfopt._typing import Array


class HalfSpaces(NamedTuple):
    """`normals @ u <= limits`, and how exactly they are known.

    Arguments:
        normals: `(C, p)`.
        limits: `(C,)`.
        rounding: the most that each limit should be undercut, so that rounding elsewhere does not
            break it, `(C,)`. Solutions respect it where they can; proofs do without.
        doubt: the uncertainty of the limits, `(C,)`.
        grain: the uncertainty of the entries of the normals, `(C,)`.
    """

    normals: Array
    limits: Array
    rounding: Array
    doubt: Array
    grain: Array

    def part(self, first: int, end: int) -> HalfSpaces:
        """Some of them, the end not included."""
        rows = slice(first, end)
        return HalfSpaces(
            self.normals[rows],
            self.limits[rows],
            self.rounding[rows],
            self.doubt[rows],
            self.grain[rows],
        )

    @classmethod
    def joined(cls, parts: Sequence[HalfSpaces]) -> HalfSpaces:
        """Those of each part, one part after the other."""
        return cls(*_join(parts))

    @classmethod
    def interleaved(cls, parts: Sequence[HalfSpaces]) -> HalfSpaces:
        """The first of each part, then the second of each, and so on."""
        return cls(*_interleave(parts))


class Leeway(NamedTuple):
    """By how much rows may be broken by a change u: `constant + growth @ |u|`.

    Arguments:
        constant: `(k,)`.
        growth: `(k, p)`.
    """

    constant: Array
    growth: Array

    @classmethod
    def joined(cls, parts: Sequence[Leeway]) -> Leeway:
        """That of each part, one part after the other."""
        return cls(*_join(parts))

    @classmethod
    def interleaved(cls, parts: Sequence[Leeway]) -> Leeway:
        """The first of each part, then the second of each, and so on."""
        return cls(*_interleave(parts))


def _join(parts: Sequence[HalfSpaces] | Sequence[Leeway]) -> list[Array]:
    """The fields of parts, one part after the other."""
    return [np.concatenate(values) for values in zip(*parts, strict=True)]


def _interleave(parts: Sequence[HalfSpaces] | Sequence[Leeway]) -> list[Array]:
    """The fields of parts that have as many rows each, row by row."""
    joined = [np.stack(values, axis=1) for values in zip(*parts, strict=True)]
    return [values.reshape(-1, *values.shape[2:]) for values in joined]
