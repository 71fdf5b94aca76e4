"""What a wish that leaves a plan open is: a set of decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cfopt.names import join_words
from cfopt.problems.conditions import Conditions
from cfopt.problems.decision_space import DecisionSpace

#: An entry of a decision, by its name or its number; a place of a network counts as one, too.
EntryName: TypeAlias = str | int


class Foil(ABC):
    """A set of decisions, by what they have in common; `&` joins two wishes into one."""

    @property
    def parts(self) -> tuple[Foil, ...]:
        """The single wishes that it is made of."""
        return (self,)

    def __and__(self, other: Foil) -> Foil:
        if not isinstance(other, Foil):
            return NotImplemented
        return AllOf((*self.parts, *other.parts))

    @abstractmethod
    def conditions(self, space: DecisionSpace) -> Conditions:
        """The wish as linear conditions on the decisions of a problem."""

    def on(self, space: DecisionSpace) -> AllOf:
        """The same in the words of a problem: the names of entries, and whether there are routes.

        Wishes of one kind become one. InputError if the problem does not know an entry.
        """
        from cfopt.problems.foil_text import foil_of

        self.conditions(space)
        parts = tuple(part.named(space.cached_scene.names) for part in self.parts)
        return AllOf(foil_of(AllOf(parts).to_dict()).parts, space.cached_scene.routes)

    @abstractmethod
    def named(self, names: Sequence[str]) -> Foil:
        """The same with names in place of numbers."""

    @abstractmethod
    def said(self, routes: bool) -> str:
        """The wish in words, to follow a noun: "through Main Street", "with item 3".

        Arguments:
            routes: whether decisions are ways through places.
        """

    @property
    def noun(self) -> str:
        """What a decision is called."""
        return "decision"

    @property
    def phrase(self) -> str:
        """The wish in words, as far as it knows by itself what decisions are."""
        return self.said(self.noun == "route")

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The wish as plain values, as a configuration and JSON have them."""


@dataclass(frozen=True)
class AllOf(Foil):
    """Several wishes at once.

    Arguments:
        wishes: those that must all be met.
        routes: whether decisions are known to be ways through places.
    """

    wishes: tuple[Foil, ...]
    routes: bool = False

    @property
    def parts(self) -> tuple[Foil, ...]:
        return self.wishes

    def conditions(self, space: DecisionSpace) -> Conditions:
        return Conditions.join([wish.conditions(space) for wish in self.wishes])

    def named(self, names: Sequence[str]) -> AllOf:
        return AllOf(tuple(wish.named(names) for wish in self.wishes), self.routes)

    def said(self, routes: bool) -> str:
        return join_words([wish.said(routes) for wish in self.wishes])

    @property
    def noun(self) -> str:
        return "route" if self.routes else "decision"

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {"routes": True} if self.routes else {}
        for wish in self.wishes:
            for key, values in wish.to_dict().items():
                content[key] = [*content.get(key, []), *values]
        return content
