"""Where the explanations of one row can be: near, within limits, beyond a plane."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cfopt._typing import Array
from cfopt.exact.geometry import Euclidean, Largest, Norm

#: Steps of the search for the best multiple of a plane, where it has no closed form.
_SEARCHES = 30
#: Steps of the search for the radius that a plane leaves out.
_BISECTIONS = 45
#: Rounding of sums of products, as a fraction of their terms: bounds are lowered by it.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Plane:
    """`slope @ u + level <= 0`, for every explanation of a region."""

    slope: Array
    level: float


@dataclass(frozen=True)
class Region:
    """Changes u within bounds, no farther than a radius.

    Arguments:
        lower, upper: bounds that contain 0 or not, `(p,)`.
        radius: the largest length, by the norm.
        norm: what u costs: a power of its length.
    """

    lower: Array
    upper: Array
    radius: float
    norm: Norm

    @property
    def euclidean(self) -> bool:
        """Whether lengths are Euclidean."""
        return isinstance(self.norm, Euclidean)

    @property
    def _ends(self) -> tuple[Array, Array]:
        """The bounds; by the largest change the radius is one for every feature."""
        if not isinstance(self.norm, Largest):
            return self.lower, self.upper
        return np.maximum(self.lower, -self.radius), np.minimum(self.upper, self.radius)

    def within(self, lower: Array, upper: Array) -> Region:
        """The region with other bounds."""
        return replace(self, lower=lower, upper=upper)

    def least(self, slopes: Array) -> Array:
        """A lower bound of `min slopes @ u`: `(R, p) -> (R,)`.

        The better of two: what the bounds alone say, and what the radius says where entries can
        move in the direction that lowers the product.
        """
        lower, upper = self._ends
        ends = np.where(slopes > 0, lower, upper)
        with np.errstate(invalid="ignore"):
            terms = np.where(slopes == 0, 0.0, slopes * ends)
        by_bounds = terms.sum(axis=1) - ROUNDING * np.abs(terms).sum(axis=1)
        # An entry that must move away from 0 may move farther, as far as this bound knows.
        free = np.where(slopes > 0, self.lower < 0, self.upper > 0)
        falling = np.where(free, slopes, 0.0)
        length = self.norm.dual(falling)
        if np.isinf(self.radius):
            by_radius = np.where(length > 0, -np.inf, 0.0)
        else:
            by_radius = -self.radius * length * (1 + ROUNDING)
        least: Array = np.maximum(by_bounds, by_radius)
        return least

    def least_beyond(self, slopes: Array, plane: Plane | None) -> Array:
        """A lower bound of `min slopes @ u` where a plane's inequality holds: `(R, p) -> (R,)`.

        By Lagrange: `least(slopes + t plane.slope) + t plane.level` for any t >= 0.
        """
        bound = self.least(slopes)
        if plane is None or not np.isfinite(self.radius):
            return bound
        multiple = self._multiples(slopes, plane)
        with np.errstate(invalid="ignore"):
            eased = self.least(slopes + multiple[:, None] * plane.slope)
            better = eased + multiple * plane.level - ROUNDING * multiple * abs(plane.level)
        return np.fmax(bound, better)

    def _multiples(self, slopes: Array, plane: Plane) -> Array:
        """The t for which the bound is about largest, `(R,)`."""
        if not self.euclidean:
            return self._searched(slopes, plane)
        size = float(np.sqrt(plane.slope @ plane.slope))
        if size == 0:
            return np.zeros(len(slopes))
        along = slopes @ plane.slope / size
        across = np.sqrt(np.maximum(np.square(slopes).sum(axis=1) - along**2, 0.0))
        depth = plane.level / size  # the distance of 0 from the plane
        rest = np.sqrt(max(self.radius**2 - depth**2, 1e-18 * self.radius**2))
        best: Array = np.maximum(across * depth / rest - along, 0.0) / size
        return best

    def _searched(self, slopes: Array, plane: Plane) -> Array:
        """The same by golden sections; the bound is concave in t."""
        size = float(np.abs(plane.slope).max(initial=0.0))
        if size == 0:
            return np.zeros(len(slopes))
        low = np.zeros(len(slopes))
        high = 4.0 * np.abs(slopes).max(axis=1, initial=0.0) / size
        for _ in range(_SEARCHES):
            third = (high - low) / 3
            points = low + third, high - third
            values = [
                self.least(slopes + t[:, None] * plane.slope) + t * plane.level for t in points
            ]
            rising = values[0] < values[1]
            low, high = np.where(rising, points[0], low), np.where(rising, high, points[1])
        middle: Array = (low + high) / 2
        return middle

    def bound(self, plane: Plane) -> float:
        """What every explanation of the region costs at least; inf if there is none in it."""
        if (self.lower > self.upper).any():
            return np.inf
        noise = ROUNDING * abs(plane.level)
        if float(self.least(plane.slope[None])[0]) + plane.level - noise > 0:
            return np.inf
        if isinstance(self.norm, Largest):
            return self._least_radius(plane)
        multiples = self._candidates(plane)
        low, high = 0, len(multiples) - 1
        while low < high:  # the bound is concave in the multiple
            middle = (low + high) // 2
            if self._by(plane, multiples[middle]) < self._by(plane, multiples[middle + 1]):
                low = middle + 1
            else:
                high = middle
        return max(0.0, self._by(plane, multiples[low]))

    def _least_radius(self, plane: Plane) -> float:
        """The largest radius, about, within which a plane's inequality holds nowhere."""
        low = float(np.abs(np.clip(0.0, self.lower, self.upper)).max(initial=0.0))
        high = self.radius
        noise = ROUNDING * abs(plane.level)
        for _ in range(_BISECTIONS if np.isfinite(high) else 0):
            middle = (low + high) / 2
            within = float(replace(self, radius=middle).least(plane.slope[None])[0])
            if within + plane.level - noise > 0:
                low = middle
            else:
                high = middle
        return low

    def _candidates(self, plane: Plane) -> list[float]:
        """Multiples of a plane, in order, one of which gives about the best bound.

        Sums of sizes bend where a multiple of some slope is 1. A squared length without limits is
        best bounded by `2 level / |slope|^2`.
        """
        if not self.euclidean:
            steep = np.unique(np.abs(plane.slope[plane.slope != 0]))[::-1]
            # Just below, so that rounding makes no slope larger than 1.
            return ((1 - ROUNDING) / steep).tolist() or [1.0]
        size = float(plane.slope @ plane.slope)
        return sorted([1.0, 2 * max(plane.level, 0.0) / size]) if size > 0 else [1.0]

    def _by(self, plane: Plane, t: float) -> float:
        """What t times a plane proves: `min cost(u) + t (slope @ u + level)` within bounds."""
        g = t * plane.slope
        if self.euclidean:
            u = np.clip(-g / 2, self.lower, self.upper)
            terms = u * u + g * u
        else:
            # A slope of more than 1 outweighs the size, up to the end that it falls towards.
            falling = np.where(g > 0, self.lower, self.upper)
            u = np.where(np.abs(g) > 1, falling, np.clip(0.0, self.lower, self.upper))
            terms = np.abs(u) * (1 + g * np.sign(u))
        noise = ROUNDING * (t * abs(plane.level) + float(np.abs(terms).sum()))
        return float(terms.sum()) + t * plane.level - noise
