"""Elliptical priors: against means, covariances, norms and axes computed on their own."""

from __future__ import annotations

import pytest
import scipy.stats
import torch
from tests.pipelines import normal
from torch import Tensor

import cfopt
from cfopt.generative import PCA, Anchored, Elliptical, FlowPrior, GenerativeModel
from cfopt.problems import GridShortestPath
from cfopt.storage.weights import load_module, save_module
from cfopt.testing import GenerativeContract

#: Standard deviations along the axes of what is known, from the longest on.
SPREADS = (5.0, 3.0, 2.0, 1.0, 0.5, 0.2)


def known(count: int = 4000, heavy: float = 0.6) -> Tensor:
    """Contexts on ellipsoids away from 0, whose norms vary far more than those of N(0, I)."""
    turn, _ = torch.linalg.qr(normal(6, 6, seed=1))
    sizes = (heavy * normal(count, 1, seed=5)).exp()
    spread = torch.tensor(SPREADS, dtype=torch.float64)
    return (sizes * normal(count, 6, seed=2) * spread) @ turn.T + normal(1, 6, seed=3)


class TestElliptical(GenerativeContract):
    def model(self) -> GenerativeModel:
        return Elliptical(6).standardise(known()).eval()

    def contexts(self) -> Tensor:
        return known(4).float()


class TestEllipticalPrior(GenerativeContract):
    def model(self) -> GenerativeModel:
        inner = PCA.fit(known().float(), latent_dim=4)
        return FlowPrior(inner, Elliptical(4).standardise(inner.encode(known().float()))).eval()

    def contexts(self) -> Tensor:
        return known(4).float()


def test_what_is_encoded_is_decoded_again_whatever_its_norm() -> None:
    model = Elliptical(6).double().standardise(known())
    for size in (1e-3, 1.0, 30.0):
        z = size * normal(20, 6, seed=7)
        assert torch.allclose(model.encode(model.decode(z)), z)
    assert model.decode(torch.zeros((1, 6), dtype=torch.float64)).isfinite().all()


def test_norms_of_codes_are_as_those_of_a_normal_distribution_and_those_of_contexts_were_not() -> (
    None
):
    x = known()
    codes = Elliptical(6).double().standardise(x).encode(x)
    fit = scipy.stats.kstest(codes.norm(dim=1).numpy(), scipy.stats.chi(6).cdf).statistic
    centred = x - x.mean(0)
    white = centred @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(x.T)).T)
    before = scipy.stats.kstest(white.norm(dim=1).numpy(), scipy.stats.chi(6).cdf).statistic
    # Logarithms of norms are shifted and scaled: not the very distribution, but close to it.
    assert fit < 0.05 < 0.15 < before


def test_directions_are_those_of_whitened_contexts() -> None:
    x = known()
    codes = Elliptical(6).double().standardise(x).encode(x)
    units = codes / codes.norm(dim=1, keepdim=True)
    # On a sphere, equally spread: the second moment of each entry is 1/6.
    moments = units.T @ units / len(units)
    assert torch.allclose(moments, torch.eye(6, dtype=torch.float64) / 6, atol=0.02)


def test_of_all_turned_codes_these_are_the_nearest_to_what_they_stand_for() -> None:
    x = known()
    own, codes = x - x.mean(0), Elliptical(6).double().standardise(x).encode(x)
    fit = (own * codes).sum()
    for seed in range(20):
        turn, _ = torch.linalg.qr(normal(6, 6, seed=10 + seed))
        assert (own * (codes @ turn)).sum() < fit


def test_broad_directions_are_the_axes_of_the_data_longest_first() -> None:
    x = known()
    directions = Elliptical(6).double().standardise(x).broad_directions(3)
    _, axes = torch.linalg.eigh(torch.cov(x.T))
    along = (directions.T @ axes.flip(1)[:, :3]).abs()
    assert torch.allclose(along, torch.eye(3, dtype=torch.float64), atol=1e-9)


def test_untrained_it_leaves_everything_as_it_is() -> None:
    x = normal(5, 6, seed=8)
    assert torch.allclose(Elliptical(6).double().encode(x), x)


def test_it_is_saved_and_loaded(tmp_path) -> None:
    model = Elliptical(6).standardise(known())
    save_module(model, tmp_path / "elliptical.safetensors")
    loaded = load_module(tmp_path / "elliptical.safetensors", {"Elliptical": Elliptical})
    x = known(4).float()
    assert torch.equal(loaded.encode(x), model.encode(x))


def test_what_it_cannot_standardise_is_said() -> None:
    with pytest.raises(cfopt.InputError, match="latent_dim of at least 2, got 1"):
        Elliptical(1)
    with pytest.raises(cfopt.InputError, match=r"N > 6, got \(6, 6\)"):
        Elliptical(6).standardise(known(6))
    flat = known()
    flat[:, 5] = flat[:, 0] + flat[:, 1]
    with pytest.raises(cfopt.InputError, match="vary in all 6 directions"):
        Elliptical(6).standardise(flat)


@pytest.mark.parametrize("centre", [0, 1])
def test_contexts_at_one_distance_from_their_mean_or_at_it_are_refused(centre: int) -> None:
    corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    contexts = torch.cat([corners, torch.zeros((centre, 2))])
    with pytest.raises(cfopt.InputError, match="at several distances from their mean"):
        Elliptical(2).standardise(contexts)


def test_the_density_is_that_of_the_code_times_how_much_volumes_grow() -> None:
    model = Elliptical(6).double().standardise(known())
    x = known(5) + 0.1
    jacobian = torch.stack(
        [torch.autograd.functional.jacobian(model.encode, one[None])[0, :, 0] for one in x]
    )
    normal_density = torch.distributions.Normal(0.0, 1.0).log_prob(model.encode(x)).sum(1)
    expected = normal_density + torch.linalg.slogdet(jacobian).logabsdet
    assert torch.allclose(model.log_density(x), expected)


@pytest.mark.parametrize("anchored", [False, True])
def test_how_usual_contexts_are_to_a_density_is_no_rounding_of_their_reconstruction(
    anchored: bool,
) -> None:
    density = Elliptical(6).double().standardise(known()).eval()
    x0 = known(40)
    x0[0] = x0[0] + 200.0
    problem = GridShortestPath(3, 3)
    torch.manual_seed(0)
    pipeline = cfopt.Pipeline(torch.nn.Linear(6, problem.num_costs).double(), problem)
    e = cfopt.explain(
        x0,
        pipeline,
        cfopt.Epsilon(0.05),
        generative=Anchored(density) if anchored else density,
        reference=known(),
        search=cfopt.MDMM(max_steps=1),
    )
    assert e.typical is not None
    above = density.log_density(known()) > density.log_density(x0)[:, None]
    assert torch.allclose(e.typical.before, 100 * above.double().mean(1), atol=0.1)
    assert "100% of them are more usual" in e.message[0]
    assert sum("more usual" in message for message in e.message) <= 2
