"""Searches that move long codes in broad directions, against the whole search and the codes."""

from __future__ import annotations

import pytest
import torch
from tests.pipelines import normal
from torch import Tensor, nn

import cfopt
from cfopt.engine.latent import LatentSpace
from cfopt.generative import PCA, Anchored, Flow, FlowPrior
from cfopt.generative.protocol import broad_directions
from cfopt.problems import GridShortestPath
from cfopt.search import BroadCodes, LatentSequential


class Named(nn.Module):
    """A generative model with twelve codes that names the directions it is given."""

    def __init__(self, model: PCA, directions: Tensor) -> None:
        super().__init__()
        self.model, self.latent_dim, self.named = model, model.latent_dim, directions

    def encode(self, x: Tensor) -> Tensor:
        return self.model.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        return self.model.decode(z)

    def broad_directions(self, count: int) -> Tensor:
        return self.named[:, :count]


@pytest.fixture(scope="module")
def wide() -> tuple[cfopt.Pipeline, Tensor, Named]:
    """Twelve features and codes, with directions that are no axes."""
    torch.manual_seed(2)
    problem = GridShortestPath(4, 4)
    layers = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, problem.num_costs)).double()
    x = normal(80, 12, seed=6)
    directions, _ = torch.linalg.qr(normal(12, 12, seed=8))
    return cfopt.Pipeline(layers, problem), x, Named(PCA.fit(x, latent_dim=12), directions)


@pytest.mark.parametrize("kind", ["absolute", "relative", "epsilon"])
def test_codes_move_in_the_directions_named_and_in_no_other(
    wide: tuple[cfopt.Pipeline, Tensor, Named], kind: str
) -> None:
    pipeline, x, model = wide
    wanted = pipeline.decide(x[20:28])
    asked = {
        "absolute": cfopt.Absolute(wanted),
        "relative": cfopt.Relative(wanted),
        "epsilon": cfopt.Epsilon(0.1),
    }[kind]
    e = cfopt.explain(
        x[:8],
        pipeline,
        asked,
        generative=model,
        plausibility=cfopt.Sphere(0.1),
        search=BroadCodes(LatentSequential(), directions=8, stray=0.1),
    )
    assert e.latent is not None
    moved = e.latent.z - e.latent.z0
    assert (moved @ model.named[:, 8:]).abs().max() < 1e-9
    assert (moved @ model.named[:, :8]).abs().amax(1)[e.valid].min() > 1e-6
    assert e.valid.sum() >= 5


def test_in_all_directions_but_one_that_says_nothing_answers_are_those_of_the_whole_search(
    wide: tuple[cfopt.Pipeline, Tensor, Named],
) -> None:
    pipeline, x, model = wide
    blind = cfopt.Pipeline(
        nn.Sequential(_Without(model, 11), *pipeline.predictor), pipeline.problem
    )
    asked = cfopt.Absolute(blind.decide(x[20:28]))
    whole, broad = (
        cfopt.explain(
            x[:8], blind, asked, generative=model, plausibility=cfopt.Sphere(0.0), search=search
        )
        for search in (LatentSequential(), BroadCodes(LatentSequential(), directions=11, stray=0.0))
    )
    both = whole.valid & broad.valid
    assert both.sum() >= 5
    assert broad.loss[both].median() <= 1.05 * whole.loss[both].median()


class _Without(nn.Module):
    """Contexts without what one direction of their codes says."""

    def __init__(self, model: Named, number: int) -> None:
        super().__init__()
        self.model, self.direction = model, model.named[:, number]

    def forward(self, x: Tensor) -> Tensor:
        z = self.model.encode(x)
        return self.model.decode(z - (z @ self.direction)[:, None] * self.direction)


def test_with_plausibility_straying_from_the_factual_code_costs_what_it_should() -> None:
    z0, directions = normal(3, 5, seed=1), torch.linalg.qr(normal(5, 5, seed=2))[0][:, :3]
    space = LatentSpace(
        PCA.fit(normal(20, 5, seed=3), latent_dim=5),
        torch.zeros(3, 3, dtype=torch.float64),
        cfopt.Sphere(2.0),
        base=z0,
        directions=directions,
        stray=0.7,
    )
    u = normal(3, 3, seed=4).requires_grad_()
    z = z0 + u @ directions.T
    expected = cfopt.Sphere(2.0)(z) + 0.7 * (z - z0).square().sum(1)
    value, slope = space.penalty(u.detach())
    assert torch.allclose(value, expected)
    assert torch.allclose(space.implausibility(u.detach()), expected)
    (gradient,) = torch.autograd.grad(expected.sum(), u)
    assert torch.allclose(slope, gradient)
    # Along the code itself the sphere bends as its model says; across it, straying alone does.
    bend = space.curvature(u.detach())
    along = (z / z.norm(dim=1, keepdim=True)).detach() @ directions
    model = 4.0 * along[:, :, None] * along[:, None] + 1.4 * torch.eye(3, dtype=torch.float64)
    assert torch.allclose(bend, model)


