"""The shipped criteria, proximities and predictors keep their contracts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar
from unittest import SkipTest

import pytest
import torch
from tests.pipelines import normal
from torch import Tensor

import cfopt
from cfopt.engine.progress import Progress
from cfopt.engine.task import Task
from cfopt.predictors import linear, mlp
from cfopt.question import Criterion
from cfopt.testing import (
    CriterionContract,
    PredictorContract,
    ProximityContract,
    RobustnessContract,
    SearchContract,
)


class TestRelative(CriterionContract):
    def criterion(self, alternative: Tensor) -> Criterion:
        return cfopt.Relative(alternative)

    def holds(self, best: Tensor, factual: Tensor, alternative: Tensor) -> Tensor:
        return alternative <= factual


class TestAbsolute(CriterionContract):
    def criterion(self, alternative: Tensor) -> Criterion:
        return cfopt.Absolute(alternative)

    def holds(self, best: Tensor, factual: Tensor, alternative: Tensor) -> Tensor:
        return alternative <= best + 1e-12


class TestEpsilon(CriterionContract):
    def criterion(self, alternative: Tensor) -> Criterion:
        return cfopt.Epsilon(0.4)

    def holds(self, best: Tensor, factual: Tensor, alternative: Tensor) -> Tensor:
        return factual >= best + 0.4 * best.abs()


class TestLargeEpsilon(TestEpsilon):
    """Above 1, negative values bound every decision."""

    def criterion(self, alternative: Tensor) -> Criterion:
        return cfopt.Epsilon(1.7)

    def holds(self, best: Tensor, factual: Tensor, alternative: Tensor) -> Tensor:
        return factual >= best + 1.7 * best.abs()


class TestL2(ProximityContract):
    def proximity(self) -> cfopt.Proximity:
        return cfopt.L2([1.0, 2.0, 0.5, 3.0, 1.0])


class TestL1(ProximityContract):
    def proximity(self) -> cfopt.Proximity:
        return cfopt.L1([1.0, 2.0, 0.5, 3.0, 1.0])


class TestLInf(ProximityContract):
    def proximity(self) -> cfopt.Proximity:
        return cfopt.LInf([1.0, 2.0, 0.5, 3.0, 1.0])


class TestLatent(ProximityContract):
    def proximity(self) -> cfopt.Proximity:
        return cfopt.Latent(cfopt.L1())


class TestBall(RobustnessContract):
    def robustness(self, predictor: torch.nn.Module) -> cfopt.Robustness:
        return cfopt.Ball(0.1, cfopt.L1(), known=[3])

    def exceptions(
        self, x: Tensor, predictor: Callable[[Tensor], Tensor]
    ) -> list[tuple[Tensor, Callable[[Tensor], Tensor]]]:
        corners = 0.1 * torch.eye(4, dtype=x.dtype)[:3]
        return [(x + off, predictor) for corner in corners for off in (corner, -corner)]


class TestModels(RobustnessContract):
    def others(self, predictor: torch.nn.Module) -> list[torch.nn.Module]:
        twins = [deepcopy(predictor) for _ in range(3)]
        for seed, twin in enumerate(twins):
            with torch.no_grad():
                twin.weight += 0.1 * normal(12, 4, seed=seed)
        return twins

    def robustness(self, predictor: torch.nn.Module) -> cfopt.Robustness:
        return cfopt.Models(self.others(predictor))

    def exceptions(
        self, x: Tensor, predictor: Callable[[Tensor], Tensor]
    ) -> list[tuple[Tensor, Callable[[Tensor], Tensor]]]:
        assert isinstance(predictor, torch.nn.Module)
        return [(x, other) for other in self.others(predictor)]


class TestLinear(PredictorContract):
    def predictor(self) -> Callable[[Tensor], Tensor]:
        return linear(4, 6).double()

    def contexts(self) -> Tensor:
        return normal(5, 4)


class TestMLP(PredictorContract):
    def predictor(self) -> Callable[[Tensor], Tensor]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return mlp(4, 6, depth=3).double()

    def contexts(self) -> Tensor:
        return normal(5, 4)


def test_a_contract_tells_a_criterion_that_loses_its_fields() -> None:
    """The defect that the contract is there for: a field falls back to its default."""

    class Forgetful(cfopt.Epsilon):
        def bind(self, count: int, factual: Tensor) -> Forgetful:
            return Forgetful(0.5)

    class Contract(TestEpsilon):
        def criterion(self, alternative: Tensor) -> Criterion:
            return Forgetful(0.4)

    with pytest.raises(AssertionError, match="epsilon"):
        Contract().test_its_fields_survive_binding_and_row_selection()


class Straying(cfopt.Sequential):
    """A search that ignores what contexts may be, and claims what it finds elsewhere."""

    honest: ClassVar[bool] = False

    def steps(self, task: Task) -> Iterator[Progress]:
        for progress in super().steps(replace(task, space=replace(task.space, domain=None))):
            done = progress.finished
            if done is not None:
                held = task[done.rows].look(done.x).holds if self.honest else done.found
                done = replace(done, found=held)
            yield replace(progress, finished=done)


class Admitting(Straying):
    """One that at least does not claim it."""

    honest = True


@pytest.mark.parametrize("search", [Straying, Admitting])
def test_a_search_that_ignores_features_breaks_its_contract(search: type[Straying]) -> None:
    class Contract(SearchContract):
        def search(self) -> cfopt.Search:
            return search(samples=16, restarts=0)

    said = "are answered" if search.honest else "leaves task.space.domain"
    for check in (Contract().test_limits_are_kept, Contract().test_whole_numbers_stay_whole):
        with pytest.raises(AssertionError, match=said):
            check()
    Contract().test_l1_is_minimised_where_it_is_asked_for()


def test_a_search_that_minimises_another_distance_breaks_its_contract() -> None:
    class Euclidean(cfopt.Sequential):
        def steps(self, task: Task) -> Iterator[Progress]:
            space = replace(task.space, proximity=cfopt.L2())
            yield from super().steps(replace(task, space=space))

    class Contract(SearchContract):
        def search(self) -> cfopt.Search:
            return Euclidean(samples=16, restarts=0)

    with pytest.raises(AssertionError, match=r"times as far as the nearest, 1\.2 is allowed"):
        Contract().test_l1_is_minimised_where_it_is_asked_for()


def test_a_search_that_forgets_the_margin_breaks_its_contract() -> None:
    class Marginless(cfopt.Sequential):
        def steps(self, task: Task) -> Iterator[Progress]:
            yield from super().steps(replace(task, rules=replace(task.rules, margin=0.0)))

    class Contract(SearchContract):
        def search(self) -> cfopt.Search:
            return Marginless(samples=16, restarts=0)

    with pytest.raises(AssertionError, match=r"a margin, .*: a claim is false"):
        Contract().test_a_margin_is_kept()


def test_a_search_that_refuses_a_task_is_excused_in_words() -> None:
    class Contract(SearchContract):
        def search(self) -> cfopt.Search:
            return cfopt.Enumeration()

    with pytest.raises(SkipTest, match="Enumeration, codes, Relative: codes are searched"):
        Contract().test_codes_are_searched_where_there_is_a_generative_model()
