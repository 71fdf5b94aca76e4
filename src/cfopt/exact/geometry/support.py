"""Which entries of a change may differ from 0 together: how many, and of which sets not all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array

#: Entries below this fraction of the largest are 0 but for rounding.
_NOTHING = 1e-12
#: The most largest sets of units that are listed.
_MOST_CASES = 300
#: Up to how many of them it pays to look at each.
_FEW_CASES = 64


@dataclass(frozen=True)
class Support:
    """At most `room` of the open units may change, and of each set in `spared` not all.

    A unit is what counts as one change: an entry, or several entries at once. Units are open until
    they are held at 0, or released: a released unit counts as changed whether it does or not,
    which loses nothing, since a change without it is among those where it is held.

    Arguments:
        unit: the unit of each entry, `(p,)`.
        open: which units are neither held nor released, `(U,)`.
        room: how many open units may change; at most U.
        spared: sets of open units of each of which one must be held.
        grouped: whether some units have several entries; otherwise units are entries.
    """

    unit: NDArray[np.int64]
    open: NDArray[np.bool_]
    room: int
    spared: tuple[frozenset[int], ...] = ()
    grouped: bool = True

    @classmethod
    def of(
        cls, unit: NDArray[np.int64], most: int | None, spared: tuple[frozenset[int], ...]
    ) -> Support:
        """Nothing decided yet; `most` is how many units may change, None for all."""
        return _begun(unit.astype(np.int64, copy=False).tobytes(), most, spared)

    def holding(self, units: Sequence[int]) -> Support:
        """The same where some units do not change."""
        rest = tuple(some for some in self.spared if some.isdisjoint(units))
        return replace(self, open=self._without(units), spared=rest)

    def released(self, unit: int) -> Support | None:
        """The same where a unit counts as changed; None if then nothing is left."""
        rest = tuple(units - {unit} for units in self.spared)
        if self.room == 0 or not all(rest):
            return None
        return replace(self, open=self._without((unit,)), room=self.room - 1, spared=rest)

    def settled(self) -> tuple[int, ...]:
        """The open units that must be held by now."""
        if self.room == 0:
            return tuple(np.flatnonzero(self.open).tolist())
        return tuple({k for units in self.spared if len(units) == 1 for k in units})

    def _without(self, units: Sequence[int]) -> NDArray[np.bool_]:
        rest = self.open.copy()
        rest[list(units)] = False
        return rest

    def members(self, units: Sequence[int]) -> NDArray[np.bool_]:
        """Which entries belong to some units, `(p,)`."""
        chosen: NDArray[np.bool_] = np.zeros(len(self.open), dtype=bool)
        chosen[list(units)] = True
        return chosen[self.unit] if self.grouped else chosen

    @staticmethod
    def snapped(u: Array) -> Array:
        """A change with 0 for what is 0 but for rounding: `(p,) -> (p,)`."""
        sizes = np.abs(u)
        return np.where(sizes <= _NOTHING * sizes.max(initial=0.0), 0.0, u)

    def sizes(self, u: Array) -> Array:
        """By how much each unit changes: `(p,) -> (U,)`."""
        sizes = np.abs(self.snapped(u))
        return self._sums(sizes)

    def _sums(self, values: Array) -> Array:
        """The sums of each unit's entries: `(p,) -> (U,)`."""
        if not self.grouped:
            return values
        return np.bincount(self.unit, values, len(self.open)).astype(np.float64)

    def offending(self, u: Array) -> int | None:
        """An open unit to decide about next, where too many change: the largest; or None."""
        sizes = self.sizes(u)
        changed = self.open & (sizes > 0)
        broken = [units for units in self.spared if changed[sorted(units)].all()]
        if changed.sum() > self.room:
            candidates = changed
        elif broken:
            candidates = np.zeros_like(changed)
            fewest = min(len(units) for units in broken)
            candidates[sorted(next(one for one in broken if len(one) == fewest))] = True
        else:
            return None
        return int(np.where(candidates, sizes, -1.0).argmax())

    def choice(self, sizes: Array) -> tuple[int, ...]:
        """Open units to hold so that the rest may change: the smallest, `(U,) -> units`."""
        keep = self.open & (sizes > 0)
        if (sets := self._few_sets) is not None:
            best = sets[int((sets @ np.square(sizes)).argmax())] > 0
            return tuple(np.flatnonzero(self.open & ~(best & keep)).tolist())
        for units in self.spared:
            if keep[sorted(units)].all():
                keep[min(units, key=lambda k: sizes[k])] = False
        order = np.where(keep, -sizes, np.inf).argsort(kind="stable")[: self.room]
        changing = np.zeros_like(keep)
        changing[order] = True
        return tuple(np.flatnonzero(self.open & ~(changing & keep)).tolist())

    @cached_property
    def cases(self) -> Array | None:
        """Which entries may change together, 1 for each, in every largest such set: `(H, p)`.

        None if there are too many sets.
        """
        sets = self._sets
        return sets if sets is None or not self.grouped else sets[:, self.unit]

    @cached_property
    def decided_cases(self) -> Array | None:
        """The same once what must be held is held, as in `System.counting`."""
        held = self
        while settled := held.settled():
            held = held.holding(settled)
        if held.cases is None:
            return None
        free = ~self.members(np.flatnonzero(self.open & ~held.open).tolist())
        return held.cases * free

    @property
    def held_in_cases(self) -> list[list[int]] | None:
        """The open units that do not change in each case; None if there are too many."""
        if self._sets is None:
            return None
        return [np.flatnonzero(self.open & (one == 0)).tolist() for one in self._sets]

    @cached_property
    def _sets(self) -> Array | None:
        """The same of units, `(H, U)`; those that are no longer open may change, or are held."""
        open_units = frozenset(np.flatnonzero(self.open).tolist())
        listed = _largest_sets(open_units, self.room, self.spared)
        if listed is None:
            return None
        chosen = np.zeros((len(listed), len(self.open)))
        chosen[:, ~self.open] = 1.0
        for row, units in enumerate(listed):
            chosen[row, list(units)] = 1.0
        return chosen

    @cached_property
    def _few_sets(self) -> Array | None:
        """The same where sets are spared, which no other rule counts exactly, and they are few."""
        sets = self._sets if self.spared else None
        return None if sets is None or len(sets) > _FEW_CASES else sets

    def largest_sums(self, values: Array) -> Array:
        """The largest sum over units that may change, of entries >= 0: `(D, p) -> (D,)`."""
        if self.cases is not None:
            most: Array = (values @ self.cases.T).max(axis=1, initial=0.0)
            return most
        sums = values @ np.eye(len(self.open))[self.unit]
        ranked = np.sort(sums[:, self.open], axis=1)[:, ::-1]
        total: Array = ranked[:, : self.room].sum(axis=1) + sums[:, ~self.open].sum(axis=1)
        return total

    def total(self, least: Array, nonzero: NDArray[np.bool_] | None = None) -> float:
        """A bound on a sum of entries that are 0 where they do not change: `(p,), (p,) -> float`.

        Arguments:
            least: the least value of each entry, if it may change.
            nonzero: which entries cannot be 0, if there are any.
        """
        values = self._sums(least)
        if nonzero is None and (sets := self._few_sets) is not None:
            return float((sets @ values).min())
        spare, free, fixed = self.room, self.open, 0.0
        must: list[int] = []
        if nonzero is not None:
            must = np.flatnonzero(free & (np.bincount(self.unit, nonzero, len(free)) > 0)).tolist()
            spare -= len(must)
            free = free.copy()
            free[must] = False
            if spare < 0:
                return np.inf
        fixed = float(values[~free].sum())
        gains = np.minimum(values[free], 0.0)
        ranked = np.sort(gains)
        total = fixed + float(ranked[:spare].sum())
        if not self.spared:
            return total
        # Of each set one unit must stay: what it would have gained is lost, but for the next one.
        following = float(ranked[spare]) if spare < len(ranked) else 0.0
        loss = np.zeros(len(free))
        loss[free] = np.maximum(following - gains, 0.0)
        loss[must] = np.inf
        return total + max(min(float(loss[k]) for k in units) for units in self.spared)


