"""How exact the solvers behind PyEPO are, and which decisions their models admit."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from pyepo import EPO
from pyepo.dsl import Maximize, Parameter, Variable
from pyepo.dsl import Problem as Model
from pyepo.model.grb.knapsack import knapsackModel as GurobiKnapsack
from pyepo.model.grb.knapsack import knapsackModelRel as GurobiFraction
from pyepo.model.grb.portfolio import portfolioModel as Portfolio
from pyepo.model.grb.tsp import tspDFJModel, tspGGModel
from pyepo.model.opt import optModel
from pyepo.model.ort.knapsack import knapsackCpModel as CpSatKnapsack
from pyepo.model.ort.knapsack import knapsackModel as OrToolsKnapsack
from pyepo.model.ort.knapsack import knapsackModelRel as OrToolsFraction

import cfopt
from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.problems import MILP, PyEPOProblem

ITEMS = 10
_RANDOM = np.random.default_rng(0)
WEIGHTS = _RANDOM.integers(30, 90, (2, ITEMS)).astype(float)
CAPACITY = np.floor(WEIGHTS.sum(axis=1) / 2)
_ALL = np.array(list(product((0.0, 1.0), repeat=ITEMS)))
PACKINGS = _ALL[(_ALL @ WEIGHTS.T <= CAPACITY).all(axis=1)]

KNAPSACKS: dict[str, Callable[[], Any]] = {
    "gurobi": lambda: GurobiKnapsack(WEIGHTS, CAPACITY),
    "scip": lambda: OrToolsKnapsack(WEIGHTS, CAPACITY, "scip"),
    "highs": lambda: OrToolsKnapsack(WEIGHTS, CAPACITY, "highs"),
    "cbc": lambda: OrToolsKnapsack(WEIGHTS, CAPACITY, "cbc"),
    "sat": lambda: OrToolsKnapsack(WEIGHTS, CAPACITY, "sat"),
    "cp-sat": lambda: CpSatKnapsack(WEIGHTS, CAPACITY),
}
PROVING = ("gurobi", "scip", "cp-sat")
FRACTIONS: dict[str, Callable[[], Any]] = {
    "gurobi": lambda: GurobiFraction(WEIGHTS, CAPACITY),
    "glop": lambda: OrToolsFraction(WEIGHTS, CAPACITY, "glop"),
    "scip": lambda: OrToolsFraction(WEIGHTS, CAPACITY, "scip"),
    "pdlp": lambda: OrToolsFraction(WEIGHTS, CAPACITY, "pdlp"),
}
RISK = np.array(
    [[0.5, 0.2, 0.0, 0.1], [0.2, 0.9, 0.3, 0.0], [0.0, 0.3, 0.7, 0.2], [0.1, 0, 0.2, 1]]
)


def nearly_level(count: int, size: float, seed: int = 1) -> Array:
    """Profits that differ by so little that a gap of 1e-4 hides it, `(count, ITEMS)`."""
    noise = np.random.default_rng(seed).normal(size=(count, ITEMS))
    return size * (1 + 5e-4 * noise)


def missed(profits: Array, packing: Array) -> Fraction:
    """By how much a packing falls short of the best one, in exact arithmetic."""
    values = PACKINGS @ profits
    close = PACKINGS[values >= values.max() - 1e-9 * np.abs(profits).sum()]
    best = max(_value(profits, one) for one in close)
    return best - _value(profits, packing)


def _value(profits: Array, packing: Array) -> Fraction:
    return sum(
        (Fraction(c) * Fraction(y) for c, y in zip(profits, packing, strict=True)), Fraction()
    )


@pytest.mark.parametrize("size", [1.0, 1e-5, 1e-9])
@pytest.mark.parametrize("solver", PROVING)
def test_an_exact_solve_has_no_gap_whatever_the_size_of_the_costs(solver: str, size: float) -> None:
    problem = PyEPOProblem(KNAPSACKS[solver]()).exact()
    profits = nearly_level(8, size)
    packings, shortfall = problem.optimise_within(profits)
    rounding = Fraction(1e-12 * ITEMS * size)
    assert max(missed(*pair) for pair in zip(profits, packings, strict=True)) <= rounding
    assert (shortfall <= 1e-9 * size).all()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("solver", KNAPSACKS)
def test_no_answer_falls_short_by_more_than_its_problem_says(solver: str, exact: bool) -> None:
    problem = PyEPOProblem(KNAPSACKS[solver]())
    problem = problem.exact() if exact else problem
    for size in (1.0, 1e-5):
        profits = nearly_level(8, size, seed=2)
        packings, shortfall = problem.optimise_within(profits)
        off = [missed(*pair) for pair in zip(profits, packings, strict=True)]
        slack = Fraction(1e-12 * ITEMS * size)
        assert all(a <= Fraction(b) + slack for a, b in zip(off, shortfall, strict=True))


@pytest.mark.parametrize("solver", ["scip", "cp-sat"])
def test_what_a_gap_returned_is_not_called_optimal(solver: str) -> None:
    problem = PyEPOProblem(KNAPSACKS[solver]())
    profits = nearly_level(30, 1e-4, seed=3)
    packings = problem.optimise(profits)
    off = np.array([float(missed(*pair)) for pair in zip(profits, packings, strict=True)])
    worse = np.flatnonzero(off > 1e-5 * ITEMS * 1e-4)[:4]
    assert len(worse)  # rows that the solver gets wrong
    x, alternative = torch.from_numpy(profits[worse]), torch.from_numpy(packings[worse])
    pipeline = cfopt.Pipeline(torch.nn.Identity(), problem)
    e = cfopt.explain(x, pipeline, cfopt.Absolute(alternative))
    assert "already valid" not in e.status
    for row in range(len(worse)):
        if e.status[row].is_valid:
            short = float(missed(e.x[row].numpy(), alternative[row].numpy()))
            assert short <= 1e-6 * float(e.x[row].abs().sum())


def test_a_proof_leaves_the_callers_model_as_it_was() -> None:
    model = GurobiKnapsack(WEIGHTS, CAPACITY)
    model._model.Params.MIPGap = 0.05
    PyEPOProblem(model).exact().optimise(nearly_level(1, 1.0))
    assert model._model.Params.MIPGap == 0.05
    assert model._model.Params.FeasibilityTol == 1e-6
    other = OrToolsKnapsack(WEIGHTS, CAPACITY)
    solver = other._model
    PyEPOProblem(other).exact().optimise(nearly_level(1, 1.0))
    assert other._model is solver


class _Cheapest(optModel):  # type: ignore[misc]
    """A model with an algorithm of its own."""

    def _getModel(self) -> tuple[None, list[int]]:  # noqa: N802 (PyEPO's name)
        return None, [0, 1, 2]

    def setObj(self, c: Any) -> None:  # noqa: N802 (PyEPO's name)
        self.c = np.asarray(c)

    def solve(self) -> tuple[Array, float]:
        return np.eye(3)[self.c.argmin()], float(self.c.min())


def test_a_model_of_ones_own_is_taken_at_its_word_or_at_the_tolerance_given() -> None:
    costs = np.array([[3.0, 2.0, 4.0]])
    assert PyEPOProblem(_Cheapest()).exact().optimise_within(costs)[1].tolist() == [0.0]
    rough = PyEPOProblem(_Cheapest(), tolerance=0.25)
    assert rough.exact().optimise_within(costs)[1].tolist() == [0.5]
    with pytest.raises(InputError, match="0 <= tolerance < 1"):
        PyEPOProblem(_Cheapest(), tolerance=1.0)


@pytest.mark.parametrize("solver", FRACTIONS)
def test_linear_programs_are_as_good_as_those_of_highs(solver: str) -> None:
    same = MILP(WEIGHTS, -np.inf, CAPACITY, upper=1, sense="max")
    for size in (1.0, 1e-6):
        profits = size * (1 + 0.5 * np.random.default_rng(4).normal(size=(10, ITEMS)))
        best = (profits * same.optimise(profits)).sum(axis=1)
        packings, shortfall = PyEPOProblem(FRACTIONS[solver]()).exact().optimise_within(profits)
        value = (profits * packings).sum(axis=1)
        assert (best - value <= shortfall + 1e-9 * best).all()
        assert (shortfall <= 1e-5 * best).all()


@pytest.mark.parametrize("solver", FRACTIONS)
def test_fractional_decisions_can_be_argued_for(solver: str) -> None:
    torch.manual_seed(0)
    predictor = torch.nn.Linear(3, ITEMS).double()
    pipeline = cfopt.Pipeline(predictor, PyEPOProblem(FRACTIONS[solver]()))
    contexts, others = torch.randn(2, 4, 3).double()
    wanted = pipeline.decide(others)
    assert (wanted * (1 - wanted) > 0.01).any()
    e = cfopt.explain(contexts, pipeline, cfopt.Relative(wanted))
    assert "rejected" not in e.status


def test_a_model_says_itself_what_is_feasible() -> None:
    packings = torch.from_numpy(FRACTIONS_OF_PACKINGS)
    same = MILP(WEIGHTS, -np.inf, CAPACITY, upper=1).is_feasible(packings)
    assert 0 < int(same.sum()) < len(same)
    for build in FRACTIONS.values():
        assert torch.equal(PyEPOProblem(build()).is_feasible(packings), same)


FRACTIONS_OF_PACKINGS = np.random.default_rng(5).uniform(-0.02, 1, (40, ITEMS)) ** 2
FRACTIONS_OF_PACKINGS[:5, 0] = -0.1


def test_portfolios_can_be_argued_for_and_others_not() -> None:
    problem = PyEPOProblem(Portfolio(4, RISK))
    pipeline = cfopt.Pipeline(torch.nn.Identity(), problem)
    returns = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).double()
    wanted = pipeline.decide(returns)
    e = cfopt.explain(returns.flip(0), pipeline, cfopt.Relative(wanted))
    assert "rejected" not in e.status
    fresh = PyEPOProblem(Portfolio(4, RISK))  # which has returned nothing yet
    assert fresh.is_feasible(wanted).all()
    risky = torch.eye(4).double()
    level = fresh.optmodel.risk_level
    allowed = torch.from_numpy(np.diag(RISK) <= level)
    assert torch.equal(fresh.is_feasible(risky), allowed)
    assert not fresh.is_feasible(wanted + 0.001).any()  # they no longer add up to 1


@pytest.mark.parametrize("model", [GurobiFraction, OrToolsFraction])
def test_small_fractions_stay_as_they_are(model: Any) -> None:
    left = 4e-6
    problem = PyEPOProblem(model(np.ones((1, 2)), np.array([1 + left])))
    expected = torch.tensor([[1.0, left]]).double()
    assert torch.allclose(problem.solve(torch.tensor([[2.0, 1.0]]).double()), expected, atol=1e-9)


@pytest.mark.parametrize("backend", ["gurobi", "ortools"])
def test_whole_numbers_above_1_are_known_to_be_feasible(backend: str) -> None:
    y = Variable(2, vtype=EPO.INTEGER, lb=0, ub=5)
    model = Model(Maximize(Parameter(2) @ y), [y.sum() <= 6])
    problem = PyEPOProblem(model.compile(backend))
    grid = torch.from_numpy(np.array(list(product((0.0, 0.5, 1.0, 3.0, 5.0, 6.0), repeat=2))))
    inside = (grid <= 5).all(1) & (grid.sum(1) <= 6) & (grid == grid.round()).all(1)
    assert torch.equal(problem.is_feasible(grid), inside)


@pytest.mark.parametrize("model", [tspDFJModel, tspGGModel])
def test_tours_are_told_from_other_sets_of_edges(model: Any) -> None:
    problem = PyEPOProblem(model(6))
    edges = problem.optmodel.edges

    def taken(*cycles: tuple[int, ...]) -> list[float]:
        pairs = {frozenset(p) for c in cycles for p in zip(c, (*c[1:], c[0]), strict=True)}
        return [float(frozenset(edge) in pairs) for edge in edges]

    decisions = torch.tensor(
        [taken((0, 3, 1, 5, 2, 4)), taken((0, 1, 2), (3, 4, 5)), taken((0, 1, 2, 3))]
    ).double()
    assert problem.is_feasible(decisions).tolist() == [True, False, False]


def test_a_problem_with_its_memory_can_be_pickled() -> None:
    problem = PyEPOProblem(Portfolio(4, RISK))
    problem.exact()
    wanted = problem.solve(torch.eye(4).double())
    copy: PyEPOProblem = pickle.loads(pickle.dumps(problem))
    assert copy.is_feasible(wanted).all()
    assert torch.allclose(copy.exact().solve(torch.eye(4).double()), wanted, atol=1e-3)
