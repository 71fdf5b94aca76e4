"""Whitened codes: against means, covariances and axes computed on their own."""

from __future__ import annotations

import pytest
import torch
from tests.pipelines import normal
from torch import Tensor

import cfopt
from cfopt.generative import PCA, Flow, GenerativeModel, Whitened
from cfopt.testing import GenerativeContract


def known(count: int = 400) -> Tensor:
    """Contexts that vary in some directions far more than in others, away from 0."""
    spread = torch.tensor([5.0, 3.0, 2.0, 1.0, 0.5, 0.2], dtype=torch.float64)
    turn, _ = torch.linalg.qr(normal(6, 6, seed=1))
    return (normal(count, 6, seed=2) * spread) @ turn.T + normal(1, 6, seed=3)


class _Unequal:
    """Codes that are contexts in other units, so that they are anything but white."""

    latent_dim = 6

    def __init__(self) -> None:
        self._map = normal(6, 6, seed=4) + 2 * torch.eye(6, dtype=torch.float64)

    def encode(self, x: Tensor) -> Tensor:
        return x @ self._map.to(x) + 1.0

    def decode(self, z: Tensor) -> Tensor:
        return (z - 1.0) @ torch.linalg.inv(self._map).to(z)


class TestWhitened(GenerativeContract):
    def model(self) -> GenerativeModel:
        return Whitened.fit(PCA.fit(known().float(), latent_dim=5), known().float())

    def contexts(self) -> Tensor:
        return known(4).float()


def test_codes_of_the_data_have_mean_0_and_covariance_one() -> None:
    x = known()
    codes = Whitened.fit(_Unequal(), x).encode(x)
    assert torch.allclose(codes.mean(0), torch.zeros(6, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(torch.cov(codes.T), torch.eye(6, dtype=torch.float64), atol=1e-9)


def test_what_is_encoded_is_decoded_to_what_the_model_makes_of_it() -> None:
    x, inner = known(), PCA.fit(known(), latent_dim=3)
    model = Whitened.fit(inner, x)
    assert torch.allclose(model.decode(model.encode(x)), inner.decode(inner.encode(x)))


def test_of_all_whitenings_codes_are_turned_as_little_as_can_be() -> None:
    x, inner = known(), _Unequal()
    own = inner.encode(x) - inner.encode(x).mean(0)
    white = Whitened.fit(inner, x).encode(x)
    fit = (own * white).sum()
    for seed in range(20):
        turn, _ = torch.linalg.qr(normal(6, 6, seed=10 + seed))
        assert (own * (white @ turn)).sum() < fit


def test_broad_directions_are_the_axes_of_the_codes_longest_first() -> None:
    x, inner = known(), _Unequal()
    model = Whitened.fit(inner, x)
    directions = model.broad_directions(3)
    variances, axes = torch.linalg.eigh(torch.cov(inner.encode(x).T))
    # A unit along each is a standard deviation of the model's own codes along their axis.
    steps = inner.encode(model.decode(directions.T)) - inner.encode(model.decode(directions.T * 0))
    along = (steps @ axes.flip(1)[:, :3]).abs()
    assert torch.allclose(along.diagonal(), variances.flip(0)[:3].sqrt())
    assert torch.allclose(steps.norm(dim=1), along.diagonal())


@pytest.mark.parametrize("grid", [None, (1, 4, 4)])
def test_the_linear_part_of_a_flow_is_the_same(grid: tuple[int, int, int] | None) -> None:
    torch.manual_seed(0)
    x = normal(600, 16, seed=5) @ (normal(16, 16, seed=6) + 2 * torch.eye(16, dtype=torch.float64))
    inner = PCA.fit(x, latent_dim=16)
    codes = inner.encode(x)
    flow = Flow(16, grid=grid, layers=2, width=4).double().standardise(codes)
    assert torch.allclose(flow.root() @ flow.root(), torch.cov(codes.T), rtol=1e-2, atol=1e-2)
    ours, fitted = Whitened(inner, flow.mean, flow.root()), Whitened.fit(inner, x)
    assert torch.allclose(ours.encode(x), fitted.encode(x), rtol=1e-2, atol=1e-2)


def test_what_it_cannot_whiten_is_said() -> None:
    inner = PCA.fit(known(), latent_dim=3)
    mean, root = torch.zeros(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    with pytest.raises(cfopt.InputError, match=r"mean of shape \(3,\).*got \(2,\)"):
        Whitened(inner, mean[:2], root)
    with pytest.raises(cfopt.InputError, match="vary in all 3 directions"):
        Whitened(inner, mean, torch.diag(torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)))
    with pytest.raises(cfopt.InputError, match="more contexts than a code has entries, 3; got 3"):
        Whitened.fit(inner, known(3))
