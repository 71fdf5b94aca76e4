"""Contracts: tests that a new problem, generative model or search inherits.

Subclass a contract in a test module, say how to make the thing, and pytest runs the rest:

    class TestMyProblem(ProblemContract):
        def problem(self) -> Problem:
            return MyProblem(...)
"""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from cfopt.criteria import Absolute, Criterion, Epsilon, Relative
from cfopt.explain import explain
from cfopt.generative.base import GenerativeModel, check_generative
from cfopt.pipeline import Pipeline
from cfopt.problems.base import Problem
from cfopt.problems.shortest_path import GridShortestPath
from cfopt.proximity import L2
from cfopt.search.base import Search
from cfopt.task import Task
from cfopt.verify import verify

_ROWS = 12


def _alike(left: Tensor, right: Tensor) -> bool:
    """The same decisions, up to the last bits of a fraction."""
    return torch.allclose(left, right, rtol=0, atol=1e-9)


class ProblemContract(ABC):
    """What every problem must do: feasible, optimal, repeatable, row by row or in a batch."""

    @abstractmethod
    def problem(self) -> Problem:
        """A small instance."""

    def feasible_set(self, problem: Problem) -> Tensor:
        """Every decision, `(D, m)`, from an independent source where the problem has no list."""
        listed = problem.decisions()
        assert listed is not None, "override feasible_set: the problem does not list its decisions"
        return listed

    def costs(self, problem: Problem) -> Tensor:
        """Costs to test with, `(B, n)` in float64: by default of both signs, with ties.

        In the last block, ties hold but for the rounding of decimals.
        """
        generator = torch.Generator().manual_seed(1)
        size = (_ROWS, problem.num_costs)
        smooth = torch.randn(size, generator=generator, dtype=torch.float64)
        tied = torch.randint(-2, 3, size, generator=generator).double()
        return torch.cat([smooth, tied, 0.1 * tied])

    def test_decisions_are_feasible(self) -> None:
        problem = self.problem()
        decisions = problem.solve(self.costs(problem))
        assert decisions.shape[1] == problem.num_columns
        assert problem.is_feasible(decisions).all()

    def test_no_feasible_decision_is_better(self) -> None:
        problem = self.problem()
        costs = self.costs(problem)
        prices = problem.sense.sign * problem.prices(costs)
        best = (prices @ self.feasible_set(problem).T).min(1).values
        reached = (prices * problem.solve(costs)).sum(1)
        assert torch.allclose(reached, best, rtol=1e-9, atol=1e-9)

    def test_every_feasible_decision_is_called_feasible(self) -> None:
        problem = self.problem()
        assert problem.is_feasible(self.feasible_set(problem)[:200]).all()

    def test_a_decision_with_one_entry_changed_is_feasible_only_if_it_is_in_the_set(self) -> None:
        problem = self.problem()
        known = self.feasible_set(problem)
        decision = problem.solve(self.costs(problem)[:3])
        for column in range(problem.num_columns):
            changed = decision.clone()
            changed[:, column] = 1 - changed[:, column]
            member = (changed[:, None] - known[None]).abs().amax(2).amin(1) < 1e-9
            assert torch.equal(problem.is_feasible(changed), member)

    def test_decisions_are_listed_completely_or_not_at_all(self) -> None:
        problem = self.problem()
        assert problem.decisions(limit=0) is None
        listed = problem.decisions()
        if listed is not None:
            assert problem.decisions(limit=len(listed) - 1) is None
            assert set(map(tuple, listed.tolist())) == set(
                map(tuple, self.feasible_set(problem).tolist())
            )

    def test_the_runner_up_is_the_best_of_the_others(self) -> None:
        problem = self.problem()
        prices = problem.prices(self.costs(problem))[:6]
        best = problem.solve(self.costs(problem)[:6])
        if not problem.ranks_decisions:
            return
        second = problem.runner_up(prices, best)
        turned = problem.sense.sign * prices
        for row, decision in enumerate(best):
            known = self.feasible_set(problem)
            others = known[(known - decision).abs().amax(1) > 1e-9]
            if not len(others):
                assert row in second.failures
                continue
            assert (second.decisions[row] - decision).abs().max() > 1e-9
            value = turned[row] @ second.decisions[row]
            assert torch.isclose(value, (others @ turned[row]).min(), rtol=1e-9, atol=1e-9)

    def test_what_no_decision_can_be_is_called_infeasible(self) -> None:
        problem = self.problem()
        beyond = self.feasible_set(problem).abs().max() + 1
        wrong = beyond + problem.solve(self.costs(problem)[:3])
        assert not problem.is_feasible(wrong).any()
        assert all(problem.explain_faults(wrong))

    def test_a_batch_gives_what_its_rows_give(self) -> None:
        problem = self.problem()
        costs = self.costs(problem)
        single = torch.cat([problem.solve(row[None]) for row in costs])
        assert _alike(problem.solve(costs), single)

    def test_the_answer_does_not_depend_on_earlier_solves(self) -> None:
        problem = self.problem()
        costs = self.costs(problem)
        first = problem.solve(costs)
        order = torch.randperm(len(costs), generator=torch.Generator().manual_seed(2))
        assert _alike(problem.solve(costs[order]), first[order])

    def test_decisions_keep_the_dtype_of_the_costs(self) -> None:
        problem = self.problem()
        assert problem.solve(self.costs(problem).float()).dtype == torch.float32

    def test_a_row_that_is_not_finite_fails_alone(self) -> None:
        problem = self.problem()
        prices = problem.prices(self.costs(problem))
        spoilt = prices.clone()
        spoilt[1, 0] = torch.nan
        solved = problem.attempt(spoilt)
        assert list(solved.failures) == [1]
        kept = [row for row in range(len(prices)) if row != 1]
        assert _alike(solved.decisions[kept], problem.attempt(prices).decisions[kept])

    def test_its_own_decisions_are_absolutely_explained_where_they_were_taken(self) -> None:
        problem = self.problem()
        for dtype in (torch.float64, torch.float32):
            costs = self.costs(problem)[:8].to(dtype)
            pipeline = Pipeline(lambda x: 1.0 * x, problem)
            e = explain(costs, pipeline, Absolute(pipeline.decide(costs)))
            assert set(e.status) == {"already valid"}

    def test_a_copy_that_was_pickled_solves_alike(self) -> None:
        problem = self.problem()
        costs = self.costs(problem)
        expected = problem.solve(costs)
        copy: Problem = pickle.loads(pickle.dumps(problem))
        assert _alike(copy.solve(costs), expected)


