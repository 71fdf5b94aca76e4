"""The contract of a generative model."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from cfopt.generative.protocol import GenerativeModel, check_generative
from cfopt.testing.draws import keeps_to_rows, normal, slopes

_ROWS = 12


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
        return normal(_ROWS, model.latent_dim, seed=6).to(like)

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

    def test_each_row_is_independent_of_the_others(self) -> None:
        model, x = self.in_float64()
        assert keeps_to_rows(model.encode, x)
        assert keeps_to_rows(model.decode, self.codes(model, x))

    def test_the_gradient_is_that_of_finite_differences(self) -> None:
        model, x = self.in_float64()
        z = self.codes(model, x).requires_grad_()
        weights = normal(*model.decode(z).shape, seed=7)

        def weighed(z: Tensor) -> Tensor:
            return (weights * model.decode(z)).flatten(1).sum(1)

        (gradient,) = torch.autograd.grad(weighed(z).sum(), z)
        assert torch.allclose(gradient, slopes(weighed, z), rtol=1e-4, atol=1e-5)

    def test_contexts_and_codes_are_left_as_they_were(self) -> None:
        model, x = self.model(), self.contexts()
        z = self.codes(model, x)
        given, codes = x.clone(), z.clone()
        model.encode(x)
        model.decode(z)
        assert torch.equal(x, given)
        assert torch.equal(z, codes)
