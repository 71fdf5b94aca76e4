"""Proofs: what multipliers prove is true whatever they are, and nothing else is claimed."""

from __future__ import annotations

from dataclasses import replace

import daqp
import numpy as np
import pytest
import torch
from benchmarks.independent import is_feasible, nearest_l1, nearest_l2
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.exact.affine_proof import CutProof
from cfopt.exact.certificate import Cut
from cfopt.exact.geometry import (
    Euclidean,
    Grid,
    HalfSpaces,
    Leaf,
    Master,
    Split,
    System,
    Taxicab,
    bounds_of_many,
    norms,
    proved_bound,
)
from cfopt.problems import Finite
from cfopt.search.trust_region import step


def _random_system(rng: np.random.Generator) -> System:
    size, rows = int(rng.integers(1, 5)), int(rng.integers(1, 7))
    lower = np.where(rng.random(size) < 0.5, -rng.random(size) * 3, -np.inf)
    upper = np.where(rng.random(size) < 0.5, rng.random(size) * 3, np.inf)
    held = rng.random(size) < 0.15
    lower[held], upper[held] = 0.0, 0.0
    matrix = rng.standard_normal((rows, size))
    low = np.where(rng.random(rows) < 0.3, -rng.random(rows) * 2 - 1, -np.inf)
    high = np.where(rng.random(rows) < 0.8, rng.standard_normal(rows), np.inf)
    return System.box(lower, upper).with_rows(matrix, np.minimum(low, high), high)


def _rows(system: System) -> tuple[np.ndarray, np.ndarray]:
    """All finite limits as `g u <= h`."""
    eye = np.eye(len(system.lower))
    g = np.concatenate([system.matrix, -system.matrix, eye, -eye])
    h = np.concatenate([system.row_upper, -system.row_lower, system.upper, -system.lower])
    return g[np.isfinite(h)], h[np.isfinite(h)]


@pytest.mark.parametrize(("norm", "nearest"), [(Euclidean(), nearest_l2), (Taxicab(), nearest_l1)])
def test_masters_agree_with_other_solvers_and_any_multipliers_bound_them(norm, nearest) -> None:
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(150):
        system = _random_system(rng)
        g, h = _rows(system)
        found = Master(system, norm).solve()
        if is_feasible(g, h):
            best = nearest(g, h)
            assert found.u is not None
            assert system.breach(found.u) <= 1e-9
            assert norm(found.u) == pytest.approx(best, rel=1e-6, abs=1e-7)
            assert found.bound == pytest.approx(best, rel=1e-6, abs=1e-7)
            outcomes.add("nearest")
        else:
            best = np.inf
            assert found.u is None
            assert found.bound == np.inf
            outcomes.add("none")
        for _ in range(5):
            wild = Leaf(rng.standard_normal(len(system.matrix)) * 10 ** rng.uniform(-2, 2))
            assert proved_bound(system, norm, wild) <= best * (1 + 1e-6) + 1e-6
    assert outcomes == {"nearest", "none"}


def test_many_systems_at_once_prove_what_each_proves_alone() -> None:
    rng = np.random.default_rng(1)
    size, counts = 3, rng.integers(1, 6, 200)
    total = int(counts.sum())
    normals, limits = rng.standard_normal((total, size)), rng.standard_normal(total)
    normals[rng.random(total) < 0.1] = 0.0
    some = [rng.random(total) * 10 ** rng.uniform(-14, -8, total) for _ in range(3)]
    cuts = HalfSpaces(normals, limits, *some)
    multipliers = rng.standard_normal(total) * 10 ** rng.uniform(-2, 1, total)
    starts = np.cumsum(counts) - counts
    open_box = System.box(np.full(size, -np.inf), np.full(size, np.inf))
    alone = []
    for start, count in zip(starts, counts, strict=True):
        part = slice(start, start + count)
        system = open_box.with_cuts(cuts.part(part.start, part.stop))
        # The best multipliers there are, in every other system.
        if len(alone) % 2:
            nearest = Master(system, Euclidean()).solve()
            multipliers[part] = nearest.tree.multipliers
        alone.append(proved_bound(system, Euclidean(), Leaf(multipliers[part])))
    together = bounds_of_many(cuts, multipliers, starts)
    assert np.allclose(together, alone, rtol=1e-12, atol=1e-15)
    assert np.isinf(together).any()
    assert (together > 0).sum() > 50