class GenerativeContract(ABC):
    """What every generative model must do: codes and contexts of the right form, row by row."""

    @abstractmethod
    def model(self) -> GenerativeModel:
        """A small instance, ready for use."""

    @abstractmethod
    def contexts(self) -> Tensor:
        """Contexts that it can encode, `(B, ...)` with B >= 3."""

    def in_float64(self) -> tuple[GenerativeModel, Tensor]:
        """The model and its contexts in float64, where rounding hides nothing."""
        model = copy.deepcopy(self.model())
        if isinstance(model, nn.Module):
            model.double()
        return model, self.contexts().double()

    def codes(self, model: GenerativeModel, like: Tensor) -> Tensor:
        """Codes as the prior has them, `(B, n)`."""
        generator = torch.Generator().manual_seed(6)
        size = (_ROWS, model.latent_dim)
        return torch.randn(size, generator=generator, dtype=torch.float64).to(like)

    def test_it_is_a_generative_model(self) -> None:
        check_generative(self.model(), self.contexts())

    @torch.no_grad()
    def test_shapes_and_dtypes_are_those_of_the_contexts(self) -> None:
        model, x = self.model(), self.contexts()
        z = model.encode(x)
        assert z.shape == (len(x), model.latent_dim)
        assert z.dtype == x.dtype
        decoded = model.decode(z)
        assert (decoded.shape, decoded.dtype) == (x.shape, x.dtype)

    @torch.no_grad()
    def test_codes_and_contexts_are_finite(self) -> None:
        model, x = self.model(), self.contexts()
        z = model.encode(x)
        assert z.isfinite().all()
        assert model.decode(z).isfinite().all()
        for size in (0.0, 1.0, 5.0):
            assert model.decode(size * self.codes(model, x)).isfinite().all()

    @torch.no_grad()
    def test_the_same_is_returned_each_time(self) -> None:
        model, x = self.model(), self.contexts()
        z = self.codes(model, x)
        assert torch.equal(model.encode(x), model.encode(x))
        assert torch.equal(model.decode(z), model.decode(z))

    @torch.no_grad()
    def test_each_row_is_independent_of_the_others(self) -> None:
        model, x = self.in_float64()
        for function, given in ((model.encode, x), (model.decode, self.codes(model, x))):
            together = function(given)
            alone = torch.cat([function(row[None]) for row in given])
            assert torch.allclose(alone, together, rtol=1e-9, atol=1e-9)
            assert torch.allclose(function(given.flip(0)).flip(0), together, rtol=1e-9, atol=1e-9)

    def test_the_gradient_is_that_of_finite_differences(self) -> None:
        model, x = self.in_float64()
        z = self.codes(model, x).requires_grad_()
        generator = torch.Generator().manual_seed(7)
        decoded = model.decode(z)
        weights = torch.randn(decoded.shape, generator=generator, dtype=torch.float64)
        (gradient,) = torch.autograd.grad((weights * decoded).sum(), z)
        step = 1e-6
        for entry in range(model.latent_dim):
            shift = torch.zeros_like(z)
            shift[:, entry] = step
            with torch.no_grad():
                change = model.decode(z + shift) - model.decode(z - shift)
            slope = (weights * change).flatten(1).sum(1) / (2 * step)
            assert torch.allclose(gradient[:, entry], slope, rtol=1e-4, atol=1e-5)

    def test_contexts_and_codes_are_left_as_they_were(self) -> None:
        model, x = self.model(), self.contexts()
        z = self.codes(model, x)
        given, codes = x.clone(), z.clone()
        model.encode(x)
        model.decode(z)
        assert torch.equal(x, given)
        assert torch.equal(z, codes)


