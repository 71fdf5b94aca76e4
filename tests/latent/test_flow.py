"""Flows against the change of variables, Gaussians and their own inverse."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from cfopt.errors import InputError
from cfopt.generative import PCA, Flow, FlowPrior, Training, train
from cfopt.storage.weights import load_module, save_module
from cfopt.testing import GenerativeContract


def _bent(count: int, seed: int = 0) -> Tensor:
    """Points along a parabola, which no normal distribution describes."""
    x = torch.randn((count, 2), generator=torch.Generator().manual_seed(seed))
    return torch.stack([2 * x[:, 0], x[:, 0].square() + 0.3 * x[:, 1] + 5], dim=1)


def _random(size: int, grid: tuple[int, int, int] | None = None) -> Flow:
    """A flow whose couplings do something."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        flow = Flow(size, grid, layers=5, width=6).double()
        for parameter in flow.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    generator = torch.Generator().manual_seed(1)
    return flow.standardise(torch.randn((2 * size + 20, size), generator=generator).double())


class TestFlow(GenerativeContract):
    def model(self) -> Flow:
        return _random(5).float()

    def contexts(self) -> Tensor:
        return torch.randn((4, 5), generator=torch.Generator().manual_seed(2))


class TestFlowPrior(GenerativeContract):
    def model(self) -> FlowPrior:
        known = torch.randn((40, 7), generator=torch.Generator().manual_seed(3))
        return FlowPrior(PCA.fit(known, latent_dim=5), _random(5).float())

    def contexts(self) -> Tensor:
        return torch.randn((4, 7), generator=torch.Generator().manual_seed(4))


#: Sizes, and grids of one level and of several, small ones and ones that are convolved.
GRIDS = [(12, None), (12, (2, 3, 2)), (16, (1, 4, 4)), (25, (1, 5, 5)), (100, (1, 10, 10))]


@pytest.mark.parametrize(("size", "grid"), GRIDS)
def test_the_density_is_that_of_the_change_of_variables(
    size: int, grid: tuple[int, int, int] | None
) -> None:
    flow = _random(size, grid)
    x = torch.randn((3, size), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    for row in x:
        jacobian = torch.autograd.functional.jacobian(lambda v: flow.encode(v[None])[0], row)
        normal = torch.distributions.Normal(0.0, 1.0).log_prob(flow.encode(row[None])[0]).sum()
        expected = normal + torch.linalg.slogdet(jacobian).logabsdet
        found = flow.log_density(row[None])[0]
        assert found.item() == pytest.approx(expected.item(), rel=1e-7)


@pytest.mark.parametrize(("size", "grid"), GRIDS)
def test_decoding_undoes_encoding(size: int, grid: tuple[int, int, int] | None) -> None:
    flow = _random(size, grid)
    x = torch.randn((3, size), generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    assert torch.allclose(flow.decode(flow.encode(x)), x, atol=1e-7)


@pytest.mark.parametrize(("size", "grid"), [(2, None), (16, (1, 4, 4)), (24, (2, 6, 2))])
def test_before_training_it_is_the_normal_distribution_of_the_data(
    size: int, grid: tuple[int, int, int] | None
) -> None:
    random = torch.randn((200, size), generator=torch.Generator().manual_seed(7)).double()
    x = 3 + random.cumsum(1)
    flow = Flow(size, grid).double().standardise(x)
    fitted = torch.distributions.MultivariateNormal(x.mean(0), x.T.cov())
    assert torch.allclose(flow.log_density(x), fitted.log_prob(x), atol=1e-6)
    # Whitened by the symmetric root, whose entries stay nearest to where they were.
    variances, vectors = torch.linalg.eigh(x.T.cov())
    white = (x - x.mean(0)) @ vectors @ torch.diag(variances.rsqrt()) @ vectors.T
    assert torch.allclose(flow.encode(x), white, atol=1e-8)


def test_a_level_is_what_coarser_ones_leave_out() -> None:
    """Codes of the coarse level alone decide what the means of cells are."""
    flow = _random(16, (1, 4, 4))
    z = torch.randn((2, 16), generator=torch.Generator().manual_seed(8)).double()
    other = torch.cat([z[:, :4], 2 * z[:, 4:]], dim=1)  # (1, 1, 1) and (3, 1, 1) are coarse
    before, after = (
        torch.nn.functional.avg_pool2d(flow.decode(codes @ flow.turn.T).view(-1, 1, 4, 4), 2)
        for codes in (z, other)
    )
    assert torch.allclose(before, after, atol=1e-9)


def test_training_finds_what_no_normal_distribution_describes(tmp_path: Path) -> None:
    x, held_out = _bent(1000), _bent(300, seed=1)
    torch.manual_seed(0)
    flow = Flow(2, layers=6, width=24).standardise(x)
    with torch.no_grad():
        before = flow.log_density(held_out).mean()
    plan = Training(epochs=10, learning_rate=1e-2, batch_size=50, warm_up=0)
    train(flow, x, held_out, plan, checkpoint=tmp_path / "checkpoint")
    with torch.no_grad():
        assert flow.log_density(held_out).mean() > before + 0.5
        assert abs(float(flow.encode(held_out).std(0).mean()) - 1) < 0.15
    save_module(flow, tmp_path / "flow.safetensors")
    again = load_module(tmp_path / "flow.safetensors", {"Flow": Flow})
    assert torch.equal(again.encode(held_out), flow.encode(held_out))  # type: ignore[operator]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"grid .* with 6 entries, got \(2, 2, 2\)"):
        Flow(6, (2, 2, 2))
    with pytest.raises(InputError, match=r"shape \(N, 2\)"):
        Flow(2).standardise(torch.zeros(4, 3))
    with pytest.raises(InputError, match="codes with 3 entries, as the model has; got one of 2"):
        FlowPrior(PCA.fit(torch.randn(9, 4), latent_dim=3), Flow(2))
    with pytest.raises(InputError, match="alpha=0"):
        train(Flow(2), _bent(9), _bent(9), Training(alpha=1.0), predictor=lambda x: x)
