"""One model for all costs, against a loop over contexts and items."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from tests.pipelines import normal

import cfopt
from cfopt.errors import InputError, PredictorError
from cfopt.exact.affine import is_affine
from cfopt.pipeline import Function, PerItem
from cfopt.problems import Finite, GridShortestPath
from cfopt.testing import PredictorContract

GRID = GridShortestPath(3, 3)
RNG = np.random.default_rng(0)
ITEMS = RNG.uniform(0.5, 1.5, size=(GRID.num_costs, 2))


def looped(model, x: np.ndarray) -> np.ndarray:  # type: ignore[no-untyped-def]
    """The cost of each item in each context, one prediction at a time."""
    return np.array([[model(np.r_[row, item]) for item in ITEMS] for row in x])


def one_cost(row: np.ndarray) -> float:
    """Two features of the context, then two of the item; steps, so that there is no gradient."""
    return float(2 + np.floor(2 * row[0]) * row[2] + np.floor(3 * row[1]) * row[3])


class TestPerItem(PredictorContract):
    def predictor(self) -> PerItem:
        torch.manual_seed(0)
        return PerItem(
            torch.nn.Sequential(
                torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)
            ).double(),
            ITEMS,
        )

    def contexts(self) -> torch.Tensor:
        return normal(5, 4)


def test_a_function_on_arrays_is_asked_for_every_item_of_every_context() -> None:
    pipeline = cfopt.Pipeline(PerItem(lambda rows: np.array([*map(one_cost, rows)]), ITEMS), GRID)
    x = RNG.normal(size=(7, 2))
    assert pipeline.costs(x).numpy() == pytest.approx(looped(one_cost, x))
    e = cfopt.explain(x, pipeline, cfopt.Absolute(pipeline.decide(x).roll(1, 0)), reference=x)
    assert e.valid.all()
    listed = GRID.decisions()
    assert listed is not None
    costs = looped(one_cost, e.x.numpy())
    chosen = (costs * e.alternative.numpy()).sum(1)
    assert (chosen <= (costs @ listed.numpy().T).min(1) + 1e-6).all()


def test_an_affine_model_is_answered_exactly() -> None:
    """One item that costs `w x + 9`, or two that cost `w x + 1` each: one is better from 7 on."""
    layer = torch.nn.Linear(3, 1).double()
    weight = torch.tensor([0.6, 0.8]).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.6, 0.8, 1.0]]))
        layer.bias.fill_(0.0)
    predictor = PerItem(torch.nn.Sequential(layer), [[9.0], [1.0], [1.0]])
    assert is_affine(predictor)
    assert not is_affine(PerItem(torch.nn.Sequential(layer, torch.nn.ReLU()), ITEMS))
    pipeline = cfopt.Pipeline(predictor, Finite([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]))
    x = normal(4, 2)
    e = cfopt.explain(x, pipeline, cfopt.Absolute([1.0, 0.0, 0.0]))
    assert e.optimal.all()
    assert torch.allclose(e.x, x + (7 - x @ weight)[:, None] * weight, atol=1e-6)


def test_frames_are_matched_by_name_whatever_their_order() -> None:
    """The model reads (length, rain, kind, hour); items have kind and length, contexts the rest."""

    def cost(frame: pd.DataFrame) -> np.ndarray:
        assert list(frame.columns) == ["length", "rain", "kind", "hour"]
        steep = frame["kind"].map({"hill": 2.0, "flat": 1.0}).to_numpy()
        rain, hour = np.floor(frame["rain"].to_numpy()), np.floor(frame["hour"].to_numpy())
        return frame["length"].to_numpy() * (1 + rain * steep) + hour

    like = pd.DataFrame(
        {"length": [1.0, 2.0], "rain": [0.0, 1.0], "kind": ["hill", "flat"], "hour": [1.0, 2.0]}
    )
    kinds = np.where(np.arange(GRID.num_costs) % 3 == 0, "hill", "flat")
    items = pd.DataFrame({"kind": kinds, "length": ITEMS[:, 0]})
    pipeline = cfopt.Pipeline(PerItem(Function(cost, like=like), items), GRID)
    x = pd.DataFrame({"hour": [3.2, 4.9], "rain": [0.4, 2.7]})
    expected = np.array(
        [
            [
                length * (1 + np.floor(rain) * (2.0 if kind == "hill" else 1.0)) + np.floor(hour)
                for kind, length in zip(kinds, ITEMS[:, 0], strict=True)
            ]
            for hour, rain in x.to_numpy()
        ]
    )
    assert pipeline.costs(x).numpy() == pytest.approx(expected)
    e = cfopt.explain(x, pipeline, cfopt.Epsilon(0.05))
    assert list(e.features.names or ()) == ["rain", "hour"]


def test_a_model_of_scikit_learn_is_folded_and_stays_affine() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    frame = pd.DataFrame(RNG.normal(size=(50, 4)), columns=["a", "size", "b", "age"])
    target = frame.to_numpy() @ [1.0, 2.0, 3.0, 4.0] + 5
    model = linear.LinearRegression().fit(frame, target)
    items = pd.DataFrame(ITEMS, columns=["age", "size"])
    predictor = PerItem(model, items)
    assert is_affine(predictor)
    x = pd.DataFrame({"b": [1.0, 2.0], "a": [0.0, 1.0]})
    expected = [
        [a + 2 * size + 3 * b + 4 * age + 5 for age, size in ITEMS] for b, a in x.to_numpy()
    ]
    assert cfopt.Pipeline(predictor, GRID).costs(x).detach().numpy() == pytest.approx(
        np.array(expected)
    )
    assert predictor.places(2) == [1, 3]
    assert predictor.items[:, 0].tolist() == ITEMS[:, 1].tolist()


def test_a_network_of_one_cost_is_proved_as_one_of_all_and_agrees_with_a_fine_grid() -> None:
    torch.manual_seed(2)
    layers = (torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
    items = normal(4, 2, seed=5)
    model = PerItem(torch.nn.Sequential(*layers).double(), items)
    pipeline = cfopt.Pipeline(model, Finite(np.eye(4)))
    axis = torch.linspace(-8, 8, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    x0, decided = normal(4, 2, seed=3), pipeline.decide(grid)
    own = pipeline.decide(x0)
    wanted = torch.stack([decided[(decided != one).any(1)][0] for one in own])
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted))
    assert e.optimal.all()
    for row in range(4):
        there = grid[(decided == wanted[row]).all(1)]
        nearest = ((there - x0[row]) ** 2).sum(1).min().sqrt()
        assert nearest - 0.02 * 2**0.5 <= e.loss[row].sqrt() <= nearest + 1e-9


def test_what_does_not_fit_is_refused() -> None:
    layer = torch.nn.Linear(4, 2)
    with pytest.raises(InputError, match=r"a row of features for each item, \(n, q\)"):
        PerItem(layer, [1.0, 2.0])
    with pytest.raises(InputError, match="finite numbers"):
        PerItem(layer, [[np.nan]])
    with pytest.raises(PredictorError, match="a model of a single cost"):
        cfopt.Pipeline(PerItem(layer, ITEMS), GRID).costs(np.ones((1, 2)))
    like = pd.DataFrame({"a": [1.0], "b": [2.0]})
    named = Function(lambda frame: frame["a"], like=like)
    with pytest.raises(InputError, match="items as a DataFrame, since the model knows its columns"):
        PerItem(named, ITEMS)
    with pytest.raises(InputError, match="a column 'c' that the model does not read"):
        PerItem(named, pd.DataFrame({"c": [1.0]}))
    with pytest.raises(InputError, match="contexts with the others"):
        PerItem(named, like)
