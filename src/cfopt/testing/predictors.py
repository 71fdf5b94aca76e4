"""The contract of a predictor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from cfopt.exact.affine import is_affine
from cfopt.pipeline import Adapted
from cfopt.pipeline.eval_mode import eval_mode
from cfopt.testing.draws import keeps_to_rows, normal


class PredictorContract(ABC):
    """What every predictor must do: finite costs, row by row; gradients, if it has any, are right.

    A model of another library must predict what its translation does.
    """

    @abstractmethod
    def predictor(self) -> Callable[[Tensor], Tensor]:
        """A small one, ready for use, in float64 if it has weights; as `as_predictor` makes it."""

    @abstractmethod
    def contexts(self) -> Tensor:
        """Contexts in float64, `(B, ...)` with B >= 3, at which it is smooth."""

    @torch.no_grad()
    def test_costs_are_finite_and_the_same_each_time(self) -> None:
        predictor, x = self.predictor(), self.contexts()
        with eval_mode(predictor):
            costs = predictor(x)
            assert costs.ndim == 2
            assert len(costs) == len(x)
            assert costs.is_floating_point()
            assert costs.isfinite().all()
            assert torch.equal(predictor(x), costs)

    def test_each_row_is_independent_of_the_others(self) -> None:
        predictor = self.predictor()
        with eval_mode(predictor):
            assert keeps_to_rows(predictor, self.contexts())

    def test_the_gradient_is_that_of_finite_differences(self) -> None:
        predictor, x = self.predictor(), self.contexts().requires_grad_()
        step = 1e-6
        with eval_mode(predictor):
            costs = predictor(x)
            if not costs.requires_grad:
                return  # without a gradient, none is asked for
            weights = normal(*costs.shape, seed=7)
            (gradient,) = torch.autograd.grad((weights * costs).sum(), x)
            for towards in normal(4, *x.shape, seed=8):
                with torch.no_grad():
                    change = predictor(x + step * towards) - predictor(x - step * towards)
                slope = (weights * change).sum(1) / (2 * step)
                expected = (gradient * towards).flatten(1).sum(1)
                assert torch.allclose(slope, expected, rtol=1e-4, atol=1e-5)

    @torch.no_grad()
    def test_a_translation_predicts_what_its_model_does(self) -> None:
        predictor, x = self.predictor(), self.contexts()
        if isinstance(predictor, Adapted):
            own = predictor.deployed(x)
            assert torch.allclose(predictor(x), own, rtol=1e-9, atol=1e-9 * float(own.abs().max()))

    @torch.no_grad()
    def test_it_is_affine_if_it_is_taken_for_affine(self) -> None:
        predictor, x = self.predictor(), self.contexts()
        if is_affine(predictor):
            with eval_mode(predictor):
                middle = predictor((x + x.flip(0)) / 2)
                mean = (predictor(x) + predictor(x.flip(0))) / 2
            assert torch.allclose(middle, mean, rtol=1e-9, atol=1e-9)

    def test_contexts_and_weights_are_left_as_they_were(self) -> None:
        predictor, x = self.predictor(), self.contexts()
        before = x.clone()
        state = {}
        if isinstance(predictor, nn.Module):
            state = {name: value.clone() for name, value in predictor.state_dict().items()}
        with eval_mode(predictor):
            predictor(x)
        assert torch.equal(x, before)
        for name, value in state.items():
            assert isinstance(predictor, nn.Module)
            assert torch.equal(predictor.state_dict()[name], value), name
