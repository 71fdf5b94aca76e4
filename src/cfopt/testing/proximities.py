"""The contract of a proximity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields

import torch
from torch import Tensor

from cfopt import registry
from cfopt.question.proximity import Proximity
from cfopt.testing.draws import normal, slopes


class ProximityContract(ABC):
    """What every proximity must do: measure each row alone, from 0, with its gradient."""

    @abstractmethod
    def proximity(self) -> Proximity:
        """The proximity, for contexts of 5 features, with settings that are not its defaults."""

    def contexts(self) -> tuple[Tensor, Tensor]:
        """Contexts and their origins, `(B, 5)` each; no feature is where it was."""
        x, origin = normal(2, 12, 5, seed=9)
        return x, origin

    def test_it_is_zero_at_the_origin_and_positive_elsewhere(self) -> None:
        x, origin = self.contexts()
        bound = self.proximity().bind(x)
        assert torch.equal(bound(origin, origin), torch.zeros(len(x), dtype=x.dtype))
        assert (bound(x, origin) > 0).all()

    def test_it_grows_along_every_ray_from_the_origin(self) -> None:
        x, origin = self.contexts()
        bound = self.proximity().bind(x)
        near, far = (bound(origin + part * (x - origin), origin) for part in (0.5, 1.0))
        assert (near < far).all()

    def test_the_gradient_is_that_of_finite_differences(self) -> None:
        x, origin = self.contexts()
        bound = self.proximity().bind(x)
        gradient = bound.evaluate(x, origin)[1]
        assert gradient.shape == x.shape
        slope = slopes(lambda x: bound(x, origin), x)
        assert torch.allclose(slope, gradient, rtol=1e-4, atol=1e-6)

    def test_each_row_is_independent_of_the_others(self) -> None:
        x, origin = self.contexts()
        bound = self.proximity().bind(x)
        alone = torch.cat([bound(x[i : i + 1], origin[i : i + 1]) for i in range(len(x))])
        assert torch.allclose(alone, bound(x, origin), rtol=1e-12)

    def test_it_keeps_dtype_fields_and_contexts(self) -> None:
        x, origin = (one.float() for one in self.contexts())
        before, made = x.clone(), self.proximity()
        bound = made.bind(x)
        value, gradient = bound.evaluate(x, origin)
        assert value.dtype == gradient.dtype == torch.float32
        assert torch.equal(x, before)
        for one in fields(made):
            if one.name not in ("scale", "of"):  # which take the contexts' dtype
                assert getattr(bound, one.name) == getattr(made, one.name), one.name

    def test_it_is_registered_and_says_how_it_measures(self) -> None:
        made = self.proximity()
        assert registry.proximities.name_of(type(made)) is not None
        assert isinstance(made.words, str)
