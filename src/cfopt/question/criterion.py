"""What a criterion is: an inequality in the costs.

All formulas are in minimisation form; the task turns a maximiser's sign before it asks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch
from cfopt.errors import InputError
from cfopt.problems.base import Problem
from cfopt.problems.foil import Foil
from cfopt.problems.solved import Solved, same_decision
from cfopt.question.quantifier import Quantifier
from cfopt.question.words import Words


@dataclass(frozen=True)
class Slider:
    """A fraction that a user chooses, as a slider in percent: "at least 30% off the best".

    Arguments:
        name: the field of the criterion.
        before, after: the words around the number.
        low, high, step, usual: its range, the steps in it and where it begins, in percent.
    """

    name: str
    before: str
    after: str
    low: float = 5
    high: float = 100
    step: float = 5
    usual: float = 30


@dataclass(frozen=True, eq=False)
class Criterion(Words, Batch, ABC):
    """What makes a context an explanation: `h(x) = <prices(x), direction> <= 0`.

    A criterion is a frozen dataclass in a file of its own. It needs a direction; the words, which
    state the formula unless they are overridden, should say what the formula means. Its fields are
    what a configuration and a request over HTTP can set, and what JSON keeps.
    """

    #: Whether the direction depends on the optimum, so that each step of a search needs a solve.
    needs_optimum: ClassVar[bool] = True
    #: Whether the factual decision must no longer be among the best: another one must win by more
    #: than rounding.
    unseats: ClassVar[bool] = False
    #: Whether the criterion argues for an alternative decision.
    contrasts: ClassVar[bool] = False
    #: The fields that the explorer shows as sliders.
    sliders: ClassVar[tuple[Slider, ...]] = ()

    # The mathematics.

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

    def asked_of(self, problem: Problem) -> Self:
        """The criterion in the words of a problem; InputError if these do not fit."""
        return self

    def check(self, problem: Problem, margin: float) -> None:
        """Raise InputError if the question cannot be asked of any row of this problem."""

    def faults(self, problem: Problem, factual: Tensor, margin: float) -> list[str]:
        """For each row why its alternative cannot be argued for, or ""."""
        return []

    def pivot(self, factual: Tensor) -> Tensor:
        """The decision whose value sets the unit of a margin: `(B, m) -> (B, m)`."""
        return factual

    def anchor(self, factual: Tensor) -> Tensor:
        """What the inequalities' multiples of y are added to: `(B, m) -> (B, m)`."""
        return -factual

    def rival(self, problem: Problem, prices: Tensor, solved: Solved, margin: float) -> Solved:
        """The decision that h is measured against, where the optimum is not: `(B, m) -> Solved`.

        Prices are turned so that less is better; `solved` is the optimum.
        """
        return solved

    def ties(
        self,
        problem: Problem,
        prices: Tensor,
        optimum: Tensor,
        factual: Tensor,
        tolerance: float,
    ) -> Tensor:
        """Whether rows that are valid are so by equality only: three times `(B, m) -> (B,)`.

        Both sides of the criterion, margin apart, are level.
        """
        terms = prices * self.direction(prices, optimum, factual)
        return terms.sum(1).abs() <= tolerance * terms.abs().sum(1)

    # How it is written down.

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """The fields that are not of a row: what the configuration, HTTP and JSON can set."""
        return tuple(one.name for one in fields(cls) if one.name not in cls.row_fields())

    def row_values(self) -> dict[str, Tensor]:
        """The fields that have an entry for each row, but for one that is shared by all."""
        values = {name: getattr(self, name) for name in self.row_fields()}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    @classmethod
    def of(cls, settings: Mapping[str, Any], alternative: Tensor | Foil | None) -> Self:
        """The criterion from values of its fields, and what to argue for if it contrasts."""
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Kind and settings as plain values; fields of rows are written with their rows."""
        values = {name: getattr(self, name) for name in self.settings()}
        settings = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in values.items()
        }
        return {"kind": self.kind().lower()} | settings


@dataclass(frozen=True, eq=False)
class Contrastive(Criterion):
    """A criterion about an alternative decision, or about any that grants a wish.

    For a wish it must hold of some decision of the foil, at any prices its best one: the task works
    with that one in its place.

    Arguments:
        alternative: the decision to argue for, one for each row `(B, m)` or one for all `(m,)`; or
            a foil such as `Uses("Main Street")`.
    """

    alternative: Tensor | Any = field(metadata=ROWS)
    contrasts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given = self.alternative
        if isinstance(given, Foil):
            return
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

    @property
    def foil(self) -> Foil | None:
        """The wish, if it leaves the decision open."""
        return self.alternative if isinstance(self.alternative, Foil) else None

    @property
    def subject(self) -> str:
        """What is argued for, in sentences."""
        foil = self.foil
        return "the alternative" if foil is None else f"a {foil.noun} {foil.phrase}"

    def about(self, alternative: Tensor | Foil) -> Self:
        """The same, about another decision or wish."""
        return replace(self, alternative=alternative)

    def asked_of(self, problem: Problem) -> Self:
        return self if self.foil is None else self.about(self.foil.on(problem))

    def bind(self, count: int, factual: Tensor) -> Self:
        if self.foil is not None:
            return self
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
        return replace(self, alternative=torch.where(same, factual, alternative))

    def __getitem__(self, rows: Tensor) -> Self:
        return self if self._shared else super().__getitem__(rows)

    def split(self, counts: Sequence[int]) -> list[Self]:
        return [self] * len(counts) if self._shared else super().split(counts)

    @property
    def _shared(self) -> bool:
        # One decision or wish for all rows is that of some of them too.
        return self.foil is not None or self.alternative.ndim == 1

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        return parts[0] if parts[0].foil is not None else super().concat(parts)

    def check(self, problem: Problem, margin: float) -> None:
        """Of a wish the cheapest plan must be the one that wins by the margin, if any does."""
        if self.foil is not None and margin >= 1:
            raise InputError(f"A wish needs a margin below 1, got {margin!r}.")

    def faults(self, problem: Problem, factual: Tensor, margin: float) -> list[str]:
        if self.foil is not None:
            return []
        need = f"{type(self).__name__} needs a feasible alternative; this one "
        remedy = ". Pass a decision that the problem can return"
        faults = problem.explain_faults(self.alternative)
        return [need + fault + remedy if fault else "" for fault in faults]

    def pivot(self, factual: Tensor) -> Tensor:
        return self.alternative

    def anchor(self, factual: Tensor) -> Tensor:
        return self.alternative

    def to_dict(self) -> dict[str, Any]:
        """With the wish, where there is one."""
        wish = {} if self.foil is None else {"wish": self.foil.to_dict()}
        return super().to_dict() | wish

    @classmethod
    def of(cls, settings: Mapping[str, Any], alternative: Tensor | Foil | None) -> Self:
        return cls(alternative, **settings)


def _describe(given: Any) -> str:
    shape = getattr(given, "shape", None)
    return f"{type(given).__name__}" + (f" of shape {tuple(shape)}" if shape is not None else "")
