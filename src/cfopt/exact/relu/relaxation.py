"""Linear lower bounds of a ReLU network, and what they say about its neurons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.exact.relu.region import ROUNDING, Plane, Region


@dataclass(frozen=True)
class Network:
    """Prices as a function of a change: `z = W a + b` and `a = max(z, 0)`, layer after layer.

    Arguments:
        weights, biases: the weights and biases of the hidden layers, then of the prices; the first
            layer takes u.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """How many neurons each hidden layer has."""
        return tuple(len(bias) for bias in self.biases[:-1])

    def neurons(self, u: Array) -> list[Array]:
        """What goes into the neurons of each hidden layer at one change, `(p,)`."""
        found = []
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            z = weight @ u + bias
            found.append(z)
            u = np.maximum(z, 0.0)
        return found

    def prices(self, u: Array) -> Array:
        """Prices after one change: `(p,) -> (m,)`."""
        last = self.neurons(u)[-1] if self.widths else None
        active = u if last is None else np.maximum(last, 0.0)
        found: Array = self.weights[-1] @ active + self.biases[-1]
        return found


@dataclass(frozen=True)
class Intervals:
    """What goes into each neuron, at least and at most: one pair of arrays for each layer.

    A neuron whose interval contains 0 inside is unstable; of a division of cases, one has the
    part below 0 and the other the part above.
    """

    lower: tuple[Array, ...]
    upper: tuple[Array, ...]

    @classmethod
    def unknown(cls, network: Network) -> Intervals:
        """Anything is possible."""
        return cls(
            tuple(np.full(n, -np.inf) for n in network.widths),
            tuple(np.full(n, np.inf) for n in network.widths),
        )

    @property
    def empty(self) -> bool:
        """Whether some neuron can have no value at all."""
        return any(
            bool((low > high).any()) for low, high in zip(self.lower, self.upper, strict=True)
        )

    def unstable(self, layer: int) -> NDArray[np.bool_]:
        """Which neurons of a layer may be on either side of 0, `(n,)`."""
        return (self.lower[layer] < 0) & (self.upper[layer] > 0)

    def split(self, layer: int, neuron: int) -> tuple[Intervals, Intervals]:
        """The two cases of a neuron: inactive and active."""
        lower, upper = list(self.lower), list(self.upper)
        lower[layer], upper[layer] = lower[layer].copy(), upper[layer].copy()
        upper[layer][neuron] = min(upper[layer][neuron], 0.0)
        lower[layer][neuron] = max(lower[layer][neuron], 0.0)
        return Intervals(self.lower, tuple(upper)), Intervals(tuple(lower), self.upper)


@dataclass(frozen=True)
class Multipliers:
    """Numbers that combine what holds in a region to one plane; whatever they are, it is valid.

    Arguments:
        cuts: the multipliers of the inequalities on prices, >= 0, `(C,)`.
        sums: the multipliers of the limits on sums of features: > 0 for the upper, < 0 for the
            lower, `(k,)`.
        slopes: by which line through 0 an unstable neuron is bounded from below, between 0 and 1;
            an array for each layer.
        sides: the multipliers of the intervals of neurons: > 0 for the upper end, < 0 for the
            lower; likewise.
    """

    cuts: Array
    sums: Array
    slopes: tuple[Array, ...]
    sides: tuple[Array, ...]


class Lines:
    """The lines that bound each neuron `max(z, 0)` over its interval.

    Arguments:
        intervals: the intervals of all neurons.
        slopes: the slopes of the lines through 0 below unstable neurons; by default 0 or 1,
            whichever is better by area.
    """

    def __init__(self, intervals: Intervals, slopes: Sequence[Array] | None = None) -> None:
        self.below: list[Array] = []
        self.above: list[Array] = []
        self.offset: list[Array] = []
        for layer, (low, high) in enumerate(zip(intervals.lower, intervals.upper, strict=True)):
            active = low >= 0
            unstable = (low < 0) & (high > 0)
            given = high > -low if slopes is None else np.clip(slopes[layer], 0.0, 1.0)
            self.below.append(np.where(active, 1.0, np.where(unstable, given, 0.0)))
            with np.errstate(invalid="ignore", over="ignore"):
                chord = np.where(unstable, high / (high - low), active)
                offset = np.where(unstable, -chord * low, 0.0)
            self.above.append(chord)
            self.offset.append(offset)

    def lowered(self, layer: int, weights: Array) -> tuple[Array, Array]:
        """`weights @ max(z, 0)` from below, as weights of z and a constant: `(R, n) -> ...`."""
        falling = np.minimum(weights, 0.0)
        with np.errstate(invalid="ignore"):
            slopes = np.maximum(weights, 0.0) * self.below[layer] + np.where(
                falling < 0, falling * self.above[layer], 0.0
            )
            parts = np.where(falling < 0, falling * self.offset[layer], 0.0)
        constant = parts.sum(axis=1)
        # An interval without an end has no line above it: nothing is known.
        bad = ~(np.isfinite(slopes).all(axis=1) & np.isfinite(constant))
        if bad.any():
            slopes[bad], constant[bad] = 0.0, -np.inf
        return slopes, constant