@lru_cache(maxsize=1000)
def _begun(entries: bytes, most: int | None, spared: tuple[frozenset[int], ...]) -> Support:
    """As `Support.of` says: search, proof and further options count the same sets."""
    unit = np.frombuffer(entries, dtype=np.int64)
    count = int(unit.max(initial=-1)) + 1
    room = count if most is None else min(most, count)
    return Support(unit, np.ones(count, dtype=bool), room, spared, count < len(unit))


@lru_cache(maxsize=1024)
def _largest_sets(
    units: frozenset[int], room: int, spared: tuple[frozenset[int], ...]
) -> tuple[frozenset[int], ...] | None:
    """The sets of at most `room` units without all of any spared set, those within others apart.

    None if they are too many to list.
    """
    found: set[frozenset[int]] = set()
    meeting = _meeting(spared)
    if meeting is None:
        return None
    for held in meeting:
        rest = sorted(units - held)
        for chosen in combinations(rest, min(room, len(rest))):
            found.add(frozenset(chosen))
            if len(found) > _MOST_CASES:
                return None
    return tuple(sorted(found, key=sorted))


def _meeting(sets: tuple[frozenset[int], ...]) -> set[frozenset[int]] | None:
    """The smallest sets with an element of each of some; None if they are too many."""
    known: set[frozenset[int]] = {frozenset()}
    for one in sets:
        known = {held if held & one else held | {element} for held in known for element in one}
        # One that contains another is of no use.
        known = {held for held in known if not any(other < held for other in known)}
        if len(known) > _MOST_CASES:
            return None
    return known
