"""Plausibility against quadrature, finite differences and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from tests.pipelines import normal

from cfopt.errors import InputError
from cfopt.question.plausibility import (
    CodePenalty,
    LogLikelihood,
    Sphere,
    encoded_mass,
    in_thick_sphere,
    mean_norm,
    prior_mass,
)

PENALTIES = [Sphere(0.7), LogLikelihood(0.7)]
#: Table of Appendix A.1: the prior's mass in percent, 64 latents.
PAPER = {0.0: 0.0, 0.25: 27.6, 0.5: 52.1, 0.75: 71.2, 1.0: 84.4, 1.25: 92.4, 1.5: 96.7}
PAPER |= {1.75: 98.7, 2.0: 99.5}


def _density(n: int, r: float) -> float:
    """The density of the norm of a standard normal vector."""
    constant = (1 - n / 2) * math.log(2) - math.lgamma(n / 2)
    return math.exp(constant + (n - 1) * math.log(r) - r**2 / 2)


@pytest.mark.parametrize("n", [1, 2, 64, 1024])
def test_the_mean_norm_is_the_mean_of_the_norm(n: int) -> None:
    low, high = max(0.0, math.sqrt(n) - 12), math.sqrt(n) + 12
    mean = quad(lambda r: r * _density(n, r), low, high, epsabs=1e-12, limit=200)[0]
    assert mean_norm(n) == pytest.approx(mean, rel=1e-10)


def test_the_mean_norm_of_64_latents_is_the_papers() -> None:
    assert round(mean_norm(64), 2) == 7.97


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_gradient_is_the_derivative_of_the_penalty(penalty: CodePenalty) -> None:
    z = torch.cat([normal(4, 5), 3 * normal(4, 5, seed=1)]).requires_grad_()
    assert torch.autograd.gradcheck(penalty, z)
    (derivative,) = torch.autograd.grad(penalty(z).sum(), z)
    assert torch.allclose(penalty.evaluate(z)[1], derivative)


def test_the_penalties_are_as_defined() -> None:
    z = normal(6, 5)
    norm = z.square().sum(1).sqrt()
    assert torch.allclose(Sphere(2.0)(z), 2 * (norm - mean_norm(5)) ** 2)
    assert torch.allclose(LogLikelihood(2.0)(z), 2 * norm**2)
    assert Sphere(2.0)(z / norm[:, None] * mean_norm(5)).max() < 1e-28


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_curvature_is_semidefinite_and_exact_along_the_ray(penalty: CodePenalty) -> None:
    z = torch.cat([0.1 * normal(3, 4), 2 * normal(3, 4, seed=1)])
    model = penalty.curvature(z)
    assert torch.allclose(model, model.transpose(1, 2))
    assert torch.linalg.eigvalsh(model).min() > -1e-12
    for k, row in enumerate(z):
        hessian = torch.autograd.functional.hessian(lambda y: penalty(y[None])[0], row)
        assert torch.allclose(row @ model[k] @ row, row @ hessian @ row)
        if isinstance(penalty, LogLikelihood):
            assert torch.allclose(model[k], hessian)


def test_the_spheres_own_hessian_is_indefinite_inside_it() -> None:
    hessian = torch.autograd.functional.hessian(lambda y: Sphere(1.0)(y[None])[0], normal(4) / 9)
    eigenvalues = torch.linalg.eigvalsh(hessian)
    assert eigenvalues[0] < -1
    assert eigenvalues[-1] > 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_centre_has_no_gradient_and_no_nan(penalty: CodePenalty, dtype: torch.dtype) -> None:
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=dtype)
    value, gradient = penalty.evaluate(z)
    curvature = penalty.curvature(z)
    assert value.dtype == gradient.dtype == curvature.dtype == dtype
    assert torch.equal(gradient[0], torch.zeros(2, dtype=dtype))
    for result in (value, gradient, curvature):
        assert torch.isfinite(result).all()
    if isinstance(penalty, Sphere):
        assert not curvature[0].any()


@pytest.mark.parametrize("beta", [-0.1, math.nan, math.inf])
@pytest.mark.parametrize("kind", [Sphere, LogLikelihood])
def test_a_weight_that_is_no_weight_is_refused(kind: type[CodePenalty], beta: float) -> None:
    with pytest.raises(InputError, match="beta needs"):
        kind(beta)


def test_the_thick_sphere_holds_what_is_within_kappa_of_the_sphere() -> None:
    direction = torch.nn.functional.normalize(normal(5, 64), dim=1)
    radii = mean_norm(64) + torch.tensor([-0.51, -0.49, 0.0, 0.49, 0.51], dtype=torch.float64)
    inside = in_thick_sphere(direction * radii[:, None], 0.5)
    assert inside.tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("kappa", PAPER)
def test_the_prior_gives_the_thick_sphere_the_mass_of_the_papers_table(kappa: float) -> None:
    assert round(100 * prior_mass(64, kappa), 1) == PAPER[kappa]


@pytest.mark.parametrize("n", [1, 2, 64, 1024])
@pytest.mark.parametrize("kappa", [1e-3, 0.5, 3.0])
def test_the_prior_mass_is_the_integral_of_the_density(n: int, kappa: float) -> None:
    low, high = max(0.0, mean_norm(n) - kappa), mean_norm(n) + kappa
    mass = quad(lambda r: _density(n, r), low, high, epsabs=1e-13)[0]
    assert prior_mass(n, kappa) == pytest.approx(mass, abs=1e-11)


def _encoder(rows: int, active: int, latents: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes whose samples follow the prior: active latents of variance 0.9 + 0.1, idle 0 + 1."""
    means, variances = torch.zeros(rows, latents).double(), torch.ones(rows, latents).double()
    means[:, :active] = math.sqrt(0.9) * normal(rows, active)
    variances[:, :active] = 0.1
    return means, variances.log()


