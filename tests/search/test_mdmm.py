"""The paper's search."""

from __future__ import annotations

import pytest
import torch
from tests.pipelines import another, normal, random_linear

import cfopt
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.problems import GridShortestPath, Oracle
from cfopt.search import Search
from cfopt.testing import SearchContract


class TestMDMM(SearchContract):
    def search(self) -> Search:
        return cfopt.MDMM(step=0.1, max_steps=200)


def test_maximising_the_negative_gives_the_same_answers() -> None:
    """Costs and sense turned around at once: the same tasks, so the same answers."""
    contract = TestMDMM()
    pipeline, contexts = contract.pipeline(), contract.contexts()
    paths = pipeline.problem.decisions()
    mirrored = cfopt.Pipeline(
        lambda x: -pipeline.predictor(x), cfopt.problems.Finite(paths, sense="max")
    )
    for criterion in contract.criteria(pipeline):
        a = cfopt.explain(contexts, pipeline, criterion, search=contract.search())
        b = cfopt.explain(contexts, mirrored, criterion, search=contract.search())
        assert a.status == b.status
        assert torch.allclose(a.x, b.x, atol=1e-9)
        assert torch.equal(a.steps, b.steps)


def _algorithm_2(
    pipeline: cfopt.Pipeline, x0: torch.Tensor, alternative: torch.Tensor, settings: cfopt.MDMM
) -> tuple[torch.Tensor | None, list[tuple[float, float, float]]]:
    """The paper's algorithm written out for one absolute task: best x; loss, h, lambda a step."""
    weight, bias = pipeline.predictor.weight.detach(), pipeline.predictor.bias.detach()
    paths = pipeline.problem.decisions()
    x, multiplier, idle = x0.clone(), 0.0, 0
    best_x, best_loss, last, trace = None, float("inf"), float("inf"), []
    while len(trace) < settings.max_steps and idle < settings.patience:
        costs = weight @ x + bias
        direction = alternative - paths[(paths @ costs).argmin()]
        h, loss = float(costs @ direction), float((x - x0) @ (x - x0))
        trace.append((loss, h, multiplier))
        found = best_x is not None
        valid = h <= 5e-7 * float((costs * direction).abs().sum())
        if valid and loss < best_loss:
            best_x, best_loss = x, loss
        if valid and loss < settings.improvement * last:
            last, idle = loss, 0
        elif valid or (found and settings.counting is cfopt.Counting.ALL_STEPS):
            idle += 1
        gradient = 2 * (x - x0) + (multiplier + settings.damping * h) * (weight.T @ direction)
        x, multiplier = x - settings.step * gradient, multiplier + settings.step * h
    return best_x, trace


@pytest.mark.parametrize("counting", list(cfopt.Counting))
@pytest.mark.parametrize("improvement", [0.9, 1e-9])
def test_every_row_goes_as_the_algorithm_written_out(
    counting: cfopt.Counting, improvement: float, grid: cfopt.Pipeline
) -> None:
    x0 = normal(20, 4)
    wanted = another(grid, x0)
    settings = cfopt.MDMM(
        step=0.06, max_steps=400, patience=8, improvement=improvement, counting=counting, trace=True
    )
    e = cfopt.explain(x0, grid, cfopt.Absolute(wanted), search=settings)
    for row in range(20):
        best_x, trace = _algorithm_2(grid, x0[row], wanted[row], settings)
        assert len(trace) == e.steps[row]
        assert torch.allclose(e.traces[row], torch.tensor(trace, dtype=torch.float64), atol=1e-9)
        assert (best_x is not None) == e.valid[row]
        if best_x is not None:
            assert torch.allclose(e.x[row], best_x, atol=1e-9)
    assert len(set(e.steps.tolist())) > 5


def test_the_two_ways_of_counting_can_be_told_apart(grid: cfopt.Pipeline) -> None:
    x0 = normal(20, 4)
    wanted = cfopt.Absolute(another(grid, x0))
    steps = [
        cfopt.explain(x0, grid, wanted, search=cfopt.MDMM(step=0.06, patience=8, counting=c)).steps
        for c in (cfopt.Counting.ALL_STEPS, cfopt.Counting.VALID_STEPS)
    ]
    assert (steps[0] <= steps[1]).all()
    assert (steps[0] < steps[1]).any()


def test_no_trace_is_kept_unless_asked_for(grid: cfopt.Pipeline) -> None:
    e = cfopt.explain(normal(2, 4), grid, cfopt.Epsilon(0.1), search=cfopt.MDMM(max_steps=20))
    assert e.traces == ()


def test_relative_answers_come_near_the_projection(grid: cfopt.Pipeline) -> None:
    x0 = normal(20, 4)
    wanted = grid.decide(normal(20, 4, seed=7))
    e = cfopt.explain(x0, grid, cfopt.Relative(wanted), search=cfopt.MDMM(step=0.02))
    weight, bias = grid.predictor.weight.detach(), grid.predictor.bias.detach()
    d = (wanted - e.factual).double()
    normal_vector, offset = d @ weight, d @ bias
    h = (x0 * normal_vector).sum(1) + offset
    exact = (h.clamp(min=0) / normal_vector.norm(dim=1)).nan_to_num()
    assert e.valid.all()
    assert torch.allclose(e.distance, exact, rtol=1e-3, atol=1e-6)