def lower_lines(
    network: Network,
    lines: Lines,
    depth: int,
    weights: Array,
    constants: Array,
    sides: Sequence[Array] | None = None,
    coefficients: list[Array] | None = None,
) -> tuple[Array, Array]:
    """Lines in u below `weights @ a + constants`, a being what layer `depth - 1` gives.

    `(R, n), (R,) -> (R, p), (R,)`. With `sides`, `sides @ z` of each layer is added on the way.
    """
    for layer in reversed(range(depth)):
        if coefficients is not None:
            coefficients.append(weights[0])
        slopes, extra = lines.lowered(layer, weights)
        if sides is not None:
            slopes = slopes + sides[layer]
        bias = slopes @ network.biases[layer]
        noise = ROUNDING * (np.abs(slopes) @ np.abs(network.biases[layer]) + np.abs(constants))
        constants = constants + extra + bias - noise
        weights = slopes @ network.weights[layer]
    return weights, constants


@dataclass(frozen=True)
class Inequalities:
    """What explanations satisfy: `directions @ prices <= leeway` and `least <= sums @ u <= most`.

    Arguments:
        directions: `(C, m)`.
        leeway: what verification grants, `(C,)`; 0 to the last digit.
        sums, least, most: limits on sums of features, `(k, p)` and twice `(k,)`.
    """

    directions: Array
    leeway: Array
    sums: Array
    least: Array
    most: Array


def combined(
    network: Network,
    intervals: Intervals,
    known: Inequalities,
    multipliers: Multipliers,
    coefficients: list[Array] | None = None,
) -> Plane:
    """The plane that follows from all inequalities of a region by their multipliers.

    Where a limit does not exist its multiplier counts as 0.
    """
    cuts = np.maximum(multipliers.cuts, 0.0)
    weights = (cuts @ known.directions) @ network.weights[-1]
    level = float((cuts @ known.directions) @ network.biases[-1] - cuts @ known.leeway)
    sides = []
    for given, low, high in zip(multipliers.sides, intervals.lower, intervals.upper, strict=True):
        end = np.where(given > 0, high, low)
        side = np.where(np.isfinite(end), given, 0.0)
        level -= float(side @ np.where(side != 0, end, 0.0))
        sides.append(side)
    depth = len(network.widths)
    lines = Lines(intervals, multipliers.slopes)
    slope, levels = lower_lines(
        network, lines, depth, weights[None], np.array([level]), sides, coefficients
    )
    end = np.where(multipliers.sums > 0, known.most, known.least)
    sums = np.where(np.isfinite(end), multipliers.sums, 0.0)
    last = float(levels[0]) - float(sums @ np.where(sums != 0, end, 0.0))
    return Plane(slope[0] + sums @ known.sums, last)


def tightened(
    network: Network, intervals: Intervals, region: Region, plane: Plane | None
) -> Intervals:
    """What goes into the neurons within a region and beyond a plane: no more than was known."""
    lower, upper = list(intervals.lower), list(intervals.upper)
    for layer, (weight, bias) in enumerate(
        zip(network.weights[:-1], network.biases[:-1], strict=True)
    ):
        open_ended = np.flatnonzero((lower[layer] < 0) & (upper[layer] > 0))
        if not len(open_ended):
            continue
        rows, shift = weight[open_ended], bias[open_ended]
        both, constants = np.concatenate([rows, -rows]), np.concatenate([shift, -shift])
        lines = Lines(Intervals(tuple(lower[:layer]), tuple(upper[:layer])))
        slopes, constants = lower_lines(network, lines, layer, both, constants)
        least = region.least_beyond(slopes, plane) + constants
        least -= ROUNDING * np.abs(constants)
        count = len(open_ended)
        lower[layer], upper[layer] = lower[layer].copy(), upper[layer].copy()
        lower[layer][open_ended] = np.maximum(lower[layer][open_ended], least[:count])
        upper[layer][open_ended] = np.minimum(upper[layer][open_ended], -least[count:])
    return Intervals(tuple(lower), tuple(upper))
