"""The contract of a problem."""

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import torch
from torch import Tensor

from cfopt.explaining.explain import explain
from cfopt.pipeline import Pipeline
from cfopt.problems.base import Problem
from cfopt.problems.scene import Scene
from cfopt.question import Absolute

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

    def ranked_set(self, problem: Problem) -> Tensor:
        """The decisions among which there is a second-best one, `(D, m)`: by default all."""
        return self.feasible_set(problem)

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
            known = self.ranked_set(problem)
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

    def test_threads_that_ask_at_once_get_what_one_gets(self) -> None:
        problem = self.problem()
        costs = self.costs(problem)
        expected = problem.solve(costs)
        asked = [problem, copy(problem), problem.until(1e12)] * 3
        with ThreadPoolExecutor(len(asked)) as pool:
            for found in pool.map(lambda one: one.solve(costs), asked):
                assert _alike(found, expected)

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

    def test_the_scene_has_every_entry_and_its_bounds_admit_every_decision(self) -> None:
        problem = self.problem()
        scene = problem.scene()
        assert len(scene.entries) == problem.num_columns
        assert all(scene.names)
        assert scene.noun != scene.nouns
        lower, upper = map(torch.from_numpy, problem.column_bounds())
        whole = torch.from_numpy(problem.integer_columns())
        assert [entry.lower for entry in scene.entries] == lower.tolist()
        assert [entry.upper for entry in scene.entries] == upper.tolist()
        assert [entry.integer for entry in scene.entries] == whole.tolist()
        for decisions in (problem.solve(self.costs(problem)), self.feasible_set(problem)):
            assert (decisions >= lower - 1e-6).all()
            assert (decisions <= upper + 1e-6).all()
            assert _alike(decisions[:, whole], decisions[:, whole].round())

    def test_a_path_that_the_scene_reads_leads_back_to_its_decision(self) -> None:
        problem = self.problem()
        scene = problem.scene()
        paths = 0
        for decision in self.feasible_set(problem)[:100].double().numpy():
            assert scene.name_of(decision)
            path = scene.path_of(decision)
            if path is not None:
                paths += 1
                sent = json.loads(json.dumps(path))
                assert (scene.decision_of(sent) == decision).all()
                assert scene.path_of(scene.decision_of(path)) == path
        assert (paths > 0) == scene.routes

    def test_the_scene_survives_json(self) -> None:
        scene = self.problem().scene()
        assert Scene.from_dict(json.loads(json.dumps(scene.to_dict(), allow_nan=False))) == scene

    def test_a_copy_that_was_pickled_solves_alike(self) -> None:
        problem = self.problem()
        costs = self.costs(problem)
        expected = problem.solve(costs)
        copy: Problem = pickle.loads(pickle.dumps(problem))
        assert _alike(copy.solve(costs), expected)