def test_proofs_of_a_batch_are_checked_as_each_is_alone() -> None:
    x, pipeline = normal(40, 4), cfopt.Pipeline(random_linear(4, 12), Finite(np.eye(12)))
    e = cfopt.explain(x, pipeline, cfopt.Absolute(another(pipeline, x)), margin=0.01)
    one_by_one = [
        cfopt.explain(x[i : i + 1], pipeline, e.criterion[torch.tensor([i])], margin=0.01)
        for i in range(len(x))
    ]
    alone = torch.cat([one.bound for one in one_by_one])
    assert torch.allclose(e.bound, alone, equal_nan=True, rtol=1e-9)
    assert [one.status[0] for one in one_by_one] == list(e.status)
    assert e.optimal.any()


def test_branching_proves_only_what_whole_numbers_allow() -> None:
    # 0.4 <= u <= 0.6 has no whole number in it.
    system = System.box(np.array([-5.0]), np.array([5.0]))
    system = system.with_rows(np.array([[1.0]]), np.array([0.4]), np.array([0.6]))
    grid = Grid(np.zeros(1), np.ones(1), np.array([True]))
    found = Master(system, Euclidean(), grid).solve()
    assert found.bound == np.inf
    assert proved_bound(system, Euclidean(), found.tree, grid) == np.inf
    free = Grid(np.zeros(1), np.ones(1), np.array([False]))
    assert proved_bound(system, Euclidean(), found.tree, free) == 0
    assert proved_bound(system, Euclidean(), found.tree, None) == 0
    # A tree that skips a whole number proves nothing about it.
    wide = System.box(np.array([-5.0]), np.array([5.0]))
    wide = wide.with_rows(np.array([[1.0]]), np.array([0.4]), np.array([1.6]))
    tree = Split(0, 0, Leaf(np.array([-1.0])), Leaf(np.array([0.0])))
    assert proved_bound(wide, Euclidean(), tree, grid) <= 1.0


def test_multipliers_of_another_system_prove_nothing() -> None:
    system = System.box(np.full(1, -np.inf), np.full(1, np.inf))
    assert proved_bound(system, Euclidean(), Leaf(np.ones(3))) == 0


def test_a_clash_within_rounding_is_none() -> None:
    open_box = System.box(np.full(1, -np.inf), np.full(1, np.inf))
    rows = np.array([[1.0], [-1.0]])
    touching = open_box.with_rows(rows, np.full(2, -np.inf), np.array([1.0, -1.0]))
    assert touching.radius(np.ones(2)) == 0
    assert not touching.refutes(np.ones(2))
    apart = open_box.with_rows(rows, np.full(2, -np.inf), np.array([1.0, -1.0 - 1e-6]))
    assert apart.radius(np.ones(2)) == np.inf
    assert apart.refutes(np.ones(2))
    tilted = open_box.with_rows(
        np.array([[1.0], [-1.0]]), np.full(2, -np.inf), np.array([1.0, -2.0])
    )
    assert tilted.radius(np.array([1.0, 1.0 + 1e-3])) == pytest.approx(1e3, rel=0.01)
    assert not tilted.refutes(np.array([1.0, 1.0 + 1e-3]))
    far = proved_bound(tilted, Euclidean(), Leaf(np.array([1.0, 1.0 + 1e-3])))
    assert far == pytest.approx(1e6, rel=0.01)


def _clashing() -> tuple[cfopt.Pipeline, cfopt.Criterion]:
    """Costs (x, -x, 0.5): the third decision can never be the best."""
    layer = torch.nn.Linear(1, 3).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [-1.0], [0.0]]))
        layer.bias.copy_(torch.tensor([0.0, 0.0, 0.5]))
    wanted = cfopt.Absolute(torch.tensor([0.0, 0.0, 1.0]))
    return cfopt.Pipeline(layer, Finite(torch.eye(3))), wanted


class _Tampered(cfopt.Search):
    """Cutting planes whose certificates are changed before they are handed over."""

    def __init__(self, change) -> None:
        self.change = change

    def steps(self, task: cfopt.Task):
        for progress in cfopt.CuttingPlane().steps(task):
            done = progress.finished
            if done is not None:
                done = replace(done, certificates=tuple(map(self.change, done.certificates)))
            yield replace(progress, finished=done)


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: replace(proof, tree=Leaf(0 * proof.tree.multipliers)),
        lambda proof: replace(proof, tree=Leaf(proof.tree.multipliers[:1])),
        lambda proof: replace(proof, cuts=proof.cuts[:1], tree=Leaf(np.array([1e9]))),
        lambda proof: CutProof((), Leaf(np.empty(0)), infeasible=True),
        lambda proof: None,
    ],
)
def test_a_certificate_that_proves_nothing_is_not_reported(change) -> None:
    pipeline, wanted = _clashing()
    assert cfopt.explain([[1.0]], pipeline, wanted).status == ("proved infeasible",)
    e = cfopt.explain([[1.0]], pipeline, wanted, search=_Tampered(change))
    assert e.status == ("best effort",)
    assert e.clash == (None,)


