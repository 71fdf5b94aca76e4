"""Which centred shell is the best plausibility region: the theory behind the sphere.

A region `D = {z : a <= |z| <= b}` costs `E[dist(z, D)^2] + eta Leb(D)` under z ~ N(0, I_n). With
X = |z| this is `A(a) + B(b)`, a term for each edge, and the edges stand still where
    inner:  eta = 2 E(a - X)_+ / area(a),      outer:  eta = 2 E(X - b)_+ / area(b),
with area(r) the surface of the sphere of radius r. B is convex, so the outer edge is unique. The
logarithm of the inner ratio is concave in log a (log X has a log-concave density, and integrals of
log-concave functions are log-concave), so A has one local minimum. It is never at a = 0: a small
hole saves volume `~ a^n` and costs distance `~ a^(n + 2)`. So the best region is that one thick
shell or the best thin one, a = b = C_n, whose cost is Var X whatever eta is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from cfopt.errors import InputError
from cfopt.question.plausibility import mean_norm

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(100)
#: Densities e^-40 times smaller than at the edge are left out of an integral.
_CUT = 40.0
#: Below this radius the prior's density is constant to machine precision.
_CENTRE = 1e-8


@dataclass(frozen=True)
class Region:
    """The shell `{z : a <= |z| <= b}` and what it costs: a sphere where a = b.

    Arguments:
        a: the inner radius; never optimal at 0, but it may round to 0 where eta is tiny.
        b: the outer radius.
        value: `E[dist(z, D)^2] + eta Leb(D)`.
    """

    a: float
    b: float
    value: float


def optimal_region(n: int, log_eta: float) -> Region:
    """The shell that minimises `E[dist(z, D_a^b)^2] + eta Leb(D_a^b)` over `0 <= a <= b`.
    The paper's last problem in Appendix A.2, solved by two root searches; logarithms throughout,
    so any n will do.

    Arguments:
        n: the number of latents.
        log_eta: the natural logarithm of the weight eta of the volume.
    """
    radius = mean_norm(n)
    if not math.isfinite(log_eta):
        raise InputError(
            f"log_eta needs to be finite, got {log_eta}. Pass the natural logarithm of eta > 0."
        )
    thin = Region(radius, radius, _distance(n, radius, radius))
    a = _inner_edge(n, log_eta)
    if a is None:
        return thin
    b = _outer_edge(n, log_eta)
    if b <= a:
        return thin
    thick = Region(a, b, _distance(n, a, b) + math.exp(log_eta + _log_volume(n, a, b)))
    return thick if thick.value < thin.value else thin


def thin_sphere_threshold(n: int) -> float:
    """The natural logarithm of the smallest eta for which the thin sphere is optimal,
    `eta* = max over a < b of (Var X - E[dist(z, D_a^b)^2]) / Leb(D_a^b)`; thin above, thick below.

    The sphere is locally optimal from `eta_C = E|X - C_n| / area(C_n)` on, where it begins to pay
    to move either edge. For n <= 5 that is the threshold. From n = 6 on it is not: the inner
    ratio then peaks inside the sphere, and at eta_C a much thicker shell is better, in high
    dimension almost a ball. For n = 64 eta_C is 4.7e-40 and eta* is 3.7e-39, where the optimum
    jumps from the sphere to `a = 1.6e-5, b = 7.75`. Checked against every shell of fine grids over
    (a, b), on both sides of the threshold, for n from 1 to 1024.

    Arguments:
        n: the number of latents.
    """
    radius = mean_norm(n)
    variance = _distance(n, radius, radius)
    log_eta = _log_inner_ratio(n, radius)
    # Dinkelbach's method for a maximal ratio: the ratio of the best shell is the next eta
    while (region := optimal_region(n, log_eta)).a < region.b:
        gain = variance - _distance(n, region.a, region.b)
        ratio = math.log(gain) - _log_volume(n, region.a, region.b)
        if ratio <= log_eta + 1e-12 * abs(log_eta):
            break
        log_eta = ratio
    return log_eta


def _inner_edge(n: int, log_eta: float) -> float | None:
    """The local minimum of A below C_n; None where A decreases all the way."""
    peak = _inner_peak(n)
    if _log_inner_ratio(n, peak) <= log_eta:
        return None
    # with the density at the centre for every other, the ratio is larger and the edge smaller
    centre = (log_eta + math.log(n * (n + 1) / 2) + n / 2 * math.log(2 * math.pi)) / 2
    if centre < math.log(_CENTRE):
        return math.exp(centre)
    low, high = centre - 1e-6, math.log(peak)
    return math.exp(brentq(lambda t: _log_inner_ratio(n, math.exp(t)) - log_eta, low, high))


def _inner_peak(n: int) -> float:
    """Where the inner ratio is largest on (0, C_n]: its elasticity falls from 2 on."""
    radius = mean_norm(n)

    def elasticity(r: float) -> float:
        return r * math.exp(_log_moment(n, r, 0, -1) - _log_moment(n, r, 1, -1)) - (n - 1)

    return radius if elasticity(radius) >= 0 else float(brentq(elasticity, 0.1, radius))


def _outer_edge(n: int, log_eta: float) -> float:
    """The minimum of B, which is convex."""

    def excess(t: float) -> float:
        b = math.exp(t)
        return math.log(2) + _log_outside(n, b, 1) - _log_area(n, b) - log_eta

    start = math.log(mean_norm(n))
    step = 0.1 if excess(start) > 0 else -0.1
    while excess(start + step) * step > 0:
        step *= 2
    return math.exp(brentq(excess, *sorted((start, start + step))))


def _distance(n: int, a: float, b: float) -> float:
    """`E[dist(z, D_a^b)^2]`, for a of at most C_n."""
    inside = math.exp(_log_moment(n, a, 2, -1)) if a > _CENTRE else 0.0
    return inside + math.exp(_log_outside(n, b, 2))


def _log_inner_ratio(n: int, a: float) -> float:
    """`log(2 E(a - X)_+ / area(a))`: the log_eta at which an inner edge stands still at a."""
    return math.log(2) + _log_moment(n, a, 1, -1) - _log_area(n, a)


def _log_outside(n: int, b: float, power: int) -> float:
    """`log E[(X - b)_+^power]`, for power 1 or 2 and any b."""
    radius = mean_norm(n)
    if b >= radius:
        return _log_moment(n, b, power, 1)
    inside = math.exp(_log_moment(n, b, power, -1))
    if power == 1:
        return math.log(radius - b + inside)
    variance = math.exp(_log_moment(n, radius, 2, 1)) + math.exp(_log_moment(n, radius, 2, -1))
    return math.log(variance + (radius - b) ** 2 - inside)


def _log_moment(n: int, r: float, power: int, side: int) -> float:
    """`log E[(side (X - r))_+^power]`, for side 1 and r >= C_n, or side -1 and r <= C_n.
    Gauss-Legendre quadrature over the distance t from r, of the density relative to r's own.
    """
    slope = side * ((n - 1) / r - r)
    # the relative log-density is at most slope t - t^2 / 2, which is -_CUT at this width
    width = 2 * _CUT / (math.sqrt(slope**2 + 2 * _CUT) - slope)
    if side < 0:
        width = min(width, r)
    t = width * (_NODES + 1) / 2
    relative = (n - 1) * np.log1p(side * t / r) - side * t * r - t**2 / 2
    density = (1 - n / 2) * math.log(2) - math.lgamma(n / 2) + (n - 1) * math.log(r) - r**2 / 2
    return density + math.log(width / 2 * float(_WEIGHTS @ (t**power * np.exp(relative))))


def _log_area(n: int, r: float) -> float:
    """The log-surface of the sphere of radius r, `2 pi^(n/2) r^(n-1) / Gamma(n/2)`."""
    return math.log(2) + n / 2 * math.log(math.pi) - math.lgamma(n / 2) + (n - 1) * math.log(r)


def _log_volume(n: int, a: float, b: float) -> float:
    """The log-volume of the shell, `pi^(n/2) (b^n - a^n) / Gamma(n/2 + 1)`."""
    ball = n / 2 * math.log(math.pi) - math.lgamma(n / 2 + 1) + n * math.log(b)
    return ball + math.log(-math.expm1(n * (math.log(a) - math.log(b)))) if a > 0 else ball
