"""What multipliers prove about many systems at once, where these are half-spaces alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cfopt._typing import Array, Indices
from cfopt.exact.geometry.half_spaces import HalfSpaces
from cfopt.exact.geometry.support import Support
from cfopt.exact.geometry.system import ROUNDING, lengths


def bounds_of_many(cuts: HalfSpaces, multipliers: Array, starts: Indices) -> Array:
    """Lower bounds on `|u|^2` in each of some systems: `(B,)`; inf where nothing satisfies it.

    As `proved_bound` says of one `System` without bounds on u, without rows but these, and of one
    `Leaf`, for the squared Euclidean norm. With `g = sum_k mu_k a_k` and `c = sum_k mu_k b_k` over
    a system's half-spaces `a_k u <= b_k`, whose normals have norm 1, every solution has
    `g u <= c`, and so costs at least

        max(-|g|^2 / 4 - c, (c / |g|)^2 where c < 0).

    Arguments:
        cuts: the half-spaces of all systems, those of the first one first.
        multipliers: one for each half-space, `(N,)`; none counts that is below 0.
        starts: where the half-spaces of each system start, `(B,)`, ascending; none is empty.
    """
    norm = lengths(cuts.normals)
    limits, doubt = cuts.limits / norm, cuts.doubt / norm
    above, weight = np.maximum(multipliers, 0.0), np.abs(multipliers)

    def total(values: Array) -> Array:
        sums: Array = np.add.reduceat(values, starts, axis=0)
        return sums

    g = total(above[:, None] * (cuts.normals / norm[:, None]))
    c = total(above * limits)
    # Rounding must not pass for an excess.
    excess = -c - total(weight * (ROUNDING * np.abs(limits) + doubt))
    known = total(weight * (cuts.grain / norm + ROUNDING))
    refuted = (excess > 0) & (np.abs(g) <= known[:, None]).all(axis=1)
    square = np.square(g).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = np.where(excess > 0, excess / np.sqrt(square), 0.0)
    bound = np.maximum(np.maximum(0.0, -0.25 * square - c), np.square(radius))
    return np.where(refuted, np.inf, bound)


def bounds_by_case(
    cuts: HalfSpaces,
    multipliers: Sequence[Array],
    starts: Indices,
    supports: Sequence[Support | None],
) -> Array:
    """The same where only some entries may change, by multipliers for each case: `(B,)`.

    As `proved_bound` says of one `System` with a support, and of one `Cases`: the least over the
    cases of `-|g|^2 / 4 - c`, where g has the entries that may change. 0 where they do not fit.

    Arguments:
        multipliers: those of each system, `(H, K)`.
        supports: which entries may change.
    """
    norm = lengths(cuts.normals)
    normals, limits = cuts.normals / norm[:, None], cuts.limits / norm
    bounds = np.zeros(len(starts))
    ends = [*starts[1:].tolist(), len(limits)]
    for k, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
        cases = None if (support := supports[k]) is None else support.decided_cases
        above = np.maximum(multipliers[k], 0.0)
        if cases is None or len(cases) != len(above):
            continue
        g = (above @ normals[start:end]) * cases
        values = -(above @ limits[start:end]) - 0.25 * np.square(g).sum(axis=1)
        bounds[k] = max(0.0, float(values.min()))
    return bounds
