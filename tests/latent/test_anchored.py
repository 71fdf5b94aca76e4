"""Anchored decoding, against its formula, finite differences and the plain decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from tests.pipelines import normal
from torch import Tensor, nn

import cfopt
from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.generative import PCA, Anchored, Elliptical, FlowPrior, GenerativeModel
from cfopt.problems import GridShortestPath
from cfopt.search import MDMM, Search
from cfopt.search.fallback import Fallback
from cfopt.testing import GenerativeContract


class Blur(nn.Module):
    """Images of 2 channels and 6 x 6 pixels, of which only means of 2 x 2 pixels are kept."""

    latent_dim = 18

    def encode(self, x: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(x, 2).flatten(1)

    def decode(self, z: Tensor) -> Tensor:
        return z.view(-1, 2, 3, 3).repeat_interleave(2, 2).repeat_interleave(2, 3)


def _with_prior(model: Blur) -> FlowPrior:
    """Its codes, standardised."""
    return FlowPrior(model, Elliptical(18).standardise(normal(200, 18, seed=6).float()))


class TestAnchored(GenerativeContract):
    def model(self) -> Anchored:
        return Anchored(PCA.fit(self.contexts(), latent_dim=3))

    def contexts(self) -> Tensor:
        return normal(30, 5, seed=1).float()


@pytest.fixture(scope="module")
def rough() -> tuple[cfopt.Pipeline, Tensor, PCA]:
    """Six features, of which the model keeps four directions."""
    torch.manual_seed(1)
    problem = GridShortestPath(4, 4)
    layers = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, problem.num_costs)).double()
    x = normal(60, 6, seed=2)
    return cfopt.Pipeline(layers, problem), x, PCA.fit(x, latent_dim=4)


def test_at_the_code_of_a_context_it_is_that_context_to_the_last_bit() -> None:
    x, model = normal(3, 2, 6, 6, seed=3), Anchored(Blur())
    decoded = model.decode(model.encode(x))
    assert (decoded - x).abs().max() > 0.5
    assert torch.equal(model.anchor(x, decoded).restore(decoded), x)


class BoundedBlur(Blur):
    """The same of pixels from 0 to 1."""

    value_range = (0.0, 1.0)


@pytest.mark.parametrize("wrap", [lambda model: model, _with_prior], ids=["alone", "with a prior"])
def test_details_make_no_pixel_that_an_image_cannot_have(
    wrap: Callable[[BoundedBlur], GenerativeModel],
) -> None:
    x = normal(4, 2, 6, 6, seed=5).sigmoid()
    x[0, 0, 0, 0] = 1.005  # such as a resampled image has
    model = Anchored(wrap(BoundedBlur()), tau=10.0)
    d0 = BoundedBlur().decode(BoundedBlur().encode(x))
    brighter = d0 + 0.5 * (1 - d0)
    anchor = model.anchor(x, d0)
    free = replace(anchor, limits=None).restore(brighter)
    assert free.max() > 1.1  # without limits, details are added to what is bright already
    assert torch.equal(anchor.restore(d0), x)
    held = anchor.restore(brighter)
    assert held.min() >= 0
    assert held.max() == 1.005
    inside = (free >= 0) & (free <= 1)
    assert torch.equal(held[inside], free[inside])
    assert not inside.all()


@pytest.mark.parametrize("declared", [(1.0, 0.0), (0.0,), 1.0, "ab", (0.0, float("nan"))])
def test_a_value_range_that_is_none_is_refused(declared: object) -> None:
    model = Blur()
    model.value_range = declared
    with pytest.raises(InputError, match=r"^Blur\.value_range needs to be two numbers"):
        Anchored(model)


def test_images_follow_the_formula_and_distant_pixels_keep_their_details() -> None:
    x, model = normal(2, 2, 6, 6, seed=3), Anchored(Blur(), tau=0.3, reach=1)
    z0 = model.encode(x)
    d0 = model.decode(z0)
    z = z0.clone()
    z[:, 0] += 2.0  # the upper left pixels of the first channel
    d = model.decode(z)
    found = model.anchor(x, d0).restore(d)
    expected = torch.empty_like(x)
    for i in range(6):
        for j in range(6):
            near = (slice(max(0, i - 1), i + 2), slice(max(0, j - 1), j + 2))
            change = (d - d0).square().sum(1)[:, *near].mean((1, 2))
            weight = torch.exp(-change / 0.3)[:, None]
            expected[:, :, i, j] = d[:, :, i, j] + weight * (x - d0)[:, :, i, j]
    assert torch.allclose(found, expected, atol=1e-12)
    assert torch.equal(found[:, :, 3:], x[:, :, 3:])


def test_features_are_measured_in_their_scales() -> None:
    x = normal(20, 3, seed=4)
    scale = torch.tensor([1.0, 10.0, 0.1])
    model = Anchored(PCA.fit(x, latent_dim=1), tau=0.5, scale=scale)
    d0 = model.decode(model.encode(x))
    d = d0 + 0.3
    expected = d + torch.exp(-(0.3 / scale).square() / 0.5) * (x - d0)
    assert torch.allclose(model.anchor(x, d0).restore(d), expected, atol=1e-12)


def test_gradients_pass_through_the_weights(rough: tuple[cfopt.Pipeline, Tensor, PCA]) -> None:
    _, x, model = rough
    anchored = Anchored(model, tau=0.2)
    anchor = anchored.anchor(x[:4], anchored.decode(anchored.encode(x[:4])))
    z = (anchored.encode(x[:4]) + 0.3).requires_grad_()
    assert torch.autograd.gradcheck(lambda code: anchor.restore(anchored.decode(code)), z)


@pytest.mark.parametrize("search", [None, MDMM(step=0.05, max_steps=600)], ids=["default", "MDMM"])
def test_rows_have_anchors_of_their_own_and_the_decision_does_not_move_by_itself(
    rough: tuple[cfopt.Pipeline, Tensor, PCA], search: cfopt.Search | None
) -> None:
    pipeline, x, model = rough
    x0 = x[:8]
    wanted = pipeline.decide(x[20:28])
    ask = {"proximity": cfopt.L2(), "search": search}
    plain = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), generative=model, **ask)
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), generative=Anchored(model, 2.0), **ask)
    assert plain.latent is not None
    assert e.latent is not None
    assert not e.reconstruction_moved.any()
    assert torch.equal(e.latent.reconstruction, x0)
    assert e.valid.sum() >= plain.valid.sum()
    both = e.valid & plain.valid
    assert e.distance[both].mean() < plain.distance[both].mean() or search is not None
    # The answer is what the formula makes of its code, and the loss is that of the answer.
    d0, d = model.decode(model.encode(x0)), model.decode(e.latent.z)
    formula = d + torch.exp(-(d - d0).square() / 2.0) * (x0 - d0)
    assert torch.allclose(e.x[e.valid], formula[e.valid], atol=1e-9)
    loss = (e.x - x0).square().sum(1)
    assert torch.allclose(e.loss[e.valid], loss[e.valid], atol=1e-9)
    for row in range(3):
        alone = cfopt.explain(
            x0[row : row + 1],
            pipeline,
            cfopt.Relative(wanted[row : row + 1]),
            generative=Anchored(model, 2.0),
            **ask,
        )
        assert torch.allclose(alone.x[0], e.x[row], atol=1e-6)


def test_a_context_that_cannot_be_used_does_not_spoil_the_others(
    rough: tuple[cfopt.Pipeline, Tensor, PCA],
) -> None:
    pipeline, x, model = rough
    x0 = x[:3].clone()
    x0[1] = torch.nan
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.05), generative=Anchored(model))
    assert e.status[1] == "rejected"
    assert {e.status[0], e.status[2]} == {"valid"}


@pytest.mark.parametrize("settings", [{"tau": 0}, {"reach": -1}, {"scale": 0.0}, {"tau": "soft"}])
def test_settings_that_mean_nothing_are_refused(
    settings: dict[str, object], rough: tuple[cfopt.Pipeline, Tensor, PCA]
) -> None:
    with pytest.raises(InputError, match=r"^Anchored needs"):
        Anchored(rough[2], **settings)


class OneByOne(Search):
    """MDMM, whose rows are handed over one at a time."""

    def steps(self, task: Task) -> Iterator[Progress]:
        points = MDMM(step=0.05, max_steps=60).run(task)
        for k in range(len(task)):
            yield Progress(k + 1, len(task) - k - 1, len(task), points[torch.tensor([k])])


def test_rows_that_finish_early_are_decoded_beside_their_own_anchors(
    rough: tuple[cfopt.Pipeline, Tensor, PCA],
) -> None:
    pipeline, x, model = rough
    asked = {"generative": Anchored(model), "search": Fallback((OneByOne(), OneByOne()))}
    wanted = pipeline.decide(x[20:26])
    together = cfopt.explain(x[:6], pipeline, cfopt.Absolute(wanted), **asked)
    assert together.valid.any()
    for row in range(6):
        one = slice(row, row + 1)
        alone = cfopt.explain(x[one], pipeline, cfopt.Absolute(wanted[one]), **asked)
        assert alone.status == together[row].status
        assert torch.allclose(alone.x, together[row].x, atol=1e-6)
