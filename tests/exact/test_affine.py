"""Affinity is known by structure or declared, never guessed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benchmarks.independent import nearest_l2
from tests.pipelines import another, normal, random_linear
from torch import nn

import cfopt
from cfopt.exact.affine import AffineMap, is_affine
from cfopt.problems import Finite, GridShortestPath
from cfopt.question.proximity import L2


def _trained_norm(size: int) -> nn.BatchNorm1d:
    norm = nn.BatchNorm1d(size).double()
    for _ in range(5):
        norm(3 * normal(20, size) + 1)
    return norm


class _Own(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).relu()


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.Linear(3, 2), True),
        (nn.Sequential(nn.Linear(3, 3), nn.Identity(), nn.Dropout(0.5), nn.Linear(3, 2)), True),
        (nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(3, 2))), True),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), True),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.AvgPool2d(2), nn.Flatten()), True),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False)), False),
        (nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)), False),
        (nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)), False),
        (nn.MaxPool2d(2), False),
        (_Own(3, 2), False),
        (lambda x: 2 * x, False),
        (cfopt.Affine(lambda x: 2 * x), True),
    ],
)
def test_affine_modules_are_told_by_their_structure(module, expected: bool) -> None:
    assert is_affine(module) is expected


def test_a_hook_may_do_anything() -> None:
    layer = nn.Linear(3, 2)
    layer.register_forward_hook(lambda module, inputs, output: output.relu())
    assert not is_affine(layer)
    layer = nn.Linear(3, 2)
    layer.register_forward_pre_hook(lambda module, inputs: (inputs[0].relu(),))
    assert not is_affine(nn.Sequential(layer))
    layer = nn.Linear(3, 2)
    layer.forward = lambda x: x.relu()
    assert not is_affine(layer)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_map_is_that_of_the_predictor_as_deployed(dtype: torch.dtype) -> None:
    problem = GridShortestPath(3, 3)
    module = nn.Sequential(
        nn.Dropout(0.9), random_linear(4, 6), _trained_norm(6), random_linear(6, problem.num_costs)
    ).to(dtype)
    pipeline = cfopt.Pipeline(module, problem)
    x0 = normal(5, 4).to(dtype)
    with pipeline.eval_mode():
        factual = pipeline.decide(x0)
        rules = cfopt.Rules(problem, factual, cfopt.Epsilon(0.1), dtype=dtype)
        task = cfopt.Task(rules, cfopt.Space(x0, L2()), module)
        found = AffineMap.of(task)
        there = module.double()(x0.double()).detach().numpy()
    assert np.allclose(x0.double().numpy() @ found.weight.T + found.bias, there, atol=1e-12)
    assert module.training


def test_images_can_be_explained_exactly() -> None:
    problem = Finite(torch.eye(3))
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(3, 3))
    pipeline = cfopt.Pipeline(module.double(), problem)
    x0 = normal(4, 2, 4, 4)
    wanted = torch.eye(3)[(pipeline.decide(x0).argmax(1) + 1) % 3]
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted))
    assert e.optimal.all()
    assert e.x.shape == x0.shape
    assert set(e.method) == {"cutting planes"}


def test_large_images_can_be_explained_exactly_without_limits() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 40 * 40, 4)).double()
    pipeline = cfopt.Pipeline(module, Finite(torch.eye(4)))
    x0 = normal(3, 3, 40, 40)
    wanted = torch.eye(4)[(pipeline.decide(x0).argmax(1) + 1) % 4]
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted))
    assert e.optimal.all()
    weight, bias = module[1].weight.detach().numpy(), module[1].bias.detach().numpy()
    for row in range(3):
        directions = wanted[row].numpy() - np.eye(4)
        g = directions @ weight
        h = -directions @ (weight @ x0[row].flatten().numpy() + bias)
        kept = np.abs(g).sum(1) > 0
        # The nearest point is a combination of the normals: solve for its weights.
        basis = np.linalg.svd(g[kept], full_matrices=False)[2]
        assert e.loss[row].item() == pytest.approx(nearest_l2(g[kept] @ basis.T, h[kept]), rel=1e-6)
    limited, search = cfopt.Features(lower=-10.0), cfopt.CuttingPlane()
    with pytest.raises(cfopt.InputError, match="4800 features with limits"):
        cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), features=limited, search=search)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), features=limited)
    assert set(e.method) == {"tangents"}


def test_a_declared_function_is_explained_exactly(grid: cfopt.Pipeline) -> None:
    layer = grid.predictor
    declared = cfopt.Pipeline(cfopt.Affine(lambda x: x @ layer.weight.T + layer.bias), grid.problem)
    x0 = normal(6, 4)
    criterion = cfopt.Absolute(another(grid, x0))
    a, b = (cfopt.explain(x0, pipeline, criterion) for pipeline in (grid, declared))
    assert b.optimal.all()
    assert torch.allclose(a.x, b.x, atol=1e-9)


def test_a_false_declaration_is_refused_where_the_contexts_refute_it(grid: cfopt.Pipeline) -> None:
    layer = grid.predictor
    pipeline = cfopt.Pipeline(cfopt.Affine(lambda x: layer(x).square()), grid.problem)
    x0 = normal(3, 4)
    with pytest.raises(cfopt.InputError, match="declared to be affine"):
        cfopt.explain(x0, pipeline, cfopt.Absolute(another(grid, x0)))
    with pytest.raises(cfopt.InputError, match="can be called"):
        cfopt.Affine(3)


@pytest.mark.parametrize(
    "search", [cfopt.CuttingPlane(), cfopt.ClosedForm(), cfopt.Enumeration()], ids=str
)
def test_a_predictor_that_is_not_affine_is_refused_with_a_hint(search) -> None:
    problem = GridShortestPath(3, 3)
    module = nn.Sequential(random_linear(4, 6), nn.ReLU(), random_linear(6, problem.num_costs))
    pipeline = cfopt.Pipeline(module, problem)
    x0 = normal(2, 4)
    with pytest.raises(cfopt.InputError, match=r"not known to be affine.*Sequential\(\)"):
        cfopt.explain(x0, pipeline, cfopt.Relative(another(pipeline, x0)), search=search)


def test_a_search_that_does_not_serve_the_criterion_says_which_does(grid: cfopt.Pipeline) -> None:
    x0 = normal(2, 4)
    absolute, epsilon = cfopt.Absolute(another(grid, x0)), cfopt.Epsilon(0.2)
    for search, criterion, hint in (
        (cfopt.CuttingPlane(), epsilon, "Enumeration"),
        (cfopt.ClosedForm(), absolute, "Auto"),
        (cfopt.Enumeration(), absolute, "CuttingPlane"),
        (cfopt.Enumeration(max_decisions=3), epsilon, "more than 3"),
    ):
        with pytest.raises(cfopt.InputError, match=hint):
            cfopt.explain(x0, grid, criterion, search=search)


@pytest.mark.parametrize(
    "make",
    [
        lambda: cfopt.CuttingPlane(max_rounds=0),
        lambda: cfopt.CuttingPlane(max_rounds=2.5),
        lambda: cfopt.Sequential(seed=1.5),
        lambda: cfopt.Sequential(max_steps=True),
        lambda: cfopt.Sequential(samples=2, starts=3),
        lambda: cfopt.Enumeration(max_decisions=0),
        lambda: cfopt.Sequential(max_steps=0),
        lambda: cfopt.Sequential(radius=0.0),
        lambda: cfopt.Sequential(starts=1.5),
    ],
)
def test_settings_out_of_range_are_refused(make) -> None:
    with pytest.raises(cfopt.InputError, match="needs"):
        make()
