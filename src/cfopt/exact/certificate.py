"""Proofs that no nearer explanation exists, or none at all, in a form that can be re-checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import numpy as np

from cfopt._rows import row_keys, stacked
from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.engine.rules import Rules
from cfopt.engine.task import Task
from cfopt.exact.exact_task import ExactTask
from cfopt.exact.inequalities import Inequalities
from cfopt.question.quantifier import Quantifier

if TYPE_CHECKING:
    from cfopt.exact.tree_task import TreeTask


@dataclass(frozen=True)
class Cut:
    """Inequalities that hold wherever the criterion does.

    Arguments:
        decision: the feasible decision that they are about, or a direction of recession, `(m,)`.
        quantifier: the role in which the decision enters.
        ray: whether it is a direction in which feasible decisions go on without end.
    """

    decision: Array
    quantifier: Quantifier
    ray: bool = False

    @cached_property
    def key(self) -> tuple[Quantifier, bytes]:
        """What distinguishes it from other cuts."""
        return self.quantifier, row_keys(self.decision[None])[0]

    @classmethod
    def of_each(cls, decisions: Array, quantifier: Quantifier) -> list[Cut]:
        """A cut of each decision, `(K, m)`, with their keys, which cost less all at once."""
        cuts = []
        for decision, key in zip(decisions, row_keys(decisions), strict=True):
            cut = cls.__new__(cls)  # past the frozen fields, which take as long as all else
            vars(cut).update(decision=decision, quantifier=quantifier, ray=False)
            vars(cut)["key"] = quantifier, key
            cuts.append(cut)
        return cuts

    def directions(self, model: ExactTask, row: int) -> Array:
        """The d of all its `<prices, d> <= 0`: `(C, m)`."""
        if self.ray:
            return model.ray_directions(self.decision[None])
        return model.directions(row, self.quantifier, self.decision[None])

    def belongs(self, model: Inequalities | TreeTask, row: int, some: Array | None = None) -> bool:
        """Whether the criterion implies the cut, if its decision is feasible.

        `some` is the decision that is enough, where the cut may be about that one.
        """
        rules = model.rules
        if self.ray:
            return rules.problem.recedes(self.decision)
        if self.quantifier is Quantifier.GIVEN:
            return np.array_equal(self.decision, rules.factual[row].numpy())
        if self.quantifier is Quantifier.SOME:
            return some is not None and np.array_equal(self.decision, some)
        # With a margin, the alternative need not win against itself.
        own = rules.pivot[row].numpy()
        contrast = rules.criterion.contrasts and rules.margin > 0
        return not (contrast and np.array_equal(self.decision, own))


def cut_directions(cuts: Sequence[Cut], model: ExactTask, row: int) -> Array:
    """The d of all `<prices, d> <= 0` of some cuts, in their order: `(C, m)`."""
    directions = [
        model.ray_directions(decisions) if ray else model.directions(row, quantifier, decisions)
        for ray, quantifier, decisions in groups(cuts)
    ]
    return directions[0] if len(directions) == 1 else np.concatenate(directions)


def cut_leads(cuts: Sequence[Cut], model: ExactTask, row: int) -> Array:
    """How far below 0 each of `cut_directions` must at least be, `(C,)`."""
    leads = [
        np.zeros(len(model.ray_directions(decisions)))
        if ray
        else model.lead(row, quantifier, decisions)
        for ray, quantifier, decisions in groups(cuts)
    ]
    return np.concatenate([np.empty(0), *leads])


def groups(cuts: Sequence[Cut]) -> Iterator[tuple[bool, Quantifier, Array]]:
    """Cuts of one kind in a row: whether they are rays, their quantifier, and `(K, m)`."""
    for (ray, quantifier), some in groupby(cuts, lambda cut: (cut.ray, cut.quantifier)):
        yield ray, quantifier, stacked([cut.decision for cut in some])


@dataclass(frozen=True)
class Clash:
    """Why a row has no explanation.

    Arguments:
        decisions: the decisions that the plan cannot beat at once, `(K, m)`.
        limits: the limits on x that are involved, in words.
        locked: the features that cannot change and are involved: unlocking them could help.
        radius: the distance of x0 within which it is proved, in units of the features' scales.
        why: why one decision alone is enough, to follow its name; or "".
    """

    decisions: Array
    limits: tuple[str, ...]
    locked: tuple[str, ...]
    radius: float
    why: str = ""


class HasRules(Protocol):
    """What every form of a task has."""

    rules: Rules


#: A task as inequalities on a row's change, or on its cells.
M = TypeVar("M", bound=HasRules)


class Certificate(ABC, Generic[M]):
    """What can be proved about the explanations of one row, of a task in the form M."""

    @property
    @abstractmethod
    def infeasible(self) -> bool:
        """Whether it is said to prove that there is none."""

    @classmethod
    @abstractmethod
    def model(cls, task: Task) -> M | None:
        """The task in the form that the proof is about; None if it has not got it."""

    @abstractmethod
    def bound(self, model: M, row: int) -> float:
        """The least loss of any explanation, computed again; inf if there is none."""

    @classmethod
    def bounds(cls, model: M, proofs: Mapping[int, Self]) -> dict[int, float]:
        """The bounds of several rows by their numbers; some kinds of proofs share the work.

        As many as there is time for.
        """
        deadline = model.rules.problem.deadline
        in_time = takewhile(lambda _: not is_over(deadline), proofs.items())
        return {row: proof.bound(model, row) for row, proof in in_time}

    @abstractmethod
    def decisions(self) -> list[Array]:
        """The decisions that must be feasible for the proof to hold, `(m,)` each."""

    @abstractmethod
    def clash(self, model: M, row: int) -> Clash:
        """What contradicts each other, where the bound is infinite."""
