"""Linear and mixed-integer models, beyond the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, milp
from tests.pipelines import normal

import cfopt
from cfopt.errors import InputError, SolverError
from cfopt.problems import MILP, Finite, GridShortestPath, Knapsack

LP_FILE = """Maximize
 obj: 3 wheat + 2 barley - 4 tractor + 0 spare
Subject To
 land: wheat + barley <= 10
 work: 2 wheat + barley - 8 tractor + spare <= 6
Bounds
 wheat <= 8
 tractor <= 2
 spare <= 1
General
 tractor
End
"""


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    path = tmp_path / "farm.lp"
    path.write_text(LP_FILE)
    return path


@pytest.mark.slow
def test_a_large_knapsack_is_as_good_as_scipys_solver_makes_it() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(300, 800, (2, 60)) / 100
    problem = Knapsack(weights, [60, 60])
    assert problem.list_decisions(100_000) is None
    values = normal(3, 60) + 1
    for row, decision in zip(values.numpy(), problem.solve(values).numpy(), strict=True):
        other = milp(
            -row,
            constraints=LinearConstraint(weights, ub=[60, 60]),
            bounds=(0, 1),
            integrality=1,
            options={"mip_rel_gap": 0},
        )
        assert row @ decision == pytest.approx(-other.fun, rel=1e-9)


def test_the_runner_up_of_a_mip_is_the_second_best_packing() -> None:
    weights, capacities = normal(2, 8).abs().numpy() + 1, np.array([6.0, 6.0])
    mip = MILP(weights, -np.inf, capacities, upper=1, integer=True, sense="max")
    listed = Knapsack(weights, capacities)
    values = normal(6, 8, seed=1)
    best = listed.solve(values)
    ranked = (values @ listed.decisions().T).sort(1, descending=True).values
    for problem in (mip, listed):
        second = problem.runner_up(values, best)
        assert not second.failures
        assert torch.allclose((values * second.decisions).sum(1), ranked[:, 1])


def test_a_decision_without_rivals_has_no_runner_up() -> None:
    only = MILP([[1.0, 1.0]], 2, 2, upper=1, integer=True)
    solved = only.runner_up(torch.ones(1, 2), torch.ones(1, 2))
    assert solved.failures == {0: "there is no other decision"}


def test_a_file_says_sense_names_bounds_and_fixed_costs(farm: Path) -> None:
    problem = MILP.from_file(farm, cost_columns=["wheat", "barley"])
    assert problem.sense == "max"
    assert problem.decision_names == ("wheat", "barley", "tractor")
    # Two tractors cost 8 and let the land be used in full: 8 of wheat, 2 of barley.
    decision = problem.solve(torch.tensor([[3.0, 2.0], [0.5, 0.1]], dtype=torch.float64))
    assert decision.tolist() == [[8.0, 2.0, 2.0], [3.0, 0.0, 0.0]]
    prices = problem.prices(torch.tensor([[3.0, 2.0]]))
    assert prices.tolist() == [[3.0, 2.0, -4.0]]


def test_by_default_a_file_predicts_every_cost_that_it_states(farm: Path) -> None:
    assert MILP.from_file(farm).decision_names == ("wheat", "barley", "tractor")


def test_an_mps_file_gives_the_same_model(farm: Path, tmp_path: Path) -> None:
    import highspy

    writer = highspy.Highs()
    writer.setOptionValue("output_flag", False)
    writer.readModel(str(farm))
    writer.writeModel(str(tmp_path / "farm.mps"))
    costs = normal(5, 3)
    expected = MILP.from_file(farm).solve(costs)
    assert torch.allclose(MILP.from_file(tmp_path / "farm.mps").solve(costs), expected)


def test_an_alternative_may_be_completed_by_columns_without_a_cost(farm: Path) -> None:
    problem = MILP.from_file(farm, cost_columns=["wheat", "barley"])
    decisions = torch.tensor([[8.0, 2.0, 2.0], [8.0, 2.0, 1.0], [8.0, 2.0, 1.5]])
    assert problem.is_feasible(decisions).tolist() == [True, False, False]


def test_an_answer_with_integer_columns_is_its_own_completion() -> None:
    problem = MILP(
        [[-1.0, 2.0, 1.0, -1.0], [-3.0, 2.0, 0.0, -3.0]],
        [-np.inf, -3.0],
        [-1.0, -1.0],
        lower=[0.0, 0.0, 0.0, -2.0],
        upper=[1.0, 1.0, 2.0, 1.0],
        integer=[True, False, True, True],
        sense="max",
        cost_columns=[1, 0, 3],
    )
    costs = torch.tensor([[1.3, -0.9, 1.0], [0.6, 0.3, 0.4], [-0.8, 1.3, -0.9]])
    assert problem.is_feasible(problem.solve(costs)).all()


@pytest.mark.slow
def test_fixed_costs_count_in_explanations(farm: Path) -> None:
    problem = MILP.from_file(farm, cost_columns=["wheat", "barley"])
    pipeline = cfopt.Pipeline(lambda x: x, problem)  # the context is the two predicted costs
    poor = torch.tensor([[0.5, 0.1]], dtype=torch.float64)
    rich = torch.tensor([8.0, 2.0, 2.0])
    e = cfopt.explain(poor, pipeline, cfopt.Relative(rich), search=cfopt.MDMM(step=0.01))
    # 8 w + 2 b - 8 >= 3 w, nearest to (0.5, 0.1): the projection on a half-space.
    direction = torch.tensor([5.0, 2.0], dtype=torch.float64)
    exact = poor[0] + (8 - poor[0] @ direction) / (direction @ direction) * direction
    assert e.valid.all()
    assert torch.allclose(e.x[0], exact, atol=1e-4)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (MILP([[1.0]], 2, 3, upper=1), "infeasible"),
        (MILP([[1.0, -1.0]], 0, 0), "unbounded"),
        (MILP([[1.0]], 2, 3, upper=1, integer=True), "infeasible"),
        (MILP([[1.0, -1.0]], 0, 0, integer=True), "unbounded"),
    ],
)
def test_a_model_without_an_optimum_says_why(problem: MILP, reason: str) -> None:
    costs = -torch.ones(1, problem.num_costs)
    with pytest.raises(SolverError, match=reason):
        problem.solve(costs)
    assert reason in problem.attempt(costs).failures[0]


def test_an_unbounded_row_does_not_spoil_the_others() -> None:
    problem = MILP([[1.0, 1.0]], 1, np.inf)
    costs = torch.tensor([[1.0, 2.0], [-1.0, 2.0], [2.0, 1.0]])
    solved = problem.attempt(costs)
    assert list(solved.failures) == [1]
    assert solved.decisions[[0, 2]].tolist() == [[1.0, 0.0], [0.0, 1.0]]


class _Timed:
    """HiGHS with a clock of its own: each solve takes the same time by it."""

    def __init__(self, highs: Any, seconds: float) -> None:
        self.highs, self.seconds, self.now, self.limit = highs, seconds, 0.0, np.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(self.highs, name)

    def getRunTime(self) -> float:  # noqa: N802
        return self.now

    def setOptionValue(self, name: str, value: Any) -> Any:  # noqa: N802
        if name != "time_limit":
            return self.highs.setOptionValue(name, value)
        self.limit = value
        return highspy.HighsStatus.kOk

    def run(self) -> Any:
        self.now += self.seconds
        return self.highs.run()

    def getModelStatus(self) -> Any:  # noqa: N802
        late = self.now > self.limit
        return highspy.HighsModelStatus.kTimeLimit if late else self.highs.getModelStatus()


_ROWS = np.random.default_rng(0).random((3, 6))


def _timed(seconds: float) -> MILP:
    """A linear program with a limit of 1 second, each of whose solves takes so long."""
    problem = MILP(_ROWS, -np.inf, 2.0, upper=1, sense="max", time_limit=1.0)
    problem.solve(torch.ones((1, 6)))  # makes the model
    assert problem._highs is not None
    problem._highs._highs = _Timed(problem._highs._highs, seconds)
    return problem


def test_a_solve_that_runs_out_of_time_says_so() -> None:
    with pytest.raises(SolverError, match="time ran out"):
        _timed(1.1).solve(torch.ones((1, 6)))


def test_the_time_limit_is_that_of_one_solve() -> None:
    problem = _timed(0.9)
    costs = 0.5 + torch.from_numpy(np.random.default_rng(1).random((20, 6)))
    solved = problem.solve(costs)  # of which each takes less, and all take more
    assert problem._highs is not None
    assert problem._highs._highs.now > 10
    alone = MILP(_ROWS, -np.inf, 2.0, upper=1, sense="max").solve(costs)
    assert torch.allclose(solved, alone, atol=1e-9)


@pytest.mark.slow
def test_mixed_integer_models_are_as_good_as_scipys_solver_makes_them() -> None:
    """Random small models, a few of which the presolve of HiGHS 1.14 gets wrong."""
    rng = np.random.default_rng(3)
    solved = 0
    for _ in range(120):
        rows, columns = rng.integers(1, 4), rng.integers(2, 6)
        matrix = rng.integers(-2, 3, (rows, columns)).astype(float)
        upper = np.where(rng.random(columns) < 0.5, 1.0, rng.integers(2, 6, columns))
        limit = rng.integers(-2, 4, rows).astype(float)
        integer = rng.random(columns) < 0.6
        sense = "max" if rng.random() < 0.5 else "min"
        problem = MILP(matrix, -np.inf, limit, upper=upper, integer=integer, sense=sense)
        costs = np.round(rng.normal(size=(4, columns)), 1)
        ours = problem.attempt(torch.from_numpy(costs))
        for row in range(4):
            sign = 1 if sense == "min" else -1
            other = milp(
                sign * costs[row],
                constraints=LinearConstraint(matrix, ub=limit),
                bounds=(0, upper),
                integrality=integer,
                options={"mip_rel_gap": 0, "presolve": False},
            )
            if not other.success:
                assert row in ours.failures
                continue
            value = sign * costs[row] @ ours.decisions[row].numpy()
            assert value == pytest.approx(other.fun, abs=1e-7)
            solved += 1
    assert solved > 300


def test_an_integer_flow_is_a_shortest_path_also_where_paths_tie() -> None:
    grid = GridShortestPath(5, 6)
    matrix = np.zeros((30, grid.num_costs))
    for column, (tail, head) in enumerate(grid.arcs):
        matrix[tail, column], matrix[head, column] = 1.0, -1.0
    balance = np.eye(30)[0] - np.eye(30)[29]
    flow = MILP(matrix, balance, balance, upper=1, integer=True)
    generator = torch.Generator().manual_seed(0)
    costs = torch.randint(-2, 3, (40, grid.num_costs), generator=generator).double()
    decisions = flow.solve(costs)
    assert grid.is_feasible(decisions).all()
    assert torch.equal((costs * decisions).sum(1), (costs * grid.solve(costs)).sum(1))
    assert torch.equal(flow.solve(costs.flip(0)).flip(0), decisions)


def test_a_model_that_the_presolve_of_another_release_gets_wrong() -> None:
    """HiGHS 1.14 returns a decision that is not the best (ERGO-Code/HiGHS#3094)."""
    problem = MILP(
        [
            [1000, 0, -1, 0, 0, 0],
            [0, 1000, 0, -1, 0, 0],
            [0, 0, 1, 0, 1, 0],
            [0, 0, 0, 1, 0, 1],
            [1, 1, 0, 0, 0, 0],
        ],
        [0, 0, 1000, 1000, -np.inf],
        [np.inf, np.inf, 1000, 1000, 1],
        upper=[1, 1, 1000, 1000, 1000, 1000],
        integer=[1, 1, 0, 0, 0, 0],
        cost_columns=[4, 5],
    )
    assert problem.solve([[10.0, 8.0]]).tolist() == [[0.0, 1000.0]]


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("scale", [1e-12, 1e-7, 1e9, 1e20])
def test_the_size_of_the_costs_does_not_matter(scale: float, integer: bool) -> None:
    problem = MILP([[1.0, 1.0, 1.0]], 1, 1, upper=1, integer=integer)
    costs = torch.tensor([[1.0, 3.0, 2.0], [3.0, 2.0, 1.0]], dtype=torch.float64)
    assert torch.equal(problem.solve(scale * costs), problem.solve(costs))


@pytest.mark.parametrize("integer", [True, False])
def test_a_large_fixed_cost_never_hides_the_predicted_ones(integer: bool) -> None:
    """Of a column that cannot vary it is left out; of another one, the row says what to do."""
    matrix = np.ones((1, 6)) * (np.arange(6) < 5)
    costs = 0.01 * normal(20, 5).abs()
    best = costs.sort(1).values[:, :2].sum(1)
    for forced, lower in ((True, [0, 0, 0, 0, 0, 1]), (False, 0)):
        problem = MILP(
            matrix,
            2,
            2,
            lower=lower,
            upper=1,
            integer=integer,
            cost_columns=list(range(5)),
            fixed_costs=[0, 0, 0, 0, 0, 1e6],
        )
        solved = problem.attempt(problem.prices(costs))
        if forced:
            assert torch.allclose((costs * solved.decisions[:, :5]).sum(1), best)
        else:
            assert len(solved.failures) == 20
            assert "too small beside the fixed ones" in solved.failures[0]


def test_the_runner_up_does_not_depend_on_the_unit_of_the_costs() -> None:
    weights = normal(1, 8).abs().numpy() + 1
    problem = MILP(weights, -np.inf, 6.0, upper=1, integer=True, sense="max")
    values = normal(6, 8, seed=1)
    best = problem.solve(values)
    expected = problem.runner_up(values, best).decisions
    for unit in (1e-10, 1e8):
        assert torch.equal(problem.runner_up(unit * values, best).decisions, expected)


def test_answers_of_a_model_with_a_gap_are_verified_without_it() -> None:
    rng = np.random.default_rng(1)
    weights = rng.integers(300, 800, (2, 20)) / 100
    rough = MILP(weights, -np.inf, [20, 20], upper=1, integer=True, sense="max", gap=0.9)
    exact = Knapsack(weights, [20, 20])
    values = torch.from_numpy(rng.random((8, 20)))
    answers, best = rough.solve(values), exact.solve(values)
    short = (values * answers).sum(1) < (values * best).sum(1) - 1e-6
    assert short.any(), "with this gap some answers are no optima"
    pipeline = cfopt.Pipeline(lambda x: 1.0 * x, rough)
    e = cfopt.explain(values, pipeline, cfopt.Absolute(answers), search=cfopt.MDMM(max_steps=1))
    assert torch.equal(e.valid, ~short)


def test_whole_number_costs_give_fractional_decisions_all_the_same() -> None:
    assert MILP([[2.0, 1.0]], 1, 1).solve([[1, 5]]).tolist() == [[0.5, 0.0]]


def test_decisions_in_float32_are_still_known() -> None:
    listed = Finite([[123.456, 0.0], [0.0, 77.7], [50.3, 50.3]])
    partly = MILP([[1.0, 1.0, 1.0]], 8.1, 8.1, upper=[5.3, 5.3, 0.1], cost_columns=[0, 1])
    for problem in (listed, partly):
        costs = torch.rand(10, 2, generator=torch.Generator().manual_seed(0))
        decisions = problem.solve(costs)
        assert decisions.dtype == torch.float32
        assert problem.is_feasible(decisions).all()
    second = listed.runner_up(torch.ones(1, 2), torch.tensor([[0.0, 77.7]]))
    assert second.decisions.tolist() == [[pytest.approx(50.3)] * 2]


@pytest.mark.parametrize(
    "arguments",
    [
        {"row_lower": [0.0, 0.0]},
        {"upper": [1.0, 2.0, 3.0]},
        {"lower": float("nan")},
        {"cost_columns": [5]},
        {"cost_columns": ["a"]},
        {"cost_columns": [0, 0]},
        {"cost_columns": []},
        {"fixed_costs": [1.0]},
        {"names": ["only one"]},
        {"matrix": [1.0, 1.0]},
        {"sense": "maximize"},
        {"integer": [True, False, True]},
        {"matrix": [["a", 1.0]]},
        {"matrix": [[1.0, 1.0], [1.0]]},
        {"fixed_costs": "free"},
        {"gap": -1},
        {"time_limit": 0},
    ],
)
def test_models_that_do_not_fit_together_are_refused(arguments: dict) -> None:
    given = {"matrix": [[1.0, 1.0]], "row_lower": 1.0, "row_upper": 1.0} | arguments
    with pytest.raises(InputError):
        MILP(**given)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is none"):
        MILP.from_file(tmp_path / "missing.mps")
    broken = tmp_path / "broken.mps"
    broken.write_text("this is no model\n")
    with pytest.raises(InputError, match="cannot read"):
        MILP.from_file(broken)


@pytest.mark.parametrize(
    ("weights", "capacities"),
    [([[1.0, -1.0]], [1.0]), ([[1.0, 1.0]], [1.0, 2.0]), ([[1.0, np.nan]], [1.0]), ([[]], [1.0])],
)
def test_impossible_knapsacks_are_refused(weights: list, capacities: list) -> None:
    with pytest.raises(InputError):
        Knapsack(weights, capacities)
