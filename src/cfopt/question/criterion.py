"""What a criterion is: an inequality in the costs, and everything that is said about it.

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

from cfopt import registry
from cfopt._batch import ROWS, Batch
from cfopt.errors import InputError
from cfopt.problems.base import Problem, Solved, same_decision
from cfopt.problems.sense import Sense
from cfopt.question.quantifier import Quantifier


@dataclass(frozen=True)
class Knob:
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


@dataclass(frozen=True)
class RowFacts:
    """One row of an explanation, as sentences about it need to know it.

    Arguments:
        decided, wanted: what the factual decision and the one compared with it are called.
        noun: what a decision is called, such as "route".
        margin: the fraction by which the criterion must hold.
        known: whether the factual decision is known.
        same: whether the two decisions are the same.
        unmoved: whether the decision in the answer is still the factual one.
        settled: whether nothing needs to change.
        level: whether the two are equally good in the answer.
        tie: whether the answer is valid by equality only.
        elsewhere: whether the decision in the answer is neither of the two.
        worthless: whether the decision in the answer has the value 0, or an unknown one.
    """

    decided: str
    wanted: str
    noun: str
    margin: float
    known: bool
    same: bool
    unmoved: bool
    settled: bool
    level: bool
    tie: bool
    elsewhere: bool
    worthless: bool

    @property
    def it(self) -> str:
        """The pronoun of the alternative."""
        return "it" if self.noun == "route" else "this"

    @property
    def by(self) -> str:
        """The margin in words, to follow a verb."""
        return f" by a margin of {100 * self.margin:g}%" if self.margin > 0 else ""

    @property
    def beat(self) -> str:
        """To win, with the margin if there is one."""
        return "win by the margin against" if self.margin > 0 else "beat"


@dataclass(frozen=True, eq=False)
class Criterion(Batch, ABC):
    """What makes a context an explanation: `h(x) = <prices(x), direction> <= 0`.

    A criterion is a frozen dataclass in a file of its own. It needs a direction; the words, which
    state the formula unless they are overridden, should say what the formula means. Its fields are
    what a configuration and a request over HTTP can set, and what JSON keeps.
    """

    #: The inequality, for sentences; y0 is the factual decision, v the best value.
    formula: ClassVar[str] = "h(x) <= 0"
    #: Whether the direction depends on the optimum, so that each step of a search needs a solve.
    needs_optimum: ClassVar[bool] = True
    #: Whether the criterion argues for an alternative decision.
    contrasts: ClassVar[bool] = False
    #: The fields that the explorer shows as sliders.
    knobs: ClassVar[tuple[Knob, ...]] = ()

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

        Arguments:
            problem: the problem, for further solves.
            prices: turned so that less is better, `(B, m)`.
            solved: the optimum.
            margin: the fraction by which the criterion must hold.
        """
        return solved

    def ties(self, prices: Tensor, optimum: Tensor, factual: Tensor, tolerance: float) -> Tensor:
        """Whether rows that are valid are so by equality only: three times `(B, m) -> (B,)`.

        Both sides of the criterion, margin apart, are level.
        """
        terms = prices * self.direction(prices, optimum, factual)
        return terms.sum(1).abs() <= tolerance * terms.abs().sum(1)

    # What it is called, and how it is written down.

    @classmethod
    def kind(cls) -> str:
        """The name by which the configuration, the explorer and JSON know it."""
        return registry.criteria.name_of(cls) or cls.__name__

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """The fields that are not of a row: what the configuration, HTTP and JSON can set."""
        return tuple(one.name for one in fields(cls) if one.name not in cls.row_fields())

    @classmethod
    def of(cls, settings: Mapping[str, Any], alternative: Tensor | None) -> Self:
        """The criterion from plain values, as a configuration or a request has them.

        Arguments:
            settings: values of its fields.
            alternative: the decisions to argue for, if the criterion contrasts.
        """
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Kind and settings as plain values; fields of rows are written with their rows."""
        values = {name: getattr(self, name) for name in self.settings()}
        settings = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in values.items()
        }
        return {"kind": self.kind().lower()} | settings

    @staticmethod
    def from_dict(content: Mapping[str, Any], rows: Mapping[str, Tensor]) -> Criterion:
        """The criterion that `to_dict` described.

        Arguments:
            content: its kind and settings.
            rows: its fields of rows, each `(B, ...)`; others are ignored.
        """
        kind = registry.criteria.find(content["kind"])
        own = {name: rows[name] for name in kind.row_fields()}
        criterion: Criterion = kind(**own, **{name: content[name] for name in kind.settings()})
        return criterion

    # In words: of all rows, of an outcome, and of one row whose decisions have names.

    @classmethod
    def choice(cls, noun: str) -> tuple[str, str]:
        """The question in the words of someone who has a plan, and what an answer would mean.

        Arguments:
            noun: what a decision is called.
        """
        return f"When does {cls.formula} hold?", f"A criterion of kind {cls.kind()}."

    def ask(self) -> str:
        """The question."""
        return f"When does {self.formula} hold?"

    def answer(self, tie: bool, unbeaten: bool) -> str:
        """What holds in a valid context.

        Arguments:
            tie: whether it holds by equality only.
            unbeaten: whether the factual decision is still among the best.
        """
        return f"in this context {self.formula} holds{', as an equality' if tie else ''}"

    def miss(self, violation: float, sense: Sense) -> str:
        """What a context lacks in which it does not hold, in the units of the objective."""
        return f"h is still {violation:.3g} above 0 (the criterion is {self.formula})"

    def conflict(self, where: str, rivals: Sequence[str], margin: float) -> str:
        """Why no context will do.

        Arguments:
            where: "no context" or "no allowed context".
            rivals: the decisions whose cuts contradict each other, described.
            margin: the fraction by which the criterion must hold.
        """
        return f"in {where} does {self.formula} hold"

    def ask_about(self, row: RowFacts) -> str:
        """The question about one row."""
        return f"When does {self.formula} hold{row.by}?"

    def success(self, row: RowFacts) -> str:
        """What holds in the answer of a row; "" to have the plain answer instead."""
        return ""

    def failure(self, row: RowFacts) -> str:
        """What no context does, to follow "No context"."""
        return f"makes {self.formula} hold{row.by}"

    def edge(self, row: RowFacts) -> str:
        """What is said of an answer that is valid by equality only; "" for others."""
        return "Both sides of the criterion are equal there." if row.tie else ""

    def obstacle(self, row: RowFacts, rivals: Sequence[str]) -> str:
        """What stands in the way of a row that has no answer, a sentence.

        Arguments:
            row: what is known of the row.
            rivals: the names of the decisions whose cuts contradict each other.
        """
        return "Each decision that could do it was ruled out in turn."

    def third_role(self, tie: bool) -> str:
        """What a decision in the answer that is neither of the two is to them."""
        return "chosen after"


@dataclass(frozen=True, eq=False)
class Contrastive(Criterion):
    """A criterion about an alternative decision.

    Arguments:
        alternative: the decision to argue for, one for each row `(B, m)` or one for all `(m,)`.
    """

    alternative: Tensor | Any = field(metadata=ROWS)
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
        return replace(self, alternative=torch.where(same, factual, alternative))

    def __getitem__(self, rows: Tensor) -> Self:
        # One decision for all rows is that of some of them too.
        return self if self.alternative.ndim == 1 else super().__getitem__(rows)

    def faults(self, problem: Problem, factual: Tensor, margin: float) -> list[str]:
        need = f"{type(self).__name__} needs a feasible alternative; this one "
        remedy = ". Pass a decision that the problem can return"
        faults = problem.explain_faults(self.alternative)
        return [need + fault + remedy if fault else "" for fault in faults]

    def pivot(self, factual: Tensor) -> Tensor:
        return self.alternative

    def anchor(self, factual: Tensor) -> Tensor:
        return self.alternative

    @classmethod
    def of(cls, settings: Mapping[str, Any], alternative: Tensor | None) -> Self:
        return cls(alternative, **settings)


def lags(violation: float, sense: Sense) -> str:
    """By how much an alternative is worse, to be followed by "than" and another."""
    if sense is Sense.MIN:
        return f"costs {violation:.3g} more"
    return f"is worth {violation:.3g} less"


def _describe(given: Any) -> str:
    shape = getattr(given, "shape", None)
    return f"{type(given).__name__}" + (f" of shape {tuple(shape)}" if shape is not None else "")
