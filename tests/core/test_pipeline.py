"""A pipeline reads contexts in every form in which they can be explained."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from tests.pipelines import another, normal

import cfopt
from cfopt.problems import Finite


class _Viewing(torch.nn.Module):
    """The mean of each channel of an image, read with `.view`, as older models do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(len(x), 3, -1).mean(2)


def _colours() -> cfopt.Pipeline:
    return cfopt.Pipeline(_Viewing(), Finite(torch.eye(3)))


def _images(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 4, 5, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x,
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        lambda x: pd.DataFrame(x.numpy(), columns=list("abcd")),
        lambda x: x.T.contiguous().T,
    ],
)
def test_tables_in_any_form_are_decided_as_they_are_explained(form, grid: cfopt.Pipeline) -> None:
    x = normal(6, 4)
    given = form(x)
    # By hand, and by what explain says it started from.
    layer = grid.predictor
    costs = (x @ layer.weight.T + layer.bias).detach()
    listed = grid.problem.decisions()
    expected = listed[(costs @ listed.T).argmin(1)]
    assert torch.allclose(grid.costs(given).detach(), costs)
    assert torch.equal(grid.decide(given), expected)
    e = cfopt.explain(given, grid, cfopt.Absolute(expected))
    assert torch.equal(e.factual, expected)
    other = another(grid, x)
    best = (costs * expected).sum(1)
    regret = ((costs * other).sum(1) - best) / best.abs()
    assert torch.allclose(grid.regret(given, other), regret)
    assert torch.allclose(grid.regret(given, other.numpy()), regret)


def test_a_single_context_is_a_batch_of_one(grid: cfopt.Pipeline) -> None:
    x = normal(3, 4)
    frame = pd.DataFrame(x.numpy(), columns=list("abcd"))
    expected = grid.decide(x)[1:2]
    for given in (x[1], x[1].numpy(), x[1].tolist(), frame.iloc[1]):
        assert torch.equal(grid.decide(given), expected)
        assert grid.costs(given).shape == (1, 12)
        assert grid.regret(given, expected).tolist() == [0.0]


def test_images_as_bytes_are_decided_as_floats_with_the_channels_first() -> None:
    images, pipeline = _images(6), _colours()
    expected = np.eye(3)[images.astype(float).mean(axis=(1, 2)).argmin(axis=1)]
    floats = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    for given in (images, torch.from_numpy(images), floats, floats.contiguous()):
        assert np.array_equal(pipeline.decide(given).numpy(), expected)
    assert np.array_equal(pipeline.decide(images[2]).numpy(), expected[2:3])


def test_contexts_that_are_not_contiguous_are_explained_by_a_model_that_uses_view() -> None:
    images, pipeline = _images(4), _colours()
    floats = torch.from_numpy(images).permute(0, 3, 1, 2).double() / 255
    assert not floats.is_contiguous()
    wanted = pipeline.decide(floats).roll(1, 1)
    e = cfopt.explain(floats, pipeline, cfopt.Relative(wanted), reference=floats.flip(3))
    same = cfopt.explain(floats.contiguous(), pipeline, cfopt.Relative(wanted))
    assert e.valid.all()
    assert torch.equal(e.x, same.x)


def test_costs_keep_the_gradient_of_their_contexts(grid: cfopt.Pipeline) -> None:
    x = normal(2, 4).requires_grad_()
    (slope,) = torch.autograd.grad(grid.costs(x).sum(), x)
    assert torch.allclose(slope, grid.predictor.weight.sum(0).expand(2, -1))


def test_what_cannot_be_read_is_named(grid: cfopt.Pipeline) -> None:
    with pytest.raises(cfopt.InputError, match=r"Pipeline needs contexts as a tensor"):
        grid.decide("rain")
    with pytest.raises(cfopt.InputError, match=r"torch.float32 on cpu, the predictor is"):
        grid.decide(normal(2, 4).float())
