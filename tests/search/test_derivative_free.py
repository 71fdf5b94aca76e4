"""Predictors without a gradient: answers against brute force over all contexts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from tests.pipelines import normal

import cfopt
from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.pipeline import Function
from cfopt.problems import Finite, GridShortestPath
from cfopt.testing import SearchContract

GRID = GridShortestPath(3, 3)
#: The lower and the upper ends of the intervals between thresholds.
_CELL_ENDS = (slice(None, -1), slice(1, None))


class TestDerivativeFree(SearchContract):
    def search(self) -> cfopt.Search:
        return cfopt.DerivativeFree(evaluations=400)


def stumps(features: int, costs: int, seed: int = 0, count: int = 40):  # type: ignore[no-untyped-def]
    """A sum of steps at thresholds, as a boosted ensemble of stumps is: no gradient anywhere."""
    rng = np.random.default_rng(seed)
    feature, threshold = rng.integers(features, size=count), rng.normal(size=count)
    height = rng.uniform(0.0, 1.0, size=(count, costs))

    def predict(x: Array) -> Array:
        return 1.0 + (x[:, feature] > threshold) @ height

    return predict


def holds(pipeline: cfopt.Pipeline, x: Array, alternative: Array) -> np.ndarray:
    """Whether the alternative is the best of all, by the list of decisions."""
    costs = pipeline.costs(x).numpy()
    listed = pipeline.problem.decisions()
    assert listed is not None
    return costs @ alternative <= (costs @ listed.numpy().T).min(1) * (1 + 1e-6)


def test_whole_numbers_and_groups_are_answered_as_near_as_brute_force_finds() -> None:
    """Two whole numbers from 0 to 7, one that can only increase, and a one-hot group of three."""
    predict = stumps(5, GRID.num_costs, count=60)
    pipeline = cfopt.Pipeline(lambda x: predict(np.c_[(x[:, :2] - 4) / 2, x[:, 2:] * 2]), GRID)
    features = cfopt.Features(
        scale=[1.0] * 5, lower=0, upper=7, integer=[0, 1], only_increase=[1], one_hot=[[2, 3, 4]]
    )
    every = np.array([[a, b, *one] for a, b, one in product(range(8), range(8), np.eye(3))])
    x0 = every[::13]
    wanted = pipeline.decide(every).numpy()
    answerable = answered = 0
    for shift in (5, 50, 100):
        alternative = np.roll(wanted, shift, axis=0)[::13]
        e = cfopt.explain(
            x0, pipeline, cfopt.Absolute(alternative), features=features, reference=every
        )
        for row, (home, y) in enumerate(zip(x0, alternative, strict=True)):
            allowed = every[(every[:, 1] >= home[1]) & holds(pipeline, every, y)]
            if not len(allowed):
                assert e.status[row] == "best effort"
                continue
            least = ((allowed - home) ** 2).sum(1).min()
            answerable += 1
            assert e.status[row].is_valid
            assert ((allowed == e.x[row].numpy()).all(1)).any()
            assert float(e.loss[row]) >= least - 1e-9
            answered += float(e.loss[row]) <= least + 1e-9
    assert answerable >= 40
    assert answered >= 0.95 * answerable


def test_every_task_with_a_valid_reference_is_answered_and_none_farther_than_it() -> None:
    predict = stumps(12, GRID.num_costs, count=200)
    pipeline = cfopt.Pipeline(predict, GRID)
    known = normal(300, 12, seed=3).numpy()
    x0, alternative = known[:10], pipeline.decide(known)[40:50]
    features = cfopt.Features(scale=[1.0] * 12)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(alternative), reference=known, features=features)
    assert e.valid.all()
    for row, y in enumerate(alternative.numpy()):
        valid = known[holds(pipeline, known, y)]
        nearest = ((valid - x0[row]) ** 2).sum(1).min()
        assert float(e.loss[row]) <= nearest
        assert holds(pipeline, e.x[row : row + 1].numpy(), y).all()


def test_a_threshold_in_one_feature_is_found_without_references() -> None:
    problem = Finite(np.eye(2))
    pipeline = cfopt.Pipeline(lambda x: np.c_[1.0 + (x[:, 3] > 2.5), np.full(len(x), 1.5)], problem)
    x0 = np.zeros((4, 6))
    x0[:, 0] = np.arange(4)
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(np.array([0.0, 1.0])))
    assert e.valid.all()
    expected = torch.from_numpy(x0).clone()
    expected[:, 3] = 2.5
    assert torch.allclose(e.x, expected, atol=1e-5)
    assert (e.x[:, 3] > 2.5).all()


def test_scales_and_l1_say_which_of_two_ways_is_nearer() -> None:
    problem = Finite(np.eye(2))
    pipeline = cfopt.Pipeline(
        lambda x: np.c_[1.0 + ((x[:, 0] > 1) | (x[:, 1] > 3)), np.full(len(x), 1.5)], problem
    )
    for proximity in (cfopt.L2([1.0, 10.0]), cfopt.L1([1.0, 10.0])):
        e = cfopt.explain(
            np.zeros((1, 2)), pipeline, cfopt.Absolute([[0.0, 1.0]]), proximity=proximity
        )
        assert e.x[0].tolist() == pytest.approx([0.0, 3.0], abs=1e-5)


def test_where_nothing_is_valid_the_nearest_miss_is_told() -> None:
    problem = Finite(np.eye(2))
    pipeline = cfopt.Pipeline(
        lambda x: np.c_[np.ones(len(x)), 3.0 - np.tanh(np.abs(x[:, 0]))], problem
    )
    e = cfopt.explain(np.zeros((1, 2)), pipeline, cfopt.Absolute([[0.0, 1.0]]))
    assert e.status == ("best effort",)
    assert "at the nearest miss" in e.message[0]
    assert float(e.violation[0]) == pytest.approx(1.0, abs=0.05)


def test_features_that_cannot_change_leave_nothing_to_search() -> None:
    pipeline = cfopt.Pipeline(stumps(2, 2), Finite(np.eye(2)))
    wanted = 1 - pipeline.decide(np.zeros((1, 2)))
    features = cfopt.Features(immutable=[0, 1])
    e = cfopt.explain(np.zeros((1, 2)), pipeline, cfopt.Absolute(wanted), features=features)
    assert e.status == ("proved infeasible",)
    assert e.x.tolist() == [[0.0, 0.0]]


def test_a_seed_gives_the_same_answer_twice_and_another_seed_may_give_another() -> None:
    pipeline = cfopt.Pipeline(stumps(12, GRID.num_costs, count=200), GRID)
    x0 = normal(6, 12).numpy()
    criterion = cfopt.Absolute(pipeline.decide(normal(6, 12, seed=8).numpy()))
    first, again, other = (
        cfopt.explain(x0, pipeline, criterion, search=cfopt.DerivativeFree(seed=seed)).x
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_contexts_of_thousands_of_features_are_not_refused() -> None:
    rng = np.random.default_rng(0)
    weight = rng.uniform(size=(3000, GRID.num_costs)) / 50
    pipeline = cfopt.Pipeline(lambda x: 3 + np.round(x @ weight, 2), GRID)
    known = rng.normal(size=(40, 3000))
    criterion = cfopt.Absolute(pipeline.decide(known)[20:22])
    search = cfopt.DerivativeFree(evaluations=300)
    e = cfopt.explain(known[:2], pipeline, criterion, search=search, reference=known)
    assert e.valid.all()
    assert (e.loss < torch.from_numpy(known[:2] - known[20:22]).square().sum(1)).all()


def test_auto_proves_what_is_declared_affine_without_a_gradient() -> None:
    weight = normal(4, GRID.num_costs, seed=5).abs().numpy()
    pipeline = cfopt.Pipeline(cfopt.Affine(Function(lambda x: x @ weight + 3)), GRID)
    plain = torch.nn.Linear(4, GRID.num_costs).double()
    with torch.no_grad():
        plain.weight.copy_(torch.from_numpy(weight.T))
        plain.bias.fill_(3.0)
    x0 = normal(5, 4)
    criterion = cfopt.Absolute(pipeline.decide(normal(5, 4, seed=2)))
    without, with_gradient = (
        cfopt.explain(x0, one, criterion) for one in (pipeline, cfopt.Pipeline(plain, GRID))
    )
    assert torch.allclose(without.x, with_gradient.x, atol=1e-6)
    assert torch.allclose(without.bound, with_gradient.bound, atol=1e-6)


@pytest.mark.parametrize("settings", [{"evaluations": 0}, {"evaluations": 1.5}, {"seed": -1}])
def test_settings_that_are_no_whole_numbers_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InputError, match="DerivativeFree needs a whole number"):
        cfopt.DerivativeFree(**settings)  # type: ignore[arg-type]


def test_it_is_known_by_name() -> None:
    assert cfopt.registry.searches.find("derivativefree") is cfopt.DerivativeFree


def test_a_function_of_frames_with_a_category_is_answered_as_brute_force_does() -> None:
    """Costs depend on the city by name, and on a whole number by a threshold of each city's own."""
    known = {"Rome": (3, 1.0), "Oslo": (6, 2.0), "Lima": (9, 0.5)}

    def costs(frame: pd.DataFrame) -> Array:
        least, level = zip(*(known[city] for city in frame["city"]), strict=True)
        late = frame["hour"].to_numpy() >= np.array(least)
        return np.c_[np.where(late, 9.0, 1.0) + np.array(level), np.full(len(frame), 5.0)]

    every = pd.DataFrame(list(product(known, range(12))), columns=["city", "hour"])
    pipeline = cfopt.Pipeline(Function(costs, like=every), Finite(np.eye(2)))
    features = cfopt.Features(integer=["hour"], lower={"hour": 0}, upper={"hour": 11})
    x0 = every[(every["hour"] == 0)]
    e = cfopt.explain(x0, pipeline, cfopt.Absolute([0.0, 1.0]), features=features)
    assert e.valid.all()
    valid = every[costs(every)[:, 0] >= 5.0]
    for city, loss in zip(x0["city"], e.loss.tolist(), strict=True):
        moved = valid["hour"].to_numpy() ** 2 + 2.0 * (valid["city"] != city).to_numpy()
        assert loss == pytest.approx(moved.min())


