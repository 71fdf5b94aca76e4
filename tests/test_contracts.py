"""The shipped criteria, proximities and predictors keep their contracts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cfopt
from cfopt.predictors import linear, mlp
from cfopt.question import Criterion
from cfopt.testing import CriterionContract, PredictorContract, ProximityContract
from conftest import normal


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


class TestLatent(ProximityContract):
    def proximity(self) -> cfopt.Proximity:
        return cfopt.Latent(cfopt.L1())


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
