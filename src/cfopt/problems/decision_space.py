"""What a decision is: how many entries it has, what they may be, are called and look like."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.names import nearest
from cfopt.problems.scene import Bars, Entry, Scene, entries

#: How many entries of a decision a message shows.
_SHOWN = 12


class DecisionSpace:
    """The entries of a decision, one for each priced column."""

    num_costs: int
    #: Whether every decision is known to be 0 or 1 in every column.
    binary: bool = False
    _decision_names: tuple[str, ...] | None = None

    @property
    def num_columns(self) -> int:
        """The length of a decision; more than `num_costs` where some prices are fixed."""
        return self.num_costs

    @property
    def decision_names(self) -> tuple[str, ...] | None:
        """What each entry of a decision is called; None where it is known only by its number."""
        return self._decision_names

    @property
    def cost_names(self) -> tuple[str, ...] | None:
        """What predicted costs are called, where each belongs to one entry of a decision."""
        return self.decision_names if self.num_costs == self.num_columns else None

    def named(self, names: Sequence[str]) -> Self:
        """The same problem with a name for each entry of a decision, all different."""
        given = tuple(map(str, names))
        if isinstance(names, str) or len(given) != self.num_columns or len(set(given)) < len(given):
            raise InputError(
                f"{type(self).__name__} needs {self.num_columns} different names, one for each "
                f"entry of a decision; got {names!r:.80}."
            )
        other = copy(self)
        other._decision_names = given
        other.__dict__.pop("cached_scene", None)
        return other

    def column_bounds(self) -> tuple[Array, Array]:
        """The least and the greatest value that each entry of a decision may take, each `(m,)`."""
        if self.binary:
            return np.zeros(self.num_columns), np.ones(self.num_columns)
        return np.full(self.num_columns, -np.inf), np.full(self.num_columns, np.inf)

    def integer_columns(self) -> NDArray[np.bool_]:
        """Which entries of a decision are known to be whole numbers: `(m,)`."""
        return np.full(self.num_columns, self.binary)

    def scene(self) -> Scene:
        """What decisions look like and are called, for every picture and sentence: by default bars.

        `Network` draws places and arcs, `Cells` a map, `Items` what is chosen or left.
        """
        return Bars(entries=self.entries())

    @cached_property
    def cached_scene(self) -> Scene:
        """The scene, made once."""
        return self.scene()

    def entries(self, names: Sequence[str] | None = None) -> tuple[Entry, ...]:
        """The entries of a decision; without names `decision_names`, or y0, y1 and so on."""
        called = names or self.decision_names or [f"y{j}" for j in range(self.num_columns)]
        return entries(called, *self.column_bounds(), self.integer_columns())

    def columns_of(self, entry: str | int, touching: bool = False) -> tuple[int, ...]:
        """The columns of an entry, by its name or number; of a place, all that lead there.

        Arguments:
            touching: whether those that leave a place are meant as well.
        """
        if not isinstance(entry, str):
            if not 0 <= entry < self.num_columns:
                raise InputError(
                    f"A decision of {type(self).__name__} has the entries 0 to "
                    f"{self.num_columns - 1}; there is no entry {entry}."
                )
            return (entry,)
        scene = self.cached_scene
        for names in (scene.names, self.decision_names or ()):
            if entry in names:
                return (names.index(entry),)
        columns = scene.columns_at(entry, touching)
        if not columns:
            places = getattr(scene, "places", ())
            raise InputError(nearest("entry", entry, dict.fromkeys((*places, *scene.names))))
        return columns

    def describe(self, decision: Array) -> str:
        """A decision in a few words, for messages: its route, or its entries that are not 0."""
        names = self.cached_scene.names
        if self.cached_scene.routes:
            return self.cached_scene.name_of(decision)
        taken = np.flatnonzero(decision)
        shown = [
            names[j] if decision[j] == 1 else f"{names[j]} = {decision[j]:.4g}"
            for j in taken[:_SHOWN]
        ]
        listing = "{" + ", ".join(shown + ["..."] * (len(taken) > _SHOWN)) + "}"
        return listing if len(taken) else "nothing"