def test_answers_behind_a_forest_are_nearly_as_near_as_the_nearest_of_all_cells() -> None:
    """Costs are constant in cells between thresholds, so the nearest cell is found by a list."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(1)
    known = rng.normal(size=(300, 3))
    target = (known @ rng.uniform(size=(3, GRID.num_costs)) + 4) ** 2
    forest = ensemble.RandomForestRegressor(n_estimators=4, max_depth=3, random_state=0)
    forest.fit(known, target)
    pipeline = cfopt.Pipeline(forest.predict, GRID)
    edges = [
        np.unique([t for e in forest.estimators_ for t in e.tree_.threshold[e.tree_.feature == j]])
        for j in range(3)
    ]
    ends = [np.r_[-np.inf, edge, np.inf] for edge in edges]
    inside = [np.r_[edge[0] - 1, (edge[1:] + edge[:-1]) / 2, edge[-1] + 1] for edge in edges]
    cells = np.array(list(product(*inside)))
    low, high = (np.array(list(product(*(end[part] for end in ends)))) for part in _CELL_ENDS)
    x0, wanted = known[:20], pipeline.decide(known)[50:70]
    e = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), reference=known)
    assert e.valid.all()
    ratios = []
    for row, y in enumerate(wanted.numpy()):
        there = holds(pipeline, cells, y)
        nearest = np.clip(x0[row], low[there], high[there])
        least = float(np.sqrt(((nearest - x0[row]) ** 2).sum(1).min()))
        found = float(e.loss[row]) ** 0.5
        assert found >= least - 1e-6
        ratios += [found / least] if least > 0 else []
    assert len(ratios) >= 10
    assert np.median(ratios) <= 1.15


@pytest.mark.parametrize(
    ("features", "criterion"), [(40, "absolute"), (40, "epsilon"), (80, "absolute")]
)
def test_an_affine_function_of_many_features_is_answered_as_near_as_the_proved_optimum(
    features: int, criterion: str
) -> None:
    """The function is a black box to the search; the same as a layer is explained exactly."""
    layer = torch.nn.Linear(features, GRID.num_costs).double()
    with torch.no_grad():
        layer.weight.copy_(normal(GRID.num_costs, features, seed=4).abs() / features**0.5)
        layer.bias.fill_(4.0)
    weight, bias = (one.detach().numpy() for one in layer.parameters())
    box = cfopt.Pipeline(lambda x: x @ weight.T + bias, GRID)
    x0 = normal(4, features).numpy()
    asked: cfopt.Criterion = cfopt.Epsilon(0.1)
    if criterion == "absolute":
        asked = cfopt.Absolute(box.decide(normal(4, features, seed=2).numpy()))
    found = cfopt.explain(x0, box, asked)
    best = cfopt.explain(x0, cfopt.Pipeline(layer, GRID), asked)
    assert best.optimal.all()
    assert found.valid.all()
    assert (found.loss >= best.loss * (1 - 1e-3)).all()
    assert (found.loss <= best.loss * 1.001).all()


def test_models_of_costs_keep_to_whole_numbers_groups_and_one_way_features() -> None:
    """A curved function of 20 features; the nearest by the list of all that may change."""
    rng = np.random.default_rng(3)
    weight = rng.uniform(size=(20, GRID.num_costs))
    pipeline = cfopt.Pipeline(lambda x: 4 + np.logaddexp(0, x @ weight - 3), GRID)
    features = cfopt.Features(
        immutable=range(5, 20), integer=[0, 1], one_hot=[[2, 3, 4]], lower={0: 0, 1: 0}, upper=4
    )
    x0 = np.c_[np.zeros((3, 2)), np.eye(3), rng.normal(size=(3, 15))]
    every = np.array([[a, b, *one] for a, b, one in product(range(5), range(5), np.eye(3))])
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.02), features=features)
    listed = GRID.decisions()
    assert listed is not None
    answered = 0
    for row, home in enumerate(x0):
        there = np.c_[every, np.tile(home[5:], (len(every), 1))]
        costs = pipeline.costs(there).numpy()
        lost = costs @ e.factual[row].numpy() >= 1.02 * (costs @ listed.numpy().T).min(1)
        if not lost.any():
            assert not e.valid[row]
            continue
        answered += 1
        least = ((there[lost] - home) ** 2).sum(1).min()
        assert float(e.loss[row]) == pytest.approx(least)
    assert answered


def test_a_row_depends_neither_on_the_others_nor_on_seeds_of_the_caller() -> None:
    pipeline = cfopt.Pipeline(stumps(12, GRID.num_costs, count=200), GRID)
    x0, state = normal(5, 12).numpy(), torch.get_rng_state()
    wanted = pipeline.decide(normal(5, 12, seed=8).numpy())
    search = cfopt.DerivativeFree(evaluations=800)
    together = cfopt.explain(x0, pipeline, cfopt.Absolute(wanted), search=search)
    for row in range(len(x0)):
        alone = cfopt.explain(x0[row], pipeline, cfopt.Absolute(wanted[row]), search=search)
        assert alone.x.dtype == torch.float64
        assert torch.allclose(alone.x[0], together.x[row], atol=1e-6)  # rounding apart
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("raises", [False, True])
def test_a_function_that_fails_here_and_there_stops_nothing(raises: bool) -> None:
    """Far away it gives no numbers, or raises an exception; the answer is nearer."""
    weight = normal(6, 2, seed=1).abs().numpy()
    slope = weight[:, 1] - weight[:, 0]
    least = 0.3**2 / (slope @ slope)
    failed = []

    def costs(x: Array) -> Array:
        far = (x**2).sum(1, keepdims=True) > 2 * least
        if far.any():
            failed.append(len(x))
            if raises:
                raise ValueError("too far away")
        return np.where(far, np.nan, x @ weight + [0.0, 0.3])

    pipeline = cfopt.Pipeline(costs, Finite(np.eye(2)))
    e = cfopt.explain(np.zeros((2, 6)), pipeline, cfopt.Absolute([0.0, 1.0]))
    assert failed
    assert e.valid.all()
    assert (e.loss <= 1.05 * least).all()


def test_where_a_function_fails_everywhere_else_it_says_how() -> None:
    def costs(x: Array) -> Array:
        if (x != 0).any():
            raise ValueError("only the origin is known")
        return np.tile([0.0, 0.3], (len(x), 1))

    pipeline = cfopt.Pipeline(costs, Finite(np.eye(2)))
    e = cfopt.explain(np.zeros((1, 2)), pipeline, cfopt.Absolute([0.0, 1.0]))
    assert not e.valid.any()
    assert "ValueError: only the origin is known" in e.message[0]
