"""Columns that take one of several values, as a 0 or 1 for each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cfopt.errors import InputError
from cfopt.names import nearest

#: What a value of a category can be: what JSON and TOML have, and None for a missing one.
_VALUES = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Layout:
    """Which features stand for the columns of a table.

    A number stands for itself. A category has a feature for each of its values, "city=Rome", of
    which exactly one is 1.

    Arguments:
        names: the columns.
        categories: the values that some of them take.
    """

    names: tuple[str, ...]
    categories: Mapping[str, Sequence[Any]]

    def __post_init__(self) -> None:
        unknown = [name for name in self.categories if name not in self.names]
        if unknown:
            raise InputError(f"categories of Features: {nearest('column', unknown[0], self.names)}")
        labels = self.labels
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise InputError(
                f"A column and a value of a category are both called {twice!r}. Rename the column."
            )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What each feature is called."""
        values = ((name, self.categories.get(name)) for name in self.names)
        return tuple(
            label
            for name, taken in values
            for label in ([name] if taken is None else [f"{name}={value}" for value in taken])
        )

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The features that stand for each column."""
        widths = [len(self.categories.get(name, (0,))) for name in self.names]
        ends = np.cumsum(widths).tolist()
        return tuple(
            tuple(range(end - width, end)) for end, width in zip(ends, widths, strict=True)
        )

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The features of each category."""
        return tuple(
            place
            for name, place in zip(self.names, self.places, strict=True)
            if name in self.categories
        )

    def spread(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """One value a column as one a feature."""
        pairs = zip(values, self.places, strict=True)
        return tuple(value for value, place in pairs for _ in place)


def checked_categories(given: Any) -> dict[str, tuple[Any, ...]]:
    """The values of each category as a tuple; InputError unless all of them differ."""
    if not isinstance(given, Mapping):
        raise InputError(
            f"categories of Features needs a dictionary of values by column, got {given!r:.60}."
        )
    found = {}
    for name, values in given.items():
        if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)):
            raise InputError(f"Category {name!r} needs a list of its values, got {values!r:.60}.")
        taken = tuple(one.item() if isinstance(one, np.generic) else one for one in values)
        wrong = [one for one in taken if not isinstance(one, _VALUES) or one != one]
        if wrong:
            raise InputError(
                f"Category {name!r} needs text, numbers, true or false, or None as its values, "
                f"got {wrong[0]!r:.60}."
            )
        if not taken or len(set(map(str, taken))) < len(taken):
            raise InputError(
                f"Category {name!r} needs at least one value, and none twice; got {taken!r:.60}."
            )
        found[str(name)] = taken
    return found
