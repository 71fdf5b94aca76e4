"""Searches that move few entries of long codes, against the whole search and the codes."""

from __future__ import annotations

import pytest
import torch
from tests.pipelines import normal
from torch import Tensor, nn

import cfopt
from cfopt.generative import PCA
from cfopt.problems import GridShortestPath
from cfopt.search import FewCodes, LatentSequential


@pytest.fixture(scope="module")
def wide() -> tuple[cfopt.Pipeline, Tensor, PCA]:
    """Twelve features and codes, of which costs depend on the first five."""
    torch.manual_seed(2)
    problem = GridShortestPath(4, 4)
    layers = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, problem.num_costs)).double()
    x = normal(80, 12, seed=6)
    model = PCA.fit(x, latent_dim=12)
    with torch.no_grad():
        seen = torch.eye(12, dtype=torch.float64)
        seen[5:] = 0
        turned = model.components * model.spread[:, None]
        # In codes, so that the costs see the first five of them.
        layers[0].weight.copy_(layers[0].weight @ seen @ torch.linalg.inv(turned.T))
    return cfopt.Pipeline(layers, problem), x, model


@pytest.mark.parametrize("kind", ["absolute", "relative", "epsilon"])
def test_entries_that_say_nothing_about_costs_stay_and_answers_are_as_near(
    wide: tuple[cfopt.Pipeline, Tensor, PCA], kind: str
) -> None:
    pipeline, x, model = wide
    wanted = pipeline.decide(x[20:28])
    asked = {
        "absolute": cfopt.Absolute(wanted),
        "relative": cfopt.Relative(wanted),
        "epsilon": cfopt.Epsilon(0.2),
    }[kind]
    plain, few = (
        cfopt.explain(
            x[:8],
            pipeline,
            asked,
            generative=model,
            proximity=cfopt.Latent(cfopt.L2()),
            plausibility=cfopt.Sphere(0.1),
            search=search,
        )
        for search in (LatentSequential(), FewCodes(LatentSequential(), entries=6, rounds=1))
    )
    assert few.latent is not None
    moved = (few.latent.z - few.latent.z0).abs() > 1e-9
    assert (moved.sum(1) <= 6).all()
    assert few.valid.sum() >= plain.valid.sum() - 1
    both = plain.valid & few.valid
    assert both.any()
    assert few.loss[both].mean() <= 1.3 * plain.loss[both].mean()


def test_rows_without_an_answer_go_on_among_the_entries_that_matter_where_they_are(
    wide: tuple[cfopt.Pipeline, Tensor, PCA],
) -> None:
    pipeline, x, model = wide
    climb = LatentSequential(restarts=0)
    once, often = (
        cfopt.explain(
            x[:8],
            pipeline,
            cfopt.Absolute(pipeline.decide(x[20:28])),
            generative=model,
            search=FewCodes(climb, entries=2, rounds=rounds),
        )
        for rounds in (1, 4)
    )
    assert often.valid.sum() > once.valid.sum()
    assert often.latent is not None
    moved = ((often.latent.z - often.latent.z0).abs() > 1e-9).sum(1)
    further = often.valid & ~once.valid
    assert (moved[further] > 2).all()
    # A row that was answered at once is left alone; the others took more than one round.
    assert torch.equal(often.x[once.valid], once.x[once.valid])
    assert (often.steps[further] > once.steps[further]).all()


def test_short_codes_are_left_to_the_search_itself(
    wide: tuple[cfopt.Pipeline, Tensor, PCA],
) -> None:
    pipeline, x, model = wide
    with pytest.raises(cfopt.InputError, match="no more than 12 entries"):
        cfopt.explain(
            x[:1],
            pipeline,
            cfopt.Epsilon(0.1),
            generative=model,
            search=FewCodes(LatentSequential(), entries=12),
        )


def test_entries_with_scales_of_their_own_are_left_to_the_whole_search(
    wide: tuple[cfopt.Pipeline, Tensor, PCA],
) -> None:
    pipeline, x, model = wide
    asked = {
        "generative": model,
        "proximity": cfopt.Latent(cfopt.L2(scale=[2.0] * 12)),
        "plausibility": cfopt.Sphere(0.1),
    }
    wanted = cfopt.Absolute(pipeline.decide(x[20:24]))
    few = FewCodes(LatentSequential(), entries=6)
    with pytest.raises(cfopt.InputError, match="scales of their own"):
        cfopt.explain(x[:4], pipeline, wanted, search=few, **asked)
    assert cfopt.explain(x[:4], pipeline, wanted, search=LatentSequential(), **asked).valid.any()
