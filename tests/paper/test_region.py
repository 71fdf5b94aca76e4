"""The best plausibility region against quadrature and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammainc, gammaincc

from cfopt.errors import InputError
from cfopt.question.plausibility import mean_norm
from cfopt_paper.region import optimal_region, thin_sphere_threshold


def _density(n: int, r: float) -> float:
    """The density of the norm of a standard normal vector."""
    constant = (1 - n / 2) * math.log(2) - math.lgamma(n / 2)
    return math.exp(constant + (n - 1) * math.log(r) - r**2 / 2)


class _Shells:
    """Every shell of a grid of radii, finest near C_n, by the closed form of Appendix A.2."""

    def __init__(self, n: int) -> None:
        self.radius = mean_norm(n)
        self.variance = n - self.radius**2
        near = np.linspace(max(0.0, self.radius - 2), self.radius + 5, 1400)
        r = np.unique(np.concatenate([np.linspace(0.0, self.radius, 300), near]))
        inside, outside = (
            r**2 * part(n / 2, r**2 / 2)
            - 2 * self.radius * r * part((n + 1) / 2, r**2 / 2)
            + n * part(n / 2 + 1, r**2 / 2)
            for part in (gammainc, gammaincc)
        )
        with np.errstate(divide="ignore"):
            logs = n / 2 * math.log(math.pi) - math.lgamma(n / 2 + 1) + n * np.log(r)
        # volumes in units of the sphere's ball, which would overflow or underflow themselves
        self.log_unit = float(logs[np.searchsorted(r, self.radius)])
        balls = np.exp(logs - self.log_unit)
        inner, outer = np.triu_indices(len(r), 1)
        self.a, self.b = r[inner], r[outer]
        self.distance = inside[inner] + outside[outer]
        self.volume = balls[outer] - balls[inner]

    def values(self, log_eta: float) -> np.ndarray:
        return self.distance + math.exp(log_eta + self.log_unit) * self.volume


@pytest.mark.parametrize("n", [1, 2, 5, 6, 16, 64, 1024])
def test_the_thin_sphere_is_optimal_above_the_threshold_and_not_below(n: int) -> None:
    """Against every shell of a grid of 1.3 million, balls among them."""
    shells, threshold = _Shells(n), thin_sphere_threshold(n)
    above = optimal_region(n, threshold + 1e-4)
    assert above.a == above.b == mean_norm(n)
    assert above.value == pytest.approx(shells.variance, abs=1e-9)
    assert shells.values(threshold + 1e-4).min() > shells.variance - 1e-9
    below = threshold - 0.2
    assert shells.values(below).min() < shells.variance - 1e-4
    region = optimal_region(n, below)
    assert 0 < region.a < region.b
    assert region.value < shells.variance - 1e-4


@pytest.mark.parametrize("n", [1, 2, 6, 16, 64, 1024])
def test_the_threshold_is_the_best_gain_for_a_volume_over_all_shells(n: int) -> None:
    shells = _Shells(n)
    gain = shells.variance - shells.distance
    # a quotient of differences: thinner shells would show rounding only
    kept = (shells.b - shells.a > 0.05) & (gain > 0)
    best = math.log((gain[kept] / shells.volume[kept]).max()) - shells.log_unit
    assert best - 1e-9 <= thin_sphere_threshold(n) <= best + 0.05


@pytest.mark.parametrize("n", range(1, 9))
def test_local_optimality_is_global_only_up_to_five_latents(n: int) -> None:
    """The sphere is a local optimum from eta = E|X - C_n| / area(C_n) on."""
    radius = mean_norm(n)
    spread = quad(lambda r: abs(r - radius) * _density(n, r), 0, radius + 12, points=[radius])[0]
    area = 2 * math.pi ** (n / 2) * radius ** (n - 1) / math.gamma(n / 2)
    local = math.log(spread / area)
    if n <= 5:
        assert thin_sphere_threshold(n) == pytest.approx(local, abs=1e-7)
    else:
        assert thin_sphere_threshold(n) > local + 0.02
        assert _Shells(n).values(local).min() < n - radius**2 - 1e-3


@pytest.mark.parametrize("n", [1, 2, 5, 6, 16, 64, 1024])
@pytest.mark.parametrize("less", [0.2, 2.0, 10.0])
def test_the_optimal_region_is_the_best_of_the_grid(n: int, less: float) -> None:
    log_eta = thin_sphere_threshold(n) - less
    shells = _Shells(n)
    values = shells.values(log_eta)
    region = optimal_region(n, log_eta)
    assert region.value - 1e-9 <= values.min() <= region.value + 1e-4
    assert shells.b[values.argmin()] == pytest.approx(region.b, abs=0.03)


@pytest.mark.parametrize(("n", "log_eta"), [(1, -3.0), (2, -5.0), (8, -14.0), (64, -95.0)])
def test_the_value_of_a_region_is_its_integral(n: int, log_eta: float) -> None:
    region = optimal_region(n, log_eta)
    inside = quad(lambda r: (region.a - r) ** 2 * _density(n, r), 0, region.a)[0]
    end = region.b + 14
    outside = quad(lambda r: (r - region.b) ** 2 * _density(n, r), region.b, end, epsabs=1e-13)[0]
    ball = math.pi ** (n / 2) / math.gamma(n / 2 + 1)
    volume = ball * (region.b**n - region.a**n)
    total = inside + outside + math.exp(log_eta) * volume
    assert region.value == pytest.approx(total, rel=1e-7)


def test_the_papers_weight_is_far_above_the_threshold_of_64_latents() -> None:
    """The paper finds the sphere for eta >= 1e-16 on its grid; 3.7e-39 is enough."""
    threshold = thin_sphere_threshold(64)
    assert math.exp(threshold) == pytest.approx(3.72e-39, rel=0.01)
    region = optimal_region(64, math.log(1e-16))
    assert region.a == region.b == mean_norm(64)


def test_weights_far_beyond_floating_point_are_served() -> None:
    assert thin_sphere_threshold(1024) / math.log(10) == pytest.approx(-626.507, abs=1e-3)
    assert optimal_region(1024, -600 * math.log(10)).a == mean_norm(1024)
    thick = optimal_region(1024, -640 * math.log(10))
    assert thick.a < 1e-100
    assert mean_norm(1024) < thick.b < mean_norm(1024) + 2
    for n in (1, 64, 1024):
        assert optimal_region(n, 1e4).a == mean_norm(n)
        assert 100 < optimal_region(n, -1e4).b < 200


def test_weights_that_are_not_finite_and_no_latents_are_refused() -> None:
    for log_eta in (math.nan, math.inf, -math.inf):
        with pytest.raises(InputError, match="natural logarithm"):
            optimal_region(64, log_eta)
    with pytest.raises(InputError, match="integer of at least 1"):
        thin_sphere_threshold(0)