def _forged(quantifier: cfopt.Quantifier, decision: list, ray: bool = False):
    """A certificate with one cut that does not belong to the criterion, and a large multiplier."""

    def change(proof: object) -> CutProof:
        cut = Cut(np.array(decision, dtype=np.float64), quantifier, ray)
        return CutProof((cut,), Leaf(np.array([10.0])), infeasible=True)

    return change


@pytest.mark.parametrize(
    ("criterion", "forged"),
    [
        (cfopt.Relative([0, 1, 0]), _forged(cfopt.Quantifier.GIVEN, [0, 0, 1])),
        (cfopt.Absolute([0, 1, 0]), _forged(cfopt.Quantifier.EVERY, [-1, -1, -1], ray=True)),
        (cfopt.Epsilon(0.1), _forged(cfopt.Quantifier.SOME, [0, 0, 1])),
    ],
)
def test_cuts_that_do_not_belong_to_the_criterion_prove_nothing(criterion, forged) -> None:
    pipeline, _ = _clashing()

    class Forger(cfopt.Search):
        def steps(self, task: cfopt.Task):
            for progress in cfopt.Auto().steps(task):
                done = progress.finished
                found = None if done is None else done.found & False
                done = done and replace(
                    done, x=task.space.origin, found=found, certificates=(forged(None),) * len(done)
                )
                yield replace(progress, finished=done)

    e = cfopt.explain([[-1.0]], pipeline, criterion, search=Forger())
    assert e.status == ("best effort",)
    assert e.bound.item() == 0


def test_a_cut_by_a_decision_that_the_users_own_test_refuses_proves_nothing() -> None:
    pipeline, wanted = _clashing()

    def function(costs: np.ndarray) -> np.ndarray:
        return np.eye(3)[costs.argmin()]

    def allow(decision: np.ndarray) -> bool:
        return bool((decision * (1 - decision) == 0).all() and decision.sum() == 1)

    oracle = cfopt.Pipeline(
        pipeline.predictor, cfopt.problems.Oracle(function, 3, is_feasible=allow)
    )
    assert cfopt.explain([[1.0]], oracle, wanted).status == ("proved infeasible",)

    def tamper(proof: CutProof) -> CutProof:
        nothing = Cut(np.full(3, -5.0), cfopt.Quantifier.EVERY)
        return replace(proof, cuts=(*proof.cuts[:-1], nothing))

    e = cfopt.explain([[1.0]], oracle, wanted, search=_Tampered(tamper))
    assert e.status == ("best effort",)
    assert e.bound.isnan().all()


def test_what_is_known_to_within_a_doubt_only_is_no_clash() -> None:
    open_box = System.box(np.full(1, -np.inf), np.full(1, np.inf))
    normals, limits = np.array([[1.0], [-1.0]]), np.array([1.0, -1.0 - 1e-6])
    nothing = np.zeros(2)
    sure = open_box.with_cuts(HalfSpaces(normals, limits, nothing, nothing, nothing))
    unsure = open_box.with_cuts(HalfSpaces(normals, limits, nothing, nothing + 1e-6, nothing))
    assert sure.refutes(np.ones(2))
    assert not unsure.refutes(np.ones(2))
    assert unsure.radius(np.ones(2)) == 0


def test_whole_numbers_without_bounds_end_without_a_claim() -> None:
    # 0.1 <= 2 (a - b) <= 0.4 has solutions, but none in whole numbers.
    weight = [[0.0, 0.0], [2.0, -2.0], [-2.0, 2.0]]
    pipeline = _pipeline(weight, [0.0, -0.1, 0.4], Finite(torch.eye(3)))
    features = cfopt.Features(integer=[0, 1])
    wanted = cfopt.Absolute([1.0, 0.0, 0.0])
    asked = {"features": features, "search": cfopt.CuttingPlane()}
    e = cfopt.explain([[0.0, 0.0]], pipeline, wanted, **asked, time_limit=0.5)
    assert e.status == ("best effort",)
    bounded = replace(features, lower=-3.0, upper=3.0)
    e = cfopt.explain([[0.0, 0.0]], pipeline, wanted, features=bounded)
    assert e.status == ("proved infeasible",)
    assert "whole numbers" in e.message[0]