def _counted() -> tuple[cfopt.Pipeline, list[int]]:
    """A pipeline on a batched solver of one's own, and the size of each batch it was asked for."""
    grid, sizes = GridShortestPath(3, 3), []

    def solve(costs):
        sizes.append(len(costs))
        return grid.optimise(costs)

    problem = Oracle(solve, 12, is_feasible=lambda y: True, batched=True)
    return cfopt.Pipeline(random_linear(4, 12, bias=5.0), problem), sizes


def test_relative_explanations_call_no_solver_while_they_search() -> None:
    pipeline, sizes = _counted()
    wanted = pipeline.decide(normal(5, 4, seed=7))
    sizes.clear()
    e = cfopt.explain(normal(5, 4), pipeline, cfopt.Relative(wanted), search=cfopt.MDMM(step=0.02))
    assert e.valid.all()
    assert e.steps.max() > 10
    assert len(sizes) == 2  # the factual decision, and the answer verified
    assert e.solves.tolist() == [0] * 5


def test_one_step_is_one_batched_solve_for_the_rows_still_running() -> None:
    pipeline, sizes = _counted()
    search = cfopt.MDMM(step=0.02, max_steps=800)
    e = cfopt.explain(normal(9, 4), pipeline, cfopt.Epsilon(0.1), search=search)
    during = sizes[1:-1]
    assert len(during) == int(e.steps.max())
    assert during == sorted(during, reverse=True)
    assert sum(during) == int(e.steps.sum()) == int(e.solves.sum())


def test_a_row_that_overflows_stops_alone() -> None:
    """One row's costs grow like exp(x^2): a step of the usual size throws it off to infinity."""

    def costs(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([2 + x[:, :1], (x[:, 1:] * x[:, :1]).exp()], dim=1)

    pipeline = cfopt.Pipeline(costs, cfopt.problems.Finite(torch.eye(2)))
    x0 = torch.tensor([[0.1, 0.1], [0.3, -0.1], [9.0, 9.0], [0.2, 0.0]], dtype=torch.float64)
    wanted = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    for criterion in (cfopt.Relative, cfopt.Absolute):
        search = cfopt.MDMM(step=0.05)
        e = cfopt.explain(x0, pipeline, criterion(wanted), search=search)
        assert e.status[2] == "best effort"
        assert "NaN" in e.message[2] or "not finite" in e.message[2]
        assert e.x.isfinite().all()
        others = [0, 1, 3]
        alone = cfopt.explain(x0[others], pipeline, criterion(wanted[others]), search=search)
        assert alone.valid.all()
        assert torch.equal(e.x[others], alone.x)


def test_a_start_that_explains_is_kept_feasible_by_its_slack(grid: cfopt.Pipeline) -> None:
    """Run bare, without explain's check of the start: g = h + s^2 = 0 there, so nothing moves."""
    x0 = normal(5, 4)
    factual = grid.decide(x0)
    worst = grid.problem.solve(-grid.costs(x0).detach())
    rules = cfopt.Rules(grid.problem, worst, cfopt.Relative(factual))
    task = Task(rules, cfopt.Space(x0, cfopt.L2()), grid.predictor)
    points = cfopt.MDMM(step=0.02, trace=True).run(task)
    assert points.found.all()
    for trace in points.traces:
        loss, h, multiplier = trace.T
        assert (h < 0).all()
        assert loss.max() < 1e-12
        assert multiplier.abs().max() < 1e-12


@pytest.mark.parametrize(
    "settings",
    [
        {"step": 0},
        {"step": -1},
        {"step": float("nan")},
        {"max_steps": 0},
        {"patience": 0},
        {"improvement": 0},
        {"improvement": 1.5},
        {"damping": -1},
        {"max_steps": 1e2},
        {"step": "0.1"},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict) -> None:
    with pytest.raises(InputError, match="MDMM needs"):
        cfopt.MDMM(**settings)


def test_float32_tasks_reach_the_boundary_too() -> None:
    """A multiplier in float32 would stall a hair outside it."""
    problem = GridShortestPath(5, 5)
    generator = torch.Generator().manual_seed(0)
    predictor = torch.nn.Linear(10, problem.num_costs)
    with torch.no_grad():
        predictor.weight.copy_(0.3 * torch.rand(predictor.weight.shape, generator=generator))
        predictor.bias.fill_(0.5)
    pipeline = cfopt.Pipeline(predictor, problem)
    x0 = torch.randn(200, 10, generator=generator)
    wanted = problem.solve(torch.rand(200, problem.num_costs, generator=generator))
    e = cfopt.explain(x0, pipeline, cfopt.Relative(wanted), search=cfopt.MDMM(step=0.1))
    assert e.x.dtype == torch.float32
    assert e.valid.all(), e.summary()
