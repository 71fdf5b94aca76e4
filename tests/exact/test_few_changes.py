"""Explanations with few changes against brute force over all sets of features."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from benchmarks.independent import is_feasible, nearest_l1, nearest_l2
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.exact.geometry import (
    Cases,
    Choice,
    Euclidean,
    HalfSpaces,
    Leaf,
    Leeway,
    Master,
    Support,
    System,
    Taxicab,
    case_exclusions,
    proved_bound,
)
from cfopt.problems import Finite, GridShortestPath, Knapsack


@pytest.fixture(scope="module")
def grid3() -> cfopt.Pipeline:
    problem = GridShortestPath(3, 3)
    return cfopt.Pipeline(random_linear(5, problem.num_costs, bias=4.0), problem)


@pytest.fixture(scope="module")
def knapsack6() -> cfopt.Pipeline:
    rng = np.random.default_rng(0)
    problem = Knapsack(rng.uniform(3, 8, (1, 6)), [14.0])
    return cfopt.Pipeline(random_linear(5, 6, seed=3, bias=3.0), problem)


def _best(pipeline, criterion, x0, most, proximity, features=5) -> list[float]:
    """The least loss of each row over all sets of so many features, each an ordinary question."""
    best = torch.full((len(x0),), torch.inf, dtype=torch.float64)
    for moving in combinations(range(features), most):
        held = [j for j in range(features) if j not in moving]
        e = cfopt.explain(
            x0, pipeline, criterion, proximity=proximity, features=cfopt.Features(immutable=held)
        )
        assert all(e.optimal | torch.tensor([s == "proved infeasible" for s in e.status]))
        best = torch.where(e.valid, e.loss.minimum(best), best)
    return best.tolist()


@pytest.mark.parametrize("proximity", [cfopt.L2(), cfopt.L1()])
@pytest.mark.parametrize("name", ["grid3", "knapsack6"])
def test_few_changes_are_the_best_of_all_sets_of_features(name, proximity, request) -> None:
    pipeline = request.getfixturevalue(name)
    x0 = normal(3, 5)
    wanted = another(pipeline, x0)
    if name == "knapsack6":  # most of its decisions are best for few prices
        wanted = pipeline.problem.decisions()[[5, 17, 23]]
    statuses = set()
    for most in (1, 2):
        for make in (cfopt.Relative, cfopt.Absolute, None):
            criterion = cfopt.Epsilon(0.2) if make is None else make(wanted)
            limited = cfopt.Features(max_changes=most)
            e = cfopt.explain(x0, pipeline, criterion, proximity=proximity, features=limited)
            for row, best in enumerate(_best(pipeline, criterion, x0, most, proximity)):
                statuses.add(str(e.status[row]))
                if best == np.inf:
                    assert e.status[row] == "proved infeasible"
                    assert e.bound[row] == torch.inf
                    continue
                assert e.optimal[row]
                assert float(e.loss[row]) == pytest.approx(best, rel=1e-6)
                assert 1 <= int((e.x[row] != x0[row]).sum()) <= most
    assert "valid" in statuses
    assert name == "grid3" or "proved infeasible" in statuses


def test_a_group_counts_as_one_change_beside_whole_numbers_and_bounds(grid3) -> None:
    x0 = torch.tensor([[1.0, 0.0, 0.0, 2.0, 0.3]], dtype=torch.float64)
    given = {"one_hot": [[0, 1, 2]], "integer": [3], "lower": {3: -4, 4: -6}, "upper": {3: 4}}
    decided = 0
    for seed in range(12):
        wanted = cfopt.Absolute(grid3.decide(normal(1, 5, seed=seed)))
        for most in (1, 2):
            few = cfopt.explain(
                x0, grid3, wanted, features=cfopt.Features(**given, max_changes=most)
            )
            best = np.inf
            for moving in combinations(range(3), most):
                held = [j for j in range(5) if max(j - 2, 0) not in moving]
                one = cfopt.explain(
                    x0, grid3, wanted, features=cfopt.Features(**given, immutable=held)
                )
                best = min(best, float(one.loss[0]) if one.valid[0] else np.inf)
            if few.status[0] == "already valid":
                continue
            assert (few.status[0] == "proved infeasible") == (best == np.inf)
            if best < np.inf:
                assert few.optimal[0]
                assert float(few.loss[0]) == pytest.approx(best, rel=1e-6)
                decided += 1
    assert decided >= 3


@pytest.mark.parametrize(("norm", "nearest"), [(Euclidean(), nearest_l2), (Taxicab(), nearest_l1)])
def test_masters_with_few_changes_agree_with_all_supports_and_no_tree_proves_more(
    norm, nearest
) -> None:
    rng = np.random.default_rng(1)
    outcomes = set()
    for _ in range(40):
        size, rows = int(rng.integers(2, 6)), int(rng.integers(1, 5))
        matrix, limits = rng.standard_normal((rows, size)), rng.standard_normal(rows) - 0.5
        most = int(rng.integers(1, size + 1))
        spared = tuple(
            frozenset(rng.choice(size, int(rng.integers(1, size)), replace=False).tolist())
            for _ in range(int(rng.integers(0, 3)))
        )
        box = System.box(np.full(size, -2.0), np.full(size, np.inf))
        system = box.with_rows(matrix, np.full(rows, -np.inf), limits)
        system = system.counting(Support.of(np.arange(size), most, spared))
        best = np.inf
        for count in range(most + 1):
            for moving in map(frozenset, combinations(range(size), count)):
                if any(units <= moving for units in spared):
                    continue
                columns = sorted(moving)
                eye = np.eye(size)[columns][:, columns]
                g = np.concatenate([matrix[:, columns], -eye])
                h = np.concatenate([limits, np.full(count, 2.0)])
                if count == 0:
                    best = min(best, 0.0 if (limits >= 0).all() else np.inf)
                elif is_feasible(g, h):
                    best = min(best, nearest(g, h))
        found = Master(system, norm).solve()
        assert found.bound == pytest.approx(best, rel=1e-6, abs=1e-7)
        assert proved_bound(system, norm, found.tree) == pytest.approx(best, rel=1e-6, abs=1e-7)
        assert (found.u is None) == (best == np.inf)
        outcomes.add(best == np.inf)
        for _ in range(5):
            leaf = [Leaf(rng.standard_normal(rows) * 10 ** rng.uniform(-2, 2)) for _ in range(3)]
            wild = Choice(int(rng.integers(size)), leaf[0], Choice(0, leaf[1], leaf[2]))
            assert proved_bound(system, norm, wild) <= best * (1 + 1e-6) + 1e-6
    assert outcomes == {True, False}


@pytest.mark.parametrize("norm", [Euclidean(), Taxicab()])
def test_masters_that_grow_cut_by_cut_prove_what_new_ones_prove(norm) -> None:
    rng = np.random.default_rng(2)
    outcomes = set()
    for _ in range(8):
        box = System.box(np.full(5, -2.0), np.full(5, 3.0))
        system = box.counting(Support.of(np.arange(5), 2, ()))
        grown = Master(system, norm)
        for step in range(6):
            normals, limits = rng.standard_normal((1, 5)), rng.standard_normal(1) - 0.5
            nothing = np.zeros(1)
            cut = HalfSpaces(normals, limits, nothing, nothing, nothing)
            grown.add(cut)
            system = system.with_cuts(cut)
            twin = grown.branch()
            if step % 2:
                grown.hurry()
            found, fresh = grown.solve(), Master(system, norm).solve()
            assert twin.solve().bound == pytest.approx(fresh.bound, rel=1e-6, abs=1e-9)
            assert found.bound == pytest.approx(fresh.bound, rel=1e-6, abs=1e-9)
            proved = proved_bound(system, norm, found.tree)
            assert proved == pytest.approx(fresh.bound, rel=1e-6, abs=1e-9)
            if found.u is not None:
                assert int((found.u != 0).sum()) <= 2
                assert norm(found.u) == pytest.approx(fresh.bound, rel=1e-6, abs=1e-9)
            outcomes.add(found.u is None)
    assert outcomes == {True, False}


@pytest.mark.parametrize("granted", [0.0, 1e-4, 0.01])
def test_all_cases_at_once_exclude_what_each_alone_excludes(granted: float) -> None:
    rng = np.random.default_rng(1)
    unit, free = np.arange(4), np.full(4, np.inf)
    refuted = 0
    for _ in range(40):
        half = rng.normal(size=(3, 4)) * (rng.random((3, 4)) < 0.6)
        normals, none = np.concatenate([half, -half]), np.zeros(6)
        cuts = HalfSpaces(normals, rng.normal(size=6) - 1.5, none, none, none)
        leeway = Leeway(granted * rng.random(6), granted * rng.random((6, 4)))
        system = System.box(-free, free).counting(Support.of(unit, 2, ()))
        system = system.with_cuts(cuts).with_leeway(leeway, cuts)
        cases = system.support.cases
        multipliers = np.maximum(rng.normal(size=(len(cases), 6)), 0.0)
        multipliers[::2, 3:] = multipliers[::2, :3]  # of a half-space and its opposite
        radius, hopeless = case_exclusions(system, cases, multipliers)
        held = [np.flatnonzero(one == 0).tolist() for one in cases]
        alone = [
            system.holding(units).exclusion(one)
            for units, one in zip(held, multipliers, strict=True)
        ]
        near = np.minimum(radius, 1e9)  # beyond, g is rounding
        assert near == pytest.approx([min(one, 1e9) for one, _ in alone], rel=1e-9)
        assert hopeless.tolist() == [one for _, one in alone]
        refuted += int(hopeless.sum())
    assert refuted > 20


def test_the_count_is_blamed_for_a_clash_unless_no_number_of_changes_would_help(knapsack6) -> None:
    wanted = knapsack6.problem.decisions()
    x0 = normal(len(wanted), 5, seed=4)
    few = cfopt.Features(max_changes=1)
    limited = cfopt.explain(x0, knapsack6, cfopt.Absolute(wanted), features=few)
    free = cfopt.explain(x0, knapsack6, cfopt.Absolute(wanted))
    none = [row for row, one in enumerate(limited.status) if one == "proved infeasible"]
    assert len(none) > 3
    for row in none:
        assert free.valid[row]
        assert limited.clash[row].limits == ("at most 1 change",)
    unlimited, exact = np.full(3, np.inf), np.zeros(2)
    system = System.box(-unlimited, unlimited).counting(Support.of(np.arange(3), 1, ()))
    for second, whole in (([0.0, 1.0, 0.0], False), ([-1.0, 0.0, 0.0], True)):
        normals = np.array([[1.0, 0.0, 0.0], second])
        master = Master(system, Euclidean())
        master.add(HalfSpaces(normals, np.array([-1.0, -1.0]), exact, exact, exact))
        found = master.solve()
        assert found.u is None
        assert found.bound == np.inf
        assert proved_bound(master.system, Euclidean(), found.tree) == np.inf
        assert isinstance(found.tree, Leaf if whole else Cases)


def test_what_counts_changes_is_refused_or_kept_in_words(grid3) -> None:
    with pytest.raises(cfopt.InputError, match="whole number >= 1"):
        cfopt.Features(max_changes=0)
    x0 = normal(1, 5)
    e = cfopt.explain(x0, grid3, cfopt.Epsilon(0.2), features=cfopt.Features(max_changes=2))
    again = cfopt.Explanation.from_json(e.to_json())
    assert again.features.max_changes == 2


def test_few_changes_behind_a_network_are_verified_and_not_nearer_than_those_of_all_sets(
    grid3,
) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 12), torch.nn.Softplus()]
    pipeline = cfopt.Pipeline(torch.nn.Sequential(*layers).double(), grid3.problem)
    x0 = normal(6, 5)
    search = cfopt.Sequential(restarts=0)
    few = cfopt.Features(max_changes=2)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.02), search=search, features=few)
    assert int(e.valid.sum()) >= 5
    assert int((e.x != x0).sum(1).max()) <= 2
    best = torch.full((6,), torch.inf, dtype=torch.float64)
    for held in combinations(range(5), 3):
        one = cfopt.explain(
            x0,
            pipeline,
            cfopt.Epsilon(0.02),
            search=search,
            features=cfopt.Features(immutable=held),
        )
        best = best.minimum(one.loss.masked_fill(~one.valid, torch.inf))
    ratio = (e.loss / best)[e.valid]
    assert float(ratio.min()) < 1.05
    assert float(ratio.median()) < 5
    assert (e.bound.isnan() | (e.bound <= e.loss)).all()


@pytest.mark.parametrize("seed", range(3))
def test_what_does_not_count_as_a_change_is_none_to_the_last_bit(seed) -> None:
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4)]
    pipeline = cfopt.Pipeline(torch.nn.Sequential(*layers).double(), Finite(np.eye(4)))
    one = cfopt.Features(max_changes=1, lower=-3, upper=3)
    x0 = normal(6, 3, seed=seed)
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.3), features=one, proximity=cfopt.L1())
    assert e.valid.any()
    assert int((e.x != x0)[e.valid].sum(1).max()) == 1


def test_only_the_first_search_for_few_changes_is_certified(grid3, monkeypatch) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 12)]
    pipeline = cfopt.Pipeline(torch.nn.Sequential(*layers).double(), grid3.problem)
    x0, few = normal(2, 5), cfopt.Features(max_changes=3)
    search = cfopt.Certify(cfopt.Sequential(), seconds=None, max_cases=50)
    asked = []
    steps = cfopt.Certify.steps
    monkeypatch.setattr(
        cfopt.Certify, "steps", lambda own, task: asked.append(1) or steps(own, task)
    )
    e = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.05), search=search, features=few)
    free = cfopt.explain(x0, pipeline, cfopt.Epsilon(0.05), search=search)
    assert len(asked) == 2  # once for each of the two questions
    assert e.valid.all()
    assert int((e.x != x0).sum(1).max()) <= 3
    assert e.bound.tolist() == pytest.approx(free.bound.tolist())  # all the more for few changes
    assert (e.bound <= e.loss).all()


@pytest.mark.parametrize("seed", range(3))
def test_of_many_features_the_largest_are_those_that_may_change(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(np.arange(60.0))  # one does not change at all
    support = Support.of(np.arange(60), 5, ())
    free = set(range(60)) - set(support.choice(sizes))
    assert free == set(np.argsort(sizes)[-5:].tolist())
    assert support.offending(sizes) == int(sizes.argmax())
    assert support.offending(np.where(sizes > 54, sizes, 0.0)) is None
    # Of a set that is spared, the smallest stays as it is, and the next one may change instead.
    top = np.argsort(sizes)[::-1]
    spared = frozenset(top[:3].tolist())
    support = Support.of(np.arange(60), 5, (spared,))
    free = set(range(60)) - set(support.choice(sizes))
    assert free == {*top[[0, 1, 3, 4, 5]].tolist()}
    assert support.offending(np.where(np.isin(np.arange(60), top[:3]), sizes, 0.0)) == int(top[0])