def test_sampled_codes_follow_the_prior_where_mean_codes_lie_inside_the_sphere() -> None:
    means, log_variances = _encoder(20_000, 20, 64)
    table = encoded_mass(means, log_variances, list(PAPER), torch.Generator().manual_seed(1))
    assert np.abs(table.sampled_codes - table.prior).max() < 0.01
    assert table.mean_codes.max() < 0.01
    assert (table.active, table.latent_dim) == (20, 64)
    assert table.mean_norm_of_means == pytest.approx(math.sqrt(0.9) * mean_norm(20), rel=0.01)
    text = table.summary()
    assert "20 of 64 latents are active, and the mean codes lie inside the sphere" in text
    assert f"{mean_norm(64) - table.mean_norm_of_means:.2f} less than the radius 7.97" in text
    assert "The sampled codes, which the prior describes, are within" in text
    assert len(text.splitlines()) == 6


def test_codes_of_the_prior_itself_lie_on_the_sphere() -> None:
    table = encoded_mass(normal(20_000, 64), None, [0.5, 1.0, 2.0])
    assert np.abs(table.mean_codes - table.prior).max() < 0.015
    assert np.isnan(table.sampled_codes).all()
    text = table.summary()
    assert "64 of 64 latents are active" in text
    assert "inside the sphere" not in text
    assert "pass log_variances" in text
    assert "nan" not in text


def test_the_table_of_masses_has_a_line_for_each_thickness() -> None:
    frame = encoded_mass(*_encoder(50, 2, 3), [0.5, 1.0]).to_dataframe()
    assert list(frame.columns) == ["kappa", "prior", "mean codes", "sampled codes"]
    assert frame["kappa"].tolist() == [0.5, 1.0]
    assert frame["prior"].tolist() == [prior_mass(3, 0.5), prior_mass(3, 1.0)]


def test_sampling_repeats_and_leaves_the_global_state_alone() -> None:
    state = torch.get_rng_state()
    first, second = (encoded_mass(*_encoder(200, 2, 8), [0.3]) for _ in range(2))
    assert first.sampled_codes == second.sampled_codes
    assert torch.equal(torch.get_rng_state(), state)


def test_input_that_cannot_be_used_is_refused_with_a_remedy() -> None:
    codes = normal(4, 3)
    for n in (0, -2, 2.5):
        with pytest.raises(InputError, match="integer of at least 1"):
            mean_norm(n)  # type: ignore[arg-type]
    for kappa in (-0.1, math.nan):
        with pytest.raises(InputError, match="kappa needs"):
            in_thick_sphere(codes, kappa)
        with pytest.raises(InputError, match="kappa needs"):
            prior_mass(3, kappa)
    for wrong in (codes[0], codes.long(), codes[:, :0]):
        with pytest.raises(InputError, match=r"shape \(B, n\)"):
            Sphere(1.0)(wrong)
    with pytest.raises(InputError, match="at least one kappa"):
        encoded_mass(codes, None, [])
    with pytest.raises(InputError, match="at least 2 codes"):
        encoded_mass(codes[:1], None, [1.0])
    with pytest.raises(InputError, match="shape of the means"):
        encoded_mass(codes, codes[:, :2], [1.0])
    with pytest.raises(InputError, match="finite means and variances"):
        encoded_mass(codes, codes * math.nan, [1.0])
