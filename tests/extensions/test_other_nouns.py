"""A search, a proximity, a generative model and a predictor, each added in one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from driving import configure, explained, served, unlimited
from hinges import hinges
from random_shooting import RandomShooting
from smooth import Smooth
from tests.pipelines import another, normal
from torch import Tensor
from whitened import Whitened

import cfopt
from cfopt.testing import (
    GenerativeContract,
    PredictorContract,
    ProximityContract,
    SearchContract,
)

_ASKED = {"kind": "relative", "alternative": {"row": 0}}
_SPREAD = "arguments = { mean = [10.0, 5.0, 1.0, 0.3], spread = [5.0, 2.0, 1.0, 0.5] }"


class TestRandomShooting(SearchContract):
    nearness = float("inf")  # it takes whatever it hits

    def search(self) -> cfopt.Search:
        return RandomShooting(shots=120, reach=8.0)


class TestSmooth(ProximityContract):
    def proximity(self) -> cfopt.Proximity:
        return Smooth([1.0, 2.0, 0.5, 3.0, 1.0], width=0.2)


class TestWhitened(GenerativeContract):
    def model(self) -> cfopt.GenerativeModel:
        return Whitened([1.0, -2.0, 0.5], [1.0, 2.0, 0.5])

    def contexts(self) -> Tensor:
        return normal(8, 3).float()


class TestHinges(PredictorContract):
    def predictor(self) -> Callable[[Tensor], Tensor]:
        return hinges(4, 12)

    def contexts(self) -> Tensor:
        return normal(6, 4)


def _roundtrip(e: cfopt.Explanation) -> cfopt.Explanation:
    return cfopt.Explanation.from_json(e.to_json())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"search": RandomShooting(shots=50, reach=3.0)}, ""),
        ({"proximity": Smooth(width=0.3)}, "by a smooth sum of all changes"),
        ({"proximity": Smooth([1.0, 2.0, 1.0, 1.0]), "search": cfopt.MDMM(max_steps=9)}, ""),
    ],
)
def test_an_explanation_and_its_json_know_what_was_asked(
    grid: cfopt.Pipeline, asked: dict, words: str, tmp_path: Path
) -> None:
    from cfopt.result.nearness import measured

    x0 = normal(3, 4)
    e = cfopt.explain(x0, grid, cfopt.Relative(another(grid, x0)), margin=0.01, **asked)
    for one in (e, _roundtrip(e), e[1:]):
        assert one.asked.margin == 0.01
        assert one.asked.search == asked.get("search", cfopt.Auto())
        assert type(one.asked.proximity) is type(asked.get("proximity", cfopt.L2()))
        assert repr(one.asked.proximity) == repr(asked.get("proximity", cfopt.L2()))
        assert words in measured(one)
    assert e[0].plot(tmp_path / "why.png") is not None


def test_a_search_of_ones_own_is_configured_and_served(example: Path) -> None:
    line = 'class = "random_shooting:RandomShooting"\nshots = 200\nreach = 4.0'
    configure(example, "search", "random_shooting", line)
    e, html = explained(example)
    assert e.asked.search == RandomShooting(shots=200, reach=4.0)
    assert "random shooting" in e.method
    assert "RandomShooting (shots = 200, reach = 4.0)" in html
    assert served(example, _ASKED).result["status"] in ("valid", "best effort", "already valid")


def test_a_proximity_of_ones_own_is_configured_and_served(example: Path) -> None:
    line = 'class = "smooth.Smooth"\nwidth = 0.05'
    configure(example, "proximity", "smooth", line)
    e, html = explained(example)
    assert e.asked.proximity == Smooth(width=0.05)
    scale = torch.tensor([4.0, 2.0, 1.0, 1.0], dtype=e.x.dtype)
    change = (e.x - e.x0) / scale
    expected = ((change**2 + 0.05**2).sqrt() - 0.05).sum(1)
    assert e.valid.any()
    assert torch.allclose(e.loss[e.valid], expected[e.valid], atol=1e-6)
    assert "by a smooth sum of all changes, in units of the features" in html
    assert served(example, _ASKED).result["valid"]


def test_a_generative_model_that_is_not_a_module_is_configured_and_served(example: Path) -> None:
    unlimited(example)
    line = f'class = "whitened:Whitened"\n{_SPREAD}\n[plausibility]\nkind = "Sphere"\nbeta = 1'
    configure(example, "generative", "whitened", line)
    e, html = explained(example)
    assert e.z is not None
    assert torch.allclose(Whitened([10.0, 5.0, 1.0, 0.3], [5.0, 2.0, 1.0, 0.5]).decode(e.z), e.x)
    assert e.asked.plausibility == cfopt.Sphere(1.0)
    assert "whitened:Whitened" in html
    answer = served(example, _ASKED)
    assert answer.result["rating"]


def test_a_predictor_made_by_a_function_is_configured_and_served(example: Path) -> None:
    line = 'class = "hinges:hinges"\narguments = { features = 4, costs = 12, seed = 3 }'
    configure(example, "predictor", "hinges", line)
    e, html = explained(example)
    x = pd.read_csv(example.parent / "contexts.csv").drop(columns="day").to_numpy()
    assert torch.allclose(hinges(4, 12, 3)(torch.tensor(x)).detach(), e.costs_before, atol=1e-9)
    assert "hinges:hinges" in html
    assert served(example, _ASKED).result["status"]
    # Once it is registered, its name will do, and nothing needs to be trusted.
    named = example.read_text().replace('class = "hinges:hinges"', 'kind = "hinges"')
    example.write_text(named)
    from tests.commands import work_of

    assert torch.equal(work_of(example).pipeline.costs(e.x0), e.costs_before)