def test_bounds_are_computed_anew_and_never_exceed_the_optimum(grid: cfopt.Pipeline) -> None:
    x0 = normal(10, 4)
    criterion = cfopt.Absolute(another(grid, x0))
    best = cfopt.explain(x0, grid, criterion)

    def exaggerate(proof: CutProof) -> CutProof:
        return replace(proof, tree=Leaf(3 * proof.tree.multipliers + 0.1))

    e = cfopt.explain(x0, grid, criterion, search=_Tampered(exaggerate))
    assert e.valid.all()
    assert (e.bound <= best.loss * (1 + 1e-9)).all()
    assert not e.optimal.all()


def test_a_cut_from_an_infeasible_decision_proves_nothing() -> None:
    calls = []

    def function(costs: np.ndarray) -> np.ndarray:
        calls.append(costs)
        best = np.zeros(3)
        best[costs.argmin()] = 1.0
        # After the first solve it cheats: half of everything is no decision.
        return best if len(calls) <= 1 else np.full(3, 0.5) * np.sign(costs.min())

    pipeline, wanted = _clashing()
    problem = cfopt.problems.Oracle(
        function, 3, is_feasible=lambda y: bool((y * (1 - y) == 0).all())
    )
    e = cfopt.explain([[1.0]], cfopt.Pipeline(pipeline.predictor, problem), wanted)
    assert e.status != ("proved infeasible",)
    assert not e.valid.any()


def test_where_the_first_solver_fails_another_takes_over(grid, monkeypatch) -> None:
    x0 = normal(8, 4)
    criterion = cfopt.Absolute(another(grid, x0))
    expected = cfopt.explain(x0, grid, criterion)
    for answer in (
        lambda *args: (np.zeros(4), 0.0, -1, {"lam": np.zeros(9)}),
        lambda *args: (np.full(args[0].shape[0], np.nan), 0.0, 1, {"lam": np.zeros(99)}),
        lambda *args: (np.full(args[0].shape[0], 7.0), 0.0, 1, {"lam": np.zeros(99)}),
    ):
        monkeypatch.setattr(daqp, "solve", answer)
        e = cfopt.explain(x0, grid, criterion, search=cfopt.CuttingPlane())
        assert e.optimal.all()
        assert torch.allclose(e.loss, expected.loss, rtol=1e-6)


def test_where_every_solver_fails_nothing_is_claimed(grid, monkeypatch) -> None:
    x0 = normal(4, 4)
    criterion = cfopt.Absolute(another(grid, x0))
    monkeypatch.setattr(norms, "nearest_by_daqp", lambda system: None)
    monkeypatch.setattr(norms, "solve_program", lambda *args: None)
    e = cfopt.explain(x0, grid, criterion, search=cfopt.CuttingPlane())
    assert set(e.status) == {"best effort"}
    assert "master problem could not be solved" in e.message[0]
    assert (e.bound == 0).all()
    # Auto goes on with a search that needs no master.
    e = cfopt.explain(x0, grid, criterion)
    assert e.valid.all()
    assert "cutting planes, then sequential" in e.method[0]


def test_a_wrong_claim_of_infeasibility_by_the_solver_is_not_believed(monkeypatch) -> None:
    pipeline, _ = _clashing()
    wanted = cfopt.Absolute(torch.tensor([1.0, 0.0, 0.0]))
    monkeypatch.setattr(norms.Euclidean, "nearest", lambda self, system: None)
    e = cfopt.explain([[1.0]], pipeline, wanted, search=cfopt.CuttingPlane())
    assert e.status == ("best effort",)


def test_the_nearest_point_of_a_box_and_a_half_space_is_that_of_a_quadratic_program() -> None:
    rng = np.random.default_rng(2)
    normal_, limit = rng.standard_normal((200, 4)), -3 * rng.random(200)
    lower, upper = -rng.random((200, 4)), rng.random((200, 4))
    penalty = np.full(200, 1e4)
    u, price = step.nearest_in_box(step.Region(normal_, limit, lower, upper, penalty))
    met = 0
    for row in range(200):
        one = slice(row, row + 1)
        region = step.Region(normal_[one], limit[one], lower[row], upper[row], 1e6)
        found = step.nearest_l2(region)
        assert found is not None
        assert np.allclose(found.v, u[row], atol=1e-3)
        if found.met:
            met += 1
            assert np.allclose(found.v, u[row], atol=1e-5)
            assert price[row] == pytest.approx(found.price, rel=1e-5, abs=1e-7)
    assert 20 < met < 180


