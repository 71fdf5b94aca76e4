"""The three questions: when would another decision have won, and what would topple this one?

All formulas are in minimisation form; the task turns a maximiser's sign before it asks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from cfopt.errors import InputError
from cfopt.problems.base import Problem, same_decision
from cfopt.types import Quantifier


class Criterion(ABC):
    """What makes a context an explanation: `h(x) = <prices(x), direction> <= 0`."""

    #: Whether the direction depends on the optimum, so that each step of a search needs a solve.
    needs_optimum: ClassVar[bool] = True
    #: Whether the criterion argues for an alternative decision.
    contrasts: ClassVar[bool] = False

    @abstractmethod
    def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
        """The d of h, piecewise constant in the prices: three times `(B, m) -> (B, m)`."""

    @property
    def multiples(self) -> Mapping[Quantifier, tuple[float, ...]]:
        """The criterion as linear inequalities `<prices, a y + anchor> <= 0`.

        The multiples a for each quantifier of y. Exact searches work on these; a criterion without
        them has none.
        """
        return {}

    def bind(self, count: int, factual: Tensor) -> Self:
        """The criterion for `count` rows, its tensors on the device and in the dtype of `factual`.

        An alternative that is the factual decision up to the solver's tolerance becomes it.
        """
        return self

    def __getitem__(self, rows: Tensor) -> Self:
        """The criterion of some rows."""
        return self

    def faults(self, problem: Problem, factual: Tensor, margin: float) -> list[str]:
        """For each row why its alternative cannot be argued for, or ""."""
        return []

    def pivot(self, factual: Tensor) -> Tensor:
        """The decision whose value sets the unit of a margin: `(B, m) -> (B, m)`."""
        return factual

    def anchor(self, factual: Tensor) -> Tensor:
        """What the inequalities' multiples of y are added to: `(B, m) -> (B, m)`."""
        return -factual


@dataclass(frozen=True, eq=False)
class _Contrastive(Criterion):
    """A criterion about an alternative decision.

    Arguments:
        alternative: the decision to argue for, one for each row `(B, m)` or one for all `(m,)`.
    """

    alternative: Tensor | Any
    contrasts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given = self.alternative
        try:
            tensor = (
                given.detach() if isinstance(given, Tensor) else torch.from_numpy(np.array(given))
            )
            if tensor.is_complex() or tensor.ndim not in (1, 2):
                raise TypeError
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{type(self).__name__} needs decisions of shape (rows, columns) or (columns,), "
                f"got {_describe(given)}."
            ) from error
        object.__setattr__(self, "alternative", tensor.clone())

    def bind(self, count: int, factual: Tensor) -> Self:
        alternative = self.alternative
        if alternative.ndim == 1:
            alternative = alternative.expand(count, -1)
        if alternative.shape != factual.shape:
            raise InputError(
                f"{type(self).__name__} needs one alternative for each of the {count} contexts, "
                f"shape {tuple(factual.shape)}, or one for all; got {tuple(alternative.shape)}."
            )
        alternative = alternative.to(factual.device, factual.dtype)
        same = same_decision(alternative, factual)[:, None]
        return type(self)(torch.where(same, factual, alternative))

    def __getitem__(self, rows: Tensor) -> Self:
        return type(self)(self.alternative[rows])

    def faults(self, problem: Problem, factual: Tensor, margin: float) -> list[str]:
        need = f"{type(self).__name__} needs a feasible alternative; this one "
        remedy = ". Pass a decision that the problem can return"
        faults = problem.explain_faults(self.alternative)
        return [need + fault + remedy if fault else "" for fault in faults]

    def pivot(self, factual: Tensor) -> Tensor:
        return self.alternative

    def anchor(self, factual: Tensor) -> Tensor:
        return self.alternative


class Relative(_Contrastive):
    """When would my plan have beaten yours? `<theta, y_alt> <= <theta, y0>` (Definition 2.1)."""

    needs_optimum = False

    @property
    def multiples(self) -> Mapping[Quantifier, tuple[float, ...]]:
        """`y_alt - y` for the factual y."""
        return {Quantifier.GIVEN: (-1.0,)}

    def faults(self, problem: Problem, factual: Tensor, margin: float) -> list[str]:
        """As ever; and a decision cannot beat itself by a margin."""
        faults = super().faults(problem, factual, margin)
        if margin == 0:
            return faults
        own = "With a margin, the alternative needs to differ from the factual decision"
        same = same_decision(self.alternative, factual).tolist()
        return [fault or (own if equal else "") for fault, equal in zip(faults, same, strict=True)]

    def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
        """`y_alt - y0`."""
        return self.alternative - factual


class Absolute(_Contrastive):
    """When would my plan have been the best of all? `<theta, y_alt> <= v` (Definition 2.2)."""

    @property
    def multiples(self) -> Mapping[Quantifier, tuple[float, ...]]:
        """`y_alt - y` for every y."""
        return {Quantifier.EVERY: (-1.0,)}

    def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
        """`y_alt - y*`."""
        return self.alternative - optimum


@dataclass(frozen=True)
class Epsilon(Criterion):
    """What would make this plan clearly wrong? `v + eps |v| <= <theta, y0>` (Definition 2.3).

    Where v = 0 this holds for any eps, even if the plan is still optimal: the result says so.

    Arguments:
        epsilon: the relative regret that the factual decision must have, > 0.
    """

    epsilon: float

    def __post_init__(self) -> None:
        value = self.epsilon
        if not isinstance(value, Real) or not (value > 0 and math.isfinite(value)):
            raise InputError(
                f"Epsilon needs a finite number > 0, the relative regret asked for; got {value!r}."
            )
        object.__setattr__(self, "epsilon", float(value))

    @property
    def multiples(self) -> Mapping[Quantifier, tuple[float, ...]]:
        """`v + eps |v| <= a` is `(1 + eps) v <= a` and `(1 - eps) v <= a`, with `a = <theta, y0>`.

        A multiple >= 0 of the minimum is reached by some y; a negative one bounds every y.
        """
        more, less = 1 + self.epsilon, 1 - self.epsilon
        if less >= 0:
            return {Quantifier.SOME: (more, less)}
        return {Quantifier.SOME: (more,), Quantifier.EVERY: (less,)}

    def direction(self, prices: Tensor, optimum: Tensor, factual: Tensor) -> Tensor:
        """`(1 + sign(v) eps) y* - y0`."""
        sign = (prices * optimum).sum(1, keepdim=True).sign()
        return (1 + self.epsilon * sign) * optimum - factual


def _describe(given: Any) -> str:
    shape = getattr(given, "shape", None)
    return f"{type(given).__name__}" + (f" of shape {tuple(shape)}" if shape is not None else "")