class SearchContract(ABC):
    """What every search must do: hand over each row once, claim only what holds."""

    @abstractmethod
    def search(self) -> Search:
        """The search, with knobs that suit a 3x3 grid, a linear predictor and 4 features."""

    def pipeline(self) -> Pipeline:
        """A linear predictor in float64 on a small grid; costs rise with every feature."""
        generator = torch.Generator().manual_seed(3)
        problem = GridShortestPath(3, 3)
        predictor = nn.Linear(4, problem.num_costs).double()
        with torch.no_grad():
            predictor.weight.copy_(torch.rand(predictor.weight.shape, generator=generator))
            predictor.bias.fill_(3.0)
        return Pipeline(predictor, problem)

    def contexts(self) -> Tensor:
        """Contexts to explain, `(B, 4)`."""
        generator = torch.Generator().manual_seed(4)
        return torch.randn((_ROWS, 4), generator=generator, dtype=torch.float64)

    def criteria(self, pipeline: Pipeline) -> list[Criterion]:
        """The questions to ask; every alternative is best in some context."""
        generator = torch.Generator().manual_seed(5)
        elsewhere = torch.randn((_ROWS, 4), generator=generator, dtype=torch.float64)
        wanted = pipeline.decide(elsewhere)
        return [Relative(wanted), Absolute(wanted), Epsilon(0.2)]

    def test_every_row_is_handed_over_once(self) -> None:
        pipeline, contexts = self.pipeline(), self.contexts()
        for criterion in self.criteria(pipeline):
            task = self._task(pipeline, contexts, criterion)
            reports = list(self.search().steps(task))
            rows = [
                row for r in reports if r.finished is not None for row in r.finished.rows.tolist()
            ]
            assert sorted(rows) == list(range(len(contexts)))
            assert reports[-1].running == 0

    def test_what_is_claimed_is_confirmed_by_a_fresh_solve(self) -> None:
        pipeline, contexts = self.pipeline(), self.contexts()
        for criterion in self.criteria(pipeline):
            task = self._task(pipeline, contexts, criterion)
            points = self.search().run(task)
            assert points.x.isfinite().all()
            assert (points.steps >= 0).all()
            assert (points.solves >= 0).all()
            assert verify(task, points.x).valid[points.found].all()
            assert points.found.any()

    def test_half_of_the_rows_are_answered_and_every_answer_holds(self) -> None:
        pipeline, contexts = self.pipeline(), self.contexts()
        listed = pipeline.problem.decisions()
        assert listed is not None
        for criterion in self.criteria(pipeline):
            explanation = explain(contexts, pipeline, criterion, search=self.search())
            assert explanation.valid.double().mean() >= 0.5
            found = explanation[explanation.valid]
            # By brute force over all paths, not by the solver that the search used.
            costs = pipeline.costs(found.x).detach()
            best = (costs @ listed.T).min(1).values
            old = (costs * found.factual).sum(1)
            slack = 1e-5 * costs.abs().sum(1)
            if isinstance(criterion, Epsilon):
                assert (best + criterion.epsilon * best.abs() <= old + slack).all()
            else:
                new = (costs * found.alternative).sum(1)
                assert (new <= (old if isinstance(criterion, Relative) else best) + slack).all()

    def test_a_batch_gives_what_its_rows_give(self) -> None:
        pipeline, contexts = self.pipeline(), self.contexts()
        for criterion in self.criteria(pipeline):
            together = explain(contexts, pipeline, criterion, search=self.search())
            bound = criterion.bind(len(contexts), pipeline.decide(contexts))
            for row in range(len(contexts)):
                only = torch.tensor([row])
                alone = explain(contexts[only], pipeline, bound[only], search=self.search())
                assert alone.status[0] == together.status[row]
                assert torch.allclose(alone.x, together.x[only], rtol=0, atol=1e-6)

    def test_the_task_is_left_as_it_was(self) -> None:
        pipeline, contexts = self.pipeline(), self.contexts()
        before = contexts.clone()
        for criterion in self.criteria(pipeline):
            self.search().run(self._task(pipeline, contexts, criterion))
        assert torch.equal(contexts, before)
        assert isinstance(pipeline.predictor, nn.Module)
        assert all(parameter.grad is None for parameter in pipeline.predictor.parameters())

    def _task(self, pipeline: Pipeline, contexts: Tensor, criterion: Criterion) -> Task:
        factual = pipeline.decide(contexts)
        return Task(contexts, factual, pipeline, criterion.bind(len(contexts), factual), L2())