def test_step_problems_of_absolute_values_are_those_of_linear_programming() -> None:
    rng = np.random.default_rng(3)
    sums = step.Sums(np.ones((1, 4)), np.array([-1.0]), np.array([1.0]))
    for _ in range(50):
        normals, limits = rng.standard_normal((3, 4)), -rng.random(3)
        box = (np.full(4, -2.0), np.full(4, 2.0))
        found = step.nearest_l1(step.Region(normals, limits, *box, 1e4, sums))
        eye = np.eye(4)
        g = np.concatenate([normals, np.ones((1, 4)), -np.ones((1, 4)), eye, -eye])
        h = np.concatenate([limits, [1.0, 1.0], np.full(8, 2.0)])
        best = nearest_l1(g, h)
        assert found is not None
        assert found.met == np.isfinite(best)
        if found.met:
            assert np.abs(found.v).sum() == pytest.approx(best, abs=1e-4)


def test_an_affine_map_with_constant_costs_ends_in_a_proof() -> None:
    pipeline = cfopt.Pipeline(random_linear(3, 4, bias=0.0), Finite(torch.eye(4)))
    with torch.no_grad():
        pipeline.predictor.weight.zero_()
        pipeline.predictor.bias.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    x0 = normal(2, 3)
    for criterion in (cfopt.Absolute(torch.eye(4)[2]), cfopt.Epsilon(0.5), cfopt.Epsilon(4.0)):
        e = cfopt.explain(x0, pipeline, criterion)
        assert set(e.status) == {"proved infeasible"}, criterion


def _pipeline(weight: list, bias: list, problem: cfopt.Problem, dtype=torch.float64):
    layer = torch.nn.Linear(len(weight[0]), len(weight)).to(dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight, dtype=torch.float64))
        layer.bias.copy_(torch.tensor(bias, dtype=torch.float64))
    return cfopt.Pipeline(layer, problem)


@pytest.fixture
def plain() -> cfopt.Pipeline:
    """Costs 1 + x_j of two decisions."""
    return _pipeline([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0], Finite(torch.eye(2)))


def test_slopes_that_cancel_but_for_rounding_cancel() -> None:
    # 0.1 + 0.2 is not 0.3: the third row is the sum of the others, and nothing else.
    weight = [[0.1, 0.7], [0.2, 0.1], [0.1 + 0.2, 0.7 + 0.1]]
    pipeline = _pipeline(weight, [3.0, 1.0, 2.0], Finite([[1, 1, 0], [0, 0, 1]]))
    wanted = torch.tensor([1.0, 1.0, 0.0])
    for criterion in (cfopt.Relative(wanted), cfopt.Absolute(wanted)):
        for proximity in (cfopt.L2(), cfopt.L1()):
            e = cfopt.explain([[0.5, 0.25]], pipeline, criterion, proximity=proximity)
            assert e.status == ("proved infeasible",)


def test_what_is_far_away_is_not_nowhere(plain: cfopt.Pipeline) -> None:
    tiny = [1e-3, 1e-3]
    wanted = cfopt.Absolute(torch.tensor([0.0, 1.0]))
    e = cfopt.explain([[0.0, 3e4]], plain, wanted, proximity=cfopt.L2(tiny))
    assert e.optimal.all()
    assert e.loss.item() == pytest.approx(3e4**2 / 2 * 1e6)
    flat = _pipeline([[1e-7, 0.0], [0.0, 1e-7]], [1.0, 2.0], Finite(torch.eye(2)))
    e = cfopt.explain([[0.0, 0.0]], flat, cfopt.Epsilon(0.3))
    assert e.optimal.all()
    expected = _far_epsilon()
    assert e.loss.item() == pytest.approx(expected, rel=1e-6)


def _far_epsilon() -> float:
    # Costs 1 + a and 2 + b, in units of 1e-7; to undercut by 30% needs 1.3 (2 + b) <= 1 + a.
    g, h = np.array([[-1.0, 1.3]]), np.array([1.0 - 2.6])
    return nearest_l2(g, h) * 1e14


