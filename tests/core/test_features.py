"""What x may be: said once, honoured by every search."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from tests.pipelines import another, normal, random_linear
from torch import nn

import cfopt
from cfopt.problems import Finite, GridShortestPath
from cfopt.question.domain import Domain
from cfopt.result.status import Status

NAMES = ["rooms", "red", "green", "blue", "size", "age"]


def _mixed(**more: object) -> cfopt.Features:
    given = {
        "scale": [1.0, 1.0, 1.0, 1.0, 2.0, 1.0],
        "lower": {"rooms": 0, "size": -3.0},
        "upper": {"rooms": 4, "size": 3.0},
        "immutable": ["age"],
        "integer": ["rooms"],
        "one_hot": [["red", "green", "blue"]],
        "linear": [cfopt.LinearLimit({"rooms": 1.0, "size": 1.0}, upper=5.0)],
    }
    return cfopt.Features(NAMES, **(given | more))


def _contexts(count: int) -> torch.Tensor:
    rng = np.random.default_rng(0)
    x = np.zeros((count, 6))
    x[:, 0] = rng.integers(0, 4, count)
    x[np.arange(count), 1 + rng.integers(0, 3, count)] = 1.0
    x[:, 4] = rng.uniform(-2, 1, count)
    x[:, 5] = rng.normal(size=count)
    return torch.from_numpy(x)


def _allowed(x: torch.Tensor, x0: torch.Tensor) -> torch.Tensor:
    """The limits of `_mixed`, written out."""
    whole = (x[:, :4] == x[:, :4].round()).all(1)
    group = (x[:, 1:4].sum(1) == 1) & (x[:, 1:4] >= 0).all(1)
    box = (x[:, 0] >= 0) & (x[:, 0] <= 4) & (x[:, 4] >= -3 - 1e-9) & (x[:, 4] <= 3 + 1e-9)
    return whole & group & box & (x[:, 0] + x[:, 4] <= 5 + 1e-6) & (x[:, 5] == x0[:, 5])


@pytest.fixture
def curved() -> cfopt.Pipeline:
    problem = GridShortestPath(3, 3)
    module = nn.Sequential(
        random_linear(6, 8, seed=3), nn.Tanh(), random_linear(8, problem.num_costs, bias=6.0)
    )
    return cfopt.Pipeline(module, problem)


@pytest.fixture
def straight() -> cfopt.Pipeline:
    problem = GridShortestPath(3, 3)
    return cfopt.Pipeline(random_linear(6, problem.num_costs, seed=4, bias=5.0), problem)


@pytest.mark.parametrize(
    "search",
    [
        pytest.param(cfopt.MDMM(step=0.05, max_steps=120), id="MDMM", marks=pytest.mark.slow),
        pytest.param(cfopt.Sequential(restarts=1), id="Sequential"),
        pytest.param(cfopt.Auto(), id="Auto"),
    ],
)
@pytest.mark.parametrize("kind", ["absolute", "epsilon", "relative"])
def test_every_search_honours_every_limit(search, kind: str, curved, straight) -> None:
    x0 = _contexts(6)
    for pipeline in (curved, straight):
        elsewhere = pipeline.decide(_contexts(40).flip(0))
        factual = pipeline.decide(x0)
        wanted = torch.stack(
            [
                next(y for y in elsewhere.roll(i, 0) if (y != own).any())
                for i, own in enumerate(factual)
            ]
        )
        criterion = {
            "absolute": cfopt.Absolute(wanted),
            "relative": cfopt.Relative(wanted),
            "epsilon": cfopt.Epsilon(0.05),
        }[kind]
        e = cfopt.explain(x0, pipeline, criterion, search=search, features=_mixed())
        found = e.valid
        # MDMM rides along the boundary, from where rounding seldom lands on the right side.
        assert isinstance(search, cfopt.MDMM) or found.sum() >= 3
        assert _allowed(e.x[found], x0[found]).all()


def test_local_searches_come_near_the_exact_answers_on_mixed_features(straight) -> None:
    x0 = _contexts(12)
    factual = straight.decide(x0)
    elsewhere = straight.decide(_contexts(40).flip(0))
    wanted = torch.stack(
        [next(y for y in elsewhere.roll(i, 0) if (y != own).any()) for i, own in enumerate(factual)]
    )
    criterion = cfopt.Absolute(wanted)
    best = cfopt.explain(x0, straight, criterion, features=_mixed())
    local = cfopt.explain(x0, straight, criterion, features=_mixed(), search=cfopt.Sequential())
    both = best.valid & local.valid
    assert both.sum() >= 0.8 * best.valid.sum()
    assert (local.loss[both] >= best.loss[both] * (1 - 1e-6)).all()
    assert local.loss[both].mean() <= 1.5 * best.loss[both].mean()


@pytest.mark.slow
def test_mdmm_finds_whole_numbers_that_round_to_the_right_side() -> None:
    # The second decision wins from x = 2.6 on, so that 3 is the first whole number that does.
    layer = nn.Linear(1, 2).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [0.0]]))
        layer.bias.copy_(torch.tensor([0.0, 2.6]))
    pipeline = cfopt.Pipeline(layer, Finite(torch.eye(2)))
    features = cfopt.Features(integer=[0], upper=5.0)
    wanted = cfopt.Absolute(torch.tensor([0.0, 1.0]))
    x0 = torch.tensor([[0.0], [1.0], [-2.0]]).double()
    e = cfopt.explain(x0, pipeline, wanted, search=cfopt.MDMM(), features=features)
    assert e.valid.all()
    assert (e.x == 3.0).all()


class _Trespasser(cfopt.Search):
    """Finds what free search finds, whatever is allowed."""

    def steps(self, task: cfopt.Task):
        from dataclasses import replace

        free = replace(task.space, domain=None)
        yield from cfopt.CuttingPlane().steps(replace(task, space=free))


def test_a_row_that_breaks_a_limit_is_never_called_valid(grid: cfopt.Pipeline) -> None:
    x0 = normal(10, 4)
    criterion = cfopt.Absolute(another(grid, x0))
    features = cfopt.Features(["a", "b", "c", "d"], immutable=["b"])
    e = cfopt.explain(x0, grid, criterion, features=features, search=_Trespasser())
    assert set(e.status) == {"best effort"}
    assert "the context is not allowed: 'b' cannot change" in e.message[0]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"lower": {"a": 2.0}, "upper": {"a": 1.0}}, "lower <= upper; feature 'a' has 2 and 1"),
        ({"lower": {"e": 0.0}}, "'e', which is not a feature"),
        ({"immutable": ["ab"]}, "'ab', which is not a feature.*Did you mean"),
        ({"immutable": "a"}, "immutable of Features needs a list"),
        ({"one_hot": 5}, "one_hot of Features needs a list"),
        ({"lower": "a"}, "lower of Features needs a number"),
        ({"lower": {"a": "x"}}, "lower of Features needs a number"),
        ({"lower": float("inf")}, "lower <= upper"),
        ({"scale": {"a": 1.0}}, "one number a feature"),
        ({"linear": [({"a": 1}, 0, 1)]}, "LinearLimit objects"),
        ({"integer": [7]}, "feature 7, but there are 4"),
        ({"integer": [1.5]}, "names or numbers"),
        ({"integer": ["a"], "lower": {"a": 0.2}, "upper": {"a": 0.8}}, "whole number between"),
        ({"one_hot": [["a"]]}, "at least two"),
        ({"one_hot": [["a", "b"], ["b", "c"]]}, "'b' occurs twice"),
        ({"one_hot": [["a", "b"]], "lower": {"a": 2.0}}, "lower <= upper"),
        ({"lower": [0.0, 1.0]}, "4 features, but Features has 2 for lower"),
        ({"upper": {"a": float("nan")}}, "not a number"),
        ({"linear": [cfopt.LinearLimit([1.0, 2.0])]}, "4 features, but Features has 2 for linear"),
        ({"linear": [cfopt.LinearLimit({"a": float("inf")})]}, "finite coefficients"),
    ],
)
def test_features_that_contradict_themselves_are_refused(given: dict, text: str) -> None:
    with pytest.raises(cfopt.InputError, match=text):
        cfopt.Features(["a", "b", "c", "d"], **given)


def test_limits_without_names_are_checked_when_the_contexts_are_known(grid) -> None:
    x0 = normal(2, 4)
    for features, text in (
        (cfopt.Features(immutable=[4]), "feature 4, but there are 4"),
        (cfopt.Features(immutable=["a"]), "'a', which is not a feature"),
        (cfopt.Features(upper=[1.0] * 5), "5 for upper"),
    ):
        with pytest.raises(cfopt.InputError, match=text):
            cfopt.explain(x0, grid, cfopt.Epsilon(0.1), features=features)
    for given, text in (
        (({"a": 1.0}, 2.0, 1.0), "lower <= upper"),
        ((5,), "coefficients"),
        (({"a": 1.0}, "x"), "needs a number"),
    ):
        with pytest.raises(cfopt.InputError, match=text):
            cfopt.LinearLimit(*given)


def test_bounds_of_pandas_and_numpy_are_taken_by_name_or_as_one_number() -> None:
    series = pd.Series({"c": 1.0, "a": 2.0, "b": 3.0})
    features = cfopt.Features(["a", "b", "c"], lower=series, immutable=pd.Index(["b"]))
    limits = features.limits(3)
    assert limits.lower.tolist() == [2.0, 3.0, 1.0]
    assert limits.immutable.tolist() == [False, True, False]
    assert cfopt.Features(lower=np.float32(0), upper=torch.tensor(1.0)).limits(2).upper.max() == 1


def test_bounds_hold_for_what_moves_one_way_or_not_at_all(grid: cfopt.Pipeline) -> None:
    x0 = normal(3, 4)
    x0[0, 0] = -1.0
    for held in ({"only_increase": [0]}, {"immutable": [0]}):
        features = cfopt.Features(lower={0: 0.0}, **held)
        e = cfopt.explain(x0[:1], grid, cfopt.Epsilon(0.1), features=features)
        assert e.status == ("rejected",)
        assert "below its lower bound 0" in e.message[0]


def test_whole_numbers_that_are_off_by_rounding_are_those_that_are_meant(straight) -> None:
    x0 = _contexts(4)
    exact = cfopt.explain(x0, straight, cfopt.Epsilon(0.05), features=_mixed(immutable=["rooms"]))
    noisy = x0.clone()
    noisy[:, 0] -= 2e-7
    features = _mixed(immutable=["rooms"])
    for search, near in ((cfopt.Auto(), 1e-4), (cfopt.Sequential(), 0.5)):
        e = cfopt.explain(noisy, straight, cfopt.Epsilon(0.05), features=features, search=search)
        assert e.status == exact.status
        assert torch.allclose(e.loss, exact.loss, rtol=near, atol=1e-5)


@pytest.mark.slow
@pytest.mark.long
def test_fractions_are_never_handed_on_as_whole_numbers() -> None:
    # Only few whole numbers have the sum; what rounds to none of them is no answer.
    features = cfopt.Features(
        lower={0: 0, 1: 0, 2: 0, 3: -2},
        upper={0: 7, 1: 7, 2: 7, 3: 2},
        integer=[0, 1, 2],
        linear=[cfopt.LinearLimit({0: 3, 1: 5, 2: 7}, 30, 30)],
    )
    points = [(a, b, c) for a in range(8) for b in range(8) for c in range(8)]
    points = [p for p in points if 3 * p[0] + 5 * p[1] + 7 * p[2] == 30]
    known = torch.tensor([[*p, d] for p in points for d in (-1.5, 0.0, 1.5)], dtype=torch.float64)
    module = nn.Sequential(random_linear(4, 6, seed=2), nn.Tanh(), random_linear(6, 5, seed=3))
    pipeline = cfopt.Pipeline(module, Finite(torch.eye(5)))
    decided = pipeline.decide(known)
    wanted = decided.roll(4, 0)
    for search in (cfopt.Sequential(), cfopt.Auto()):
        e = cfopt.explain(
            known[::3],
            pipeline,
            cfopt.Absolute(wanted[::3]),
            search=search,
            features=features,
            reference=known,
        )
        assert e.valid.all()
        assert (e.x[:, :3] == e.x[:, :3].round()).all()


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("rooms", 7.0, "'rooms' is 7, above its upper bound 4"),
        ("rooms", 1.5, "'rooms' needs to be a whole number, is 1.5"),
        ("red", 0.5, "exactly one of a one-hot group needs to be 1"),
        ("size", -9.0, "'size' is -9, below its lower bound -3"),
    ],
)
def test_a_context_that_is_itself_not_allowed_is_rejected_alone(
    column: str, value: float, text: str, straight
) -> None:
    x0 = _contexts(3)
    x0[1, NAMES.index(column)] = value
    e = cfopt.explain(x0, straight, cfopt.Epsilon(0.05), features=_mixed())
    assert e.status[1] == "rejected"
    assert text in e.message[1]
    assert "the context itself is not allowed" in e.message[1]
    assert "rejected" not in (e.status[0], e.status[2])


def test_a_group_with_two_ones_and_a_sum_that_is_too_large_are_rejected(straight) -> None:
    x0 = _contexts(2)
    x0[0, 1:4] = torch.tensor([1.0, 1.0, 0.0])
    x0[1, 0], x0[1, 4] = 4.0, 2.5
    e = cfopt.explain(x0, straight, cfopt.Epsilon(0.05), features=_mixed())
    assert set(e.status) == {"rejected"}
    assert "one-hot" in e.message[0]
    assert "(rooms + size) is 6.5" in e.message[1]


def test_an_immutable_feature_outside_its_bounds_is_named_as_such(straight) -> None:
    features = _mixed(lower={"age": 18.0})
    e = cfopt.explain(_contexts(1), straight, cfopt.Epsilon(0.05), features=features)
    assert "below its lower bound 18, and it cannot change" in e.message[0]


@pytest.mark.slow
@pytest.mark.parametrize("criterion", [cfopt.Absolute([1.0, 0, 0]), cfopt.Epsilon(0.9)])
def test_a_context_that_may_not_change_is_judged_by_one_evaluation(criterion) -> None:
    asked = []

    def costs(x: np.ndarray) -> np.ndarray:
        asked.append(len(x))
        return np.stack([x[:, 0] + 2 * x[:, 1] ** 2, 3 - x[:, 0], 1 + x[:, 1]], axis=1)

    pipeline = cfopt.Pipeline(costs, Finite(np.eye(3)))
    fixed = cfopt.Features(["a", "b"], immutable=["a"], only_increase=["b"], upper={"b": 2.0})
    x0 = np.array([[1.0, 2.0], [0.0, 1.0]])
    e = cfopt.explain(x0, pipeline, criterion, features=fixed)
    assert e.status[0] is Status.PROVED_INFEASIBLE  # no plan is that bad or that good there
    assert e.bound[0] == torch.inf
    assert e.message[0].endswith("the limits of b are involved; unlocking a could help")
    assert e.status[1] is not Status.PROVED_INFEASIBLE  # b may rise

    asked.clear()
    e = cfopt.explain(x0[:1], pipeline, criterion, features=fixed)
    assert sum(asked) <= 2  # the costs there, and once more as the model is deployed


def test_one_way_features_move_one_way(grid: cfopt.Pipeline) -> None:
    x0 = normal(20, 4)
    criterion = cfopt.Absolute(another(grid, x0))
    features = cfopt.Features(only_increase=[0, 1], only_decrease=[2])
    for search in (cfopt.Auto(), cfopt.Sequential(), cfopt.MDMM(step=0.02, max_steps=800)):
        e = cfopt.explain(x0, grid, criterion, features=features, search=search)
        found = e.valid
        assert found.any()
        moved = (e.x - x0)[found]
        assert (moved[:, :2] >= 0).all()
        assert (moved[:, 2] <= 0).all()
    free = cfopt.explain(x0, grid, criterion)
    assert ((free.x - x0)[:, :2] < 0).any()


def test_names_may_come_from_the_dataframe(grid: cfopt.Pipeline) -> None:
    frame = pd.DataFrame(normal(5, 4).numpy(), columns=["a", "b", "c", "d"])
    wanted = another(grid, normal(5, 4))
    features = cfopt.Features(immutable=["c"], upper={"a": 4.0})
    e = cfopt.explain(frame, grid, cfopt.Absolute(wanted), features=features)
    assert e.valid.any()
    assert (e.x == e.x0)[:, 2].all()
    with pytest.raises(cfopt.InputError, match="'z', which is not a feature"):
        cfopt.explain(frame, grid, cfopt.Absolute(wanted), features=cfopt.Features(immutable=["z"]))


def test_rounding_chooses_one_of_each_group_and_keeps_what_is_held() -> None:
    features = cfopt.Features(one_hot=[[0, 1, 2]], integer=[3], immutable=[0])
    x0 = torch.tensor([[1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 0.0, 2.0]])
    domain = Domain.of(features, x0)
    assert domain is not None
    x = torch.tensor([[0.4, 0.6, 0.0, 2.7], [0.5, 0.2, 0.3, 1.2]])
    rounded = domain.round(x)
    assert rounded.tolist() == [[1.0, 0.0, 0.0, 3.0], [0.0, 0.0, 1.0, 1.0]]
    assert domain.allows(rounded).all()
    assert not domain.allows(x).any()


def test_features_survive_json(straight) -> None:
    e = cfopt.explain(_contexts(2), straight, cfopt.Epsilon(0.05), features=_mixed())
    again = cfopt.Explanation.from_json(e.to_json())
    assert again.features == e.features
    numbered = cfopt.Features(
        upper=[1.0, float("inf")],
        lower={0: -1.0},
        integer=[1],
        linear=[cfopt.LinearLimit([1.0, 2.0], upper=3.0)],
    )
    pipeline = cfopt.Pipeline(random_linear(2, 3), Finite(torch.eye(3)))
    e = cfopt.explain([0.0, 1.0], pipeline, cfopt.Epsilon(0.1), features=numbered)
    assert cfopt.Explanation.from_json(e.to_json()).features == numbered


def test_each_limit_that_is_broken_is_said() -> None:
    """One entry at a time, from a context that keeps to all limits."""
    features = cfopt.Features(
        list("abcdefg"),
        lower=[0, 0, 0, 0, 0, 0, 0],
        upper=[9, 9, 9, 9, 9, 1, 1],
        immutable=["a"],
        only_increase=["b"],
        only_decrease=["c"],
        integer=["d"],
        one_hot=[["f", "g"]],
        linear=[cfopt.LinearLimit({"d": 1, "e": 1}, upper=12)],
    )
    x0 = torch.tensor([[5.0, 5, 5, 5, 5, 1, 0]]).double()
    domain = Domain.of(features, x0)
    assert domain is not None
    assert domain.faults(x0) == [""]
    broken = [
        ({0: 6}, "'a' cannot change, but is 6 instead of 5"),
        ({0: 10}, "'a' is 10, above its upper bound 9, and it cannot change"),
        ({1: 4}, "'b' can only increase, but is 4 instead of 5"),
        ({2: 6}, "'c' can only decrease, but is 6 instead of 5"),
        ({1: -1}, "'b' is -1, below its lower bound 0"),
        ({1: 10}, "'b' is 10, above its upper bound 9"),
        ({3: 5.5}, "'d' needs to be a whole number, is 5.5"),
        ({5: 0}, "exactly one of a one-hot group needs to be 1, got 'f': 0, 'g': 0"),
        ({5: 0.5, 6: 0.5}, "exactly one of a one-hot group needs to be 1, got 'f': 0.5, 'g': 0.5"),
    ]
    for change, said in broken:
        x = x0.clone()
        for entry, value in change.items():
            x[0, entry] = value
        assert domain.faults(x) == [said]
        assert not domain.allows(x).any()
    for change in ({1: 6}, {2: 4}, {3: 6}, {4: 7}, {5: 0, 6: 1}):
        x = x0.clone()
        for entry, value in change.items():
            x[0, entry] = value
        assert domain.faults(x) == [""]
        assert domain.allows(x).all()
    x = x0.clone()
    x[0, 4] = 8
    assert "13" in domain.faults(x)[0]
    assert not domain.allows(x).any()