def test_the_broad_directions_of_a_flow_are_the_axes_in_which_contexts_vary_most() -> None:
    torch.manual_seed(0)
    turn, _ = torch.linalg.qr(normal(16, 16, seed=5))
    spread = torch.linspace(4.0, 0.5, 16, dtype=torch.float64)
    contexts = (normal(4000, 16, seed=6) * spread) @ turn.T
    for grid in (None, (1, 4, 4)):
        flow = Flow(16, grid=grid, layers=2, width=4).double().standardise(contexts)
        directions = flow.broad_directions(3)
        assert directions.shape == (16, 3)
        assert torch.allclose(directions.T @ directions, torch.eye(3, dtype=torch.float64))
        steps = flow.decode(directions.T) - flow.decode(torch.zeros_like(directions.T))
        _, vectors = torch.linalg.eigh(torch.cov(contexts.T))
        main = vectors.flip(1)[:, :3]
        # As long as a standard deviation, and along the axis, up to its sign.
        assert torch.allclose((steps @ main).abs().diagonal(), spread[:3], rtol=0.1)
        assert torch.allclose(steps.norm(dim=1), spread[:3], rtol=0.1)


def test_a_prior_and_an_anchored_model_pass_directions_on_and_others_name_none() -> None:
    x = normal(100, 6, seed=7)
    inner = PCA.fit(x, latent_dim=6)
    flow = Flow(6, layers=2, width=4).double().standardise(inner.encode(x))
    prior = FlowPrior(inner, flow)
    for model in (prior, Anchored(prior)):
        named = broad_directions(model, 4)
        assert named is not None
        assert torch.equal(named, flow.broad_directions(4))
    for model in (inner, Anchored(inner)):
        assert broad_directions(model, 4) is None


def test_what_it_cannot_serve_is_said(wide: tuple[cfopt.Pipeline, Tensor, Named]) -> None:
    pipeline, x, model = wide
    for given, match in (
        ({"generative": model, "directions": 12}, "no more than 12 entries"),
        ({"generative": model.model, "directions": 6}, "names no broad directions"),
        (
            {"generative": model, "directions": 6, "proximity": cfopt.Latent(cfopt.L2())},
            "compared entry by entry",
        ),
    ):
        options = dict(given)
        search = BroadCodes(LatentSequential(), directions=options.pop("directions"))
        with pytest.raises(cfopt.InputError, match=match):
            cfopt.explain(x[:1], pipeline, cfopt.Epsilon(0.1), search=search, **options)
    with pytest.raises(cfopt.InputError, match="stray"):
        BroadCodes(LatentSequential(), stray=-1.0)


@pytest.mark.parametrize("seen", ["named", "others"])
def test_by_default_long_codes_move_in_broad_directions_and_in_others_where_that_is_no_use(
    seen: str,
) -> None:
    torch.manual_seed(3)
    problem = GridShortestPath(3, 3)
    x = normal(300, 140, seed=9)
    directions, _ = torch.linalg.qr(normal(140, 140, seed=10))
    model = Named(PCA.fit(x, latent_dim=140), directions)
    looked_at = directions[:, :6] if seen == "named" else directions[:, 134:]
    layers = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, problem.num_costs)).double()
    pipeline = cfopt.Pipeline(nn.Sequential(_Codes(model, looked_at), layers), problem)
    wanted = pipeline.decide(x[20:24])
    e = cfopt.explain(
        x[:4],
        pipeline,
        cfopt.Absolute(wanted),
        generative=model,
        plausibility=cfopt.Sphere(0.1),
    )
    assert e.latent is not None
    changed = (wanted != pipeline.decide(x[:4])).any(1)
    assert (e.valid & changed).sum() >= 2
    beyond = ((e.latent.z - e.latent.z0) @ directions[:, 128:]).abs().amax(1)
    assert ((beyond > 1e-6) == (seen == "others"))[e.valid & changed].all()


class _Codes(nn.Module):
    """What codes say in some directions."""

    def __init__(self, model: Named, directions: Tensor) -> None:
        super().__init__()
        self.model, self.directions = model, directions

    def forward(self, x: Tensor) -> Tensor:
        return self.model.encode(x) @ self.directions