def test_changes_of_any_size_are_solved(plain: cfopt.Pipeline) -> None:
    wanted = cfopt.Absolute(torch.tensor([0.0, 1.0]))
    for size in (1e-8, 1e-4, 1e4, 1e8):
        e = cfopt.explain([[0.3, 0.35]], plain, wanted, proximity=cfopt.L2([1 / size, 1 / size]))
        assert e.optimal.all()
        assert e.loss.item() == pytest.approx(0.05**2 / 2 * size**2, rel=1e-6)
        e = cfopt.explain([[0.3, 0.35]], plain, wanted, proximity=cfopt.L1([1 / size, 1 / size]))
        assert e.optimal.all()
        assert e.loss.item() == pytest.approx(0.05 * size, rel=1e-6)


def test_a_plan_that_is_best_already_must_still_win_by_its_margin(plain: cfopt.Pipeline) -> None:
    wanted = cfopt.Absolute(torch.tensor([1.0, 0.0]))
    e = cfopt.explain([[0.0, 0.05]], plain, wanted, margin=0.2)
    expected = nearest_l2(np.array([[1.2, -1.0]]), np.array([1.05 - 1.2]))
    assert e.optimal.all()
    assert e.loss.item() == pytest.approx(expected, rel=1e-6)


def test_where_nothing_can_move_epsilon_names_what_is_locked(plain: cfopt.Pipeline) -> None:
    features = cfopt.Features(["a", "b"], immutable=["a", "b"])
    for proximity in (cfopt.L1(), cfopt.L2()):
        e = cfopt.explain(
            [[0.0, 0.05]], plain, cfopt.Epsilon(0.5), features=features, proximity=proximity
        )
        assert e.status == ("proved infeasible",)
        assert "unlocking a or b could help" in e.message[0]


def test_prices_that_are_nothing_but_rounding_do_not_spoil_an_answer(plain) -> None:
    problem = cfopt.problems.MILP([[1.0, -1.0]], -1.0, 1.0)
    pipeline = cfopt.Pipeline(plain.predictor, problem)
    e = cfopt.explain([[1.0, 1.0]], pipeline, cfopt.Absolute([1.0, 0.0]))
    assert e.optimal.all()
    between = Finite([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    e = cfopt.explain(
        [[1.0, 1.0]], cfopt.Pipeline(plain.predictor, between), cfopt.Absolute([1, 1])
    )
    assert e.optimal.all()
    assert e.loss.item() == pytest.approx(4.0)


def test_a_tiny_loss_is_not_optimal_for_being_tiny() -> None:
    problem = Finite([[1, 0], [0, 1], [0.55, 0.4]])
    pipeline = _pipeline([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0], problem, torch.float32)
    search = cfopt.CuttingPlane(max_rounds=1)
    x0 = torch.tensor([[0.0, 0.4]])
    e = cfopt.explain(
        x0, pipeline, cfopt.Absolute([0, 1]), proximity=cfopt.L2([1e4, 1e4]), search=search
    )
    assert not e.optimal.any()


def test_a_declared_function_in_float32_with_a_large_bias_is_read_off_exactly() -> None:
    layer = torch.nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.2345678, 0.0], [0.0, 2.3456789]]))
        layer.bias.copy_(torch.tensor([1e5, 1e5 + 1]))
    x0 = torch.zeros((1, 2))
    wanted = cfopt.Relative(torch.tensor([0.0, 1.0]))
    losses = [
        cfopt.explain(x0, cfopt.Pipeline(predictor, Finite(torch.eye(2))), wanted).loss.item()
        for predictor in (layer, cfopt.Affine(lambda x: layer(x.float())))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_fractional_decisions_are_not_rounded_away_in_float32() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        problem = Finite(rng.integers(-2, 4, (4, 3)) + rng.normal(size=(4, 3)))
        weight = rng.normal(size=(3, 2)).astype(np.float32).tolist()
        bias = rng.normal(size=3).astype(np.float32).tolist()
        x0 = torch.tensor(rng.normal(size=(1, 2)), dtype=torch.float32)
        single = _pipeline(weight, bias, problem, torch.float32)
        double = _pipeline(weight, bias, problem)
        a = cfopt.explain(x0, single, cfopt.Epsilon(0.05))
        b = cfopt.explain(x0.double(), double, cfopt.Epsilon(0.05))
        assert a.status == b.status
        assert a.loss.item() == pytest.approx(b.loss.item(), rel=1e-3, abs=1e-6)
