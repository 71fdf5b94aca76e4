"""How far a context is from the factual one: what an explanation keeps small."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.question.scales import check_scale

#: A change that is as good as none.
_SMALL = 1e-3


@dataclass(frozen=True)
class Proximity(ABC):
    """A distance between contexts, with its gradient.

    Arguments:
        scale: the unit in which each feature's change counts, > 0; 1 by default.
    """

    #: k where the distance is `sum_j |c_j|^k` of the scaled change c; None if it has another form.
    power: ClassVar[int | None] = None
    #: Whether codes are compared instead of contexts.
    between_codes: ClassVar[bool] = False

    scale: Tensor | Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.scale is not None:
            scale = torch.as_tensor(self.scale, dtype=torch.float64)
            check_scale(scale)
            object.__setattr__(self, "scale", scale)

    def bind(self, contexts: Tensor) -> Self:
        """This proximity with its scale on the contexts' device and in their dtype."""
        if self.scale is None:
            return self
        scale = torch.as_tensor(self.scale)
        if scale.shape != contexts.shape[1:]:
            raise InputError(
                f"The contexts have shape {tuple(contexts.shape[1:])}, but the proximity's scales "
                f"have {tuple(scale.shape)}."
            )
        bound = replace(self)
        object.__setattr__(bound, "scale", scale.to(contexts.device, contexts.dtype))
        return bound

    @property
    def words(self) -> str:
        """How it measures, to follow "measured"; "" for the distance that everyone expects."""
        return f"by {type(self).__name__}"

    def __call__(self, x: Tensor, origin: Tensor) -> Tensor:
        """The distance of each row: `(B, ...), (B, ...) -> (B,)`."""
        return self.evaluate(x, origin)[0]

    @abstractmethod
    def evaluate(self, x: Tensor, origin: Tensor) -> tuple[Tensor, Tensor]:
        """The distance of each row, `(B,)`, and its gradient with respect to x, `(B, ...)`."""

    def length(self, value: Tensor) -> Tensor:
        """The distance at which the proximity takes a value, a norm where it has one: `(B,)`."""
        return value

    @property
    def measure(self) -> Proximity:
        """What is applied to contexts, or to codes."""
        return self

    def curvature(self, x: Tensor, origin: Tensor) -> Tensor:
        """Of a parabola that touches the distance from above: `(B, ...) -> (B, ...)`.

        One second derivative for each feature; needed where `power` is given.
        """
        raise NotImplementedError(f"{type(self).__name__} has no curvature.")

    def units(self, size: int) -> Array:
        """The scale of each of `size` features, on the host: `(p,)`."""
        if self.scale is None:
            return np.ones(size)
        scale: Array = torch.as_tensor(self.scale).flatten().double().cpu().numpy()
        return scale

    def _change(self, x: Tensor, origin: Tensor) -> Tensor:
        return x - origin if self.scale is None else (x - origin) / cast(Tensor, self.scale)

    def _unscaled(self, gradient: Tensor) -> Tensor:
        return gradient if self.scale is None else gradient / cast(Tensor, self.scale)


@registry.proximities.register
@dataclass(frozen=True)
class L2(Proximity):
    """The squared Euclidean distance, `|(x - x0) / scale|^2`: the paper's choice."""

    power = 2

    @property
    def words(self) -> str:
        return ""

    def evaluate(self, x: Tensor, origin: Tensor) -> tuple[Tensor, Tensor]:
        """`|c|^2` and `2 c / scale` of the scaled change c."""
        change = self._change(x, origin)
        return change.square().flatten(1).sum(1), self._unscaled(2 * change)

    def __call__(self, x: Tensor, origin: Tensor) -> Tensor:
        """`|c|^2` alone."""
        return self._change(x, origin).square().flatten(1).sum(1)

    def length(self, value: Tensor) -> Tensor:
        """`|c|`."""
        return value.sqrt()

    def curvature(self, x: Tensor, origin: Tensor) -> Tensor:
        """`2 / scale^2`."""
        return self._unscaled(self._unscaled(torch.full_like(x, 2.0)))


@registry.proximities.register
@dataclass(frozen=True)
class Latent(Proximity):
    """The distance between codes instead of contexts (Section 4.1), for latent searches.

    For contexts whose own distances mean little.

    Arguments:
        of: how to measure, such as `L2()`.
    """

    between_codes = True

    scale: None = field(default=None, init=False, repr=False)
    of: Proximity = field(default_factory=lambda: L2())

    def __post_init__(self) -> None:
        if not isinstance(self.of, L2 | L1):
            raise InputError(f"Latent needs a proximity such as L2(), got {self.of!r:.80}.")

    @property
    def measure(self) -> Proximity:
        return self.of

    @property
    def words(self) -> str:
        return "between codes" + (f", {self.of.words}" if self.of.words else "")

    def bind(self, contexts: Tensor) -> Self:
        """This proximity with its scale on the codes' device and in their dtype."""
        return replace(self, of=self.of.bind(contexts))

    def evaluate(self, x: Tensor, origin: Tensor) -> tuple[Tensor, Tensor]:
        return self.of.evaluate(x, origin)

    def length(self, value: Tensor) -> Tensor:
        return self.of.length(value)


@registry.proximities.register
@dataclass(frozen=True)
class L1(Proximity):
    """The sum of absolute changes, `|(x - x0) / scale|_1`."""

    power = 1

    @property
    def words(self) -> str:
        return "by L1, the sum of all changes"

    def evaluate(self, x: Tensor, origin: Tensor) -> tuple[Tensor, Tensor]:
        """`|c|_1` and `sign(c) / scale` of the scaled change c."""
        change = self._change(x, origin)
        return change.abs().flatten(1).sum(1), self._unscaled(change.sign())

    def curvature(self, x: Tensor, origin: Tensor) -> Tensor:
        """`1 / (|c| scale^2)`, that of the parabola `c'^2 / (2 |c|) + |c| / 2` through c.

        A little is added to |c| where the parabola would be steep.
        """
        size = self._change(x, origin).abs()
        mean = size.flatten(1).mean(1).view(-1, *[1] * (x.ndim - 1))
        return self._unscaled(self._unscaled(1 / (size + 0.1 * mean + _SMALL)))


@registry.proximities.register
@dataclass(frozen=True)
class LInf(Proximity):
    """The largest change of any feature, `max_j |(x_j - x0_j) / scale_j|`."""

    @property
    def words(self) -> str:
        return "by LInf, the largest change of any feature"

    def evaluate(self, x: Tensor, origin: Tensor) -> tuple[Tensor, Tensor]:
        """`max |c_j|` of the scaled change c, and the sign of that entry over its scale."""
        change = self._change(x, origin)
        flat = change.flatten(1)
        largest, entry = flat.abs().max(1)
        slope = torch.zeros_like(flat).scatter(
            1, entry[:, None], flat.gather(1, entry[:, None]).sign()
        )
        return largest, self._unscaled(slope.view_as(change))
