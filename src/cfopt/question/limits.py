"""What features may be, resolved from names and numbers to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.question.categories import Layout

#: A feature by name or by number.
Which: TypeAlias = str | int


@dataclass(frozen=True)
class Limits:
    """What `Features` allows, resolved to arrays over p features.

    Arguments:
        names: a label for each feature.
        lower, upper: bounds, `(p,)`; those of one-hot features are within 0 and 1.
        immutable, increase, decrease: what cannot change, or in one direction only, `(p,)`.
        integer: whole numbers, members of one-hot groups among them, `(p,)`.
        groups: the features of each one-hot group.
        matrix, row_lower, row_upper: limits on weighted sums, `(k, p)` and `(k,)`.
        max_changes: how many units may change at most; None for all.
    """

    names: Sequence[str]
    lower: Array
    upper: Array
    immutable: NDArray[np.bool_]
    increase: NDArray[np.bool_]
    decrease: NDArray[np.bool_]
    integer: NDArray[np.bool_]
    groups: tuple[tuple[int, ...], ...]
    matrix: Array
    row_lower: Array
    row_upper: Array
    max_changes: int | None = None
    #: What counts as one change, by feature: a one-hot group, or the feature alone, `(p,)`.
    unit: NDArray[np.int64] = field(init=False)
    #: The sums that one-hot groups must have, as rows of the same kind, `(groups, p)`.
    group_matrix: Array = field(init=False)

    def __post_init__(self) -> None:
        sums = np.zeros((len(self.groups), len(self.names)))
        for row, group in enumerate(self.groups):
            sums[row, list(group)] = 1.0
        object.__setattr__(self, "group_matrix", sums)
        first = np.arange(len(self.names))
        for group in self.groups:
            first[list(group)] = min(group)
        object.__setattr__(self, "unit", np.unique(first, return_inverse=True)[1])

    @property
    def num_units(self) -> int:
        """How many changes there can be."""
        return int(self.unit.max(initial=-1)) + 1


class FeatureIndex:
    """Finds features by name or number; with a layout, those of a column."""

    def __init__(
        self, names: Sequence[str] | None, size: int, layout: Layout | None = None
    ) -> None:
        labels = names if layout is None else layout.labels
        self._labels = tuple(labels) if labels is not None else None
        self._known: dict[str, Sequence[int]] = {name: (j,) for j, name in enumerate(labels or ())}
        self._layout = layout
        if layout is not None:
            self._known |= dict(zip(layout.names, layout.places, strict=True))
        self.size = size

    def label(self, j: int) -> str:
        """What to call a feature in a message."""
        return f"feature {self._labels[j]!r}" if self._labels is not None else f"feature {j}"

    def places(self, what: str, which: Any) -> Sequence[int]:
        """The numbers of a feature, several for a category."""
        if isinstance(which, str):
            if which in self._known:
                return self._known[which]
            near = get_close_matches(which, self._known, n=1)
            hint = f" Did you mean {near[0]!r}? Or is that misspelt in names?" if near else ""
            raise InputError(f"{what} of Features has {which!r}, which is not a feature.{hint}")
        if isinstance(which, (int, np.integer)) and not isinstance(which, bool):
            size = self.size if self._layout is None else len(self._layout.names)
            if 0 <= which < size:
                return (int(which),) if self._layout is None else self._layout.places[which]
            raise InputError(
                f"{what} of Features has feature {which}, but there are {size}, from 0 on."
            )
        raise InputError(f"{what} of Features needs names or numbers of features, got {which!r}.")

    def numbers(self, what: str, which: Sequence[Which]) -> list[int]:
        """The numbers of some features."""
        return [j for one in which for j in self.places(what, one)]

    def mask(
        self, what: str, which: Sequence[Which], *, ordered: bool = False
    ) -> NDArray[np.bool_]:
        """Which features are among some, `(p,)`; not categories, where values need an order."""
        mask = np.zeros(self.size, dtype=bool)
        mask[self.numbers(what, which)] = True
        groups = self._layout.groups if self._layout is not None and ordered else ()
        unordered = [j for group in groups for j in group if mask[j]]
        if unordered:
            raise InputError(
                f"{what} of Features has {self.label(unordered[0])}, but the values of a category "
                "have no order. Use immutable, or rule values out with upper=0."
            )
        return mask

    def values(self, what: str, given: Any, default: float) -> Array:
        """A value for each feature, `(p,)`."""
        values = np.full(self.size, default)
        if isinstance(given, dict):
            for which, value in given.items():
                values[list(self.places(what, which))] = value
        elif given is not None:
            layout, single = self._layout, not np.ndim(given)
            size = self.size if layout is None else len(layout.names)
            if not single and len(given) != size:
                raise InputError(
                    f"The contexts have {size} features, but Features has {len(given)} for {what}."
                )
            values[:] = given if layout is None or single else layout.spread(given)
            if layout is not None and single:  # one bound for all numbers
                values[[j for group in layout.groups for j in group]] = default
        if np.isnan(values).any():
            j = int(np.flatnonzero(np.isnan(values))[0])
            raise InputError(f"{what} of Features is not a number for {self.label(j)}.")
        return values

    def coefficients(self, given: Any) -> Array:
        """The weight of each feature in a sum, `(p,)`."""
        row = self.values("linear", given, 0.0)
        if not np.isfinite(row).all():
            raise InputError("linear of Features needs finite coefficients.")
        return row

    def check_groups(self, groups: tuple[tuple[int, ...], ...]) -> None:
        """Raise InputError unless groups have several members each and none twice."""
        seen: set[int] = set()
        for group in groups:
            if len(group) < 2:
                raise InputError(
                    f"A one_hot group needs at least two features, got {len(group)}. A single 0 or "
                    "1 is an integer with lower=0 and upper=1."
                )
            for j in group:
                if j in seen:
                    raise InputError(f"{self.label(j)} occurs twice in one_hot.")
                seen.add(j)
