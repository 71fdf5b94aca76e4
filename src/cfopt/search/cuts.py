"""One row's master problem and the cuts it has collected: what exact searches share."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cache
from typing import Self

import numpy as np

from cfopt._rows import stacked
from cfopt._typing import Array
from cfopt.engine.rules import TOLERANCE
from cfopt.exact.affine_proof import CutProof
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.certificate import Cut
from cfopt.exact.geometry import HalfSpaces, Leaf, Master, Nearest
from cfopt.problems.solved import FEASIBILITY_TOLERANCE
from cfopt.question.quantifier import Quantifier

#: By what fraction of its terms a cut may be broken where decisions are known to some tolerance
#: only, and none would meet all cuts: well within what counts as valid.
EASE = TOLERANCE / 4
#: How many times the least lead over the factual decision is asked for: prices may have grown.
LEADS = 10.0
#: How far inside to look where a row ended on a boundary that solver or rounding cannot resolve, as
#: fractions of the terms that a cut compares at x0.
INSIDE = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


@cache
def _unmoved(size: int) -> Nearest:
    """Where every row begins: no change, and nothing proved."""
    nothing = np.zeros(size)
    nothing.setflags(write=False)  # it is shared
    return Nearest(nothing, 0.0, Leaf(np.zeros(0)))


class CutRow:
    """The nearest allowed change of one row that meets its cuts.

    Arguments:
        model: the task.
        row: the number of the row.
        deadline: when to give up.
        ease: the fraction of its terms at x0 by which a cut may be broken.
        why: whether someone asks which cuts clash, where nothing meets them.
    """

    def __init__(
        self,
        model: AffineTask,
        row: int,
        deadline: float = np.inf,
        ease: float = 0.0,
        why: bool = True,
    ) -> None:
        self._model = model
        self._row = row
        self._deadline = deadline
        self.ease = ease
        self._master = Master(model.system(row), model.norm, model.grid(row), deadline, why)
        self._cuts: list[Cut] = []
        self._known: set[tuple[Quantifier, bytes]] = set()
        self._solved = 0  # how many cuts the last solution knew of
        self.nearest = _unmoved(model.origin.shape[1])
        #: Whether the last change that was handed out may cost more than need be.
        self.hasty = False
        self._conclude = False
        self._refuted: bool | None = None  # whether the last solution proves that there is none

    def branch(self) -> Self:
        """A copy that can collect cuts of its own."""
        twin = copy(self)
        twin._master, twin._cuts = self._master.branch(), self._cuts.copy()
        twin._known = self._known.copy()
        return twin

    def relaxed(self, ease: float) -> CutRow:
        """The same cuts, each of which may be broken by a fraction of its terms at x0."""
        other = CutRow(self._model, self._row, self._deadline, ease)
        if self._cuts:
            other.add_all(self._cuts)
        return other

    def resembles(self, cut: Cut) -> bool:
        """Whether a decision that is the same up to the solver's tolerance has made a cut."""
        slack = FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(cut.decision))
        return any(
            known.quantifier is cut.quantifier
            and bool((np.abs(known.decision - cut.decision) <= slack).all())
            for known in self._cuts
        )

    def knows(self, cut: Cut) -> bool:
        """Whether the same decision has made a cut before."""
        return cut.key in self._known

    def add(self, cut: Cut) -> None:
        """Collect a cut."""
        self.add_all([cut])

    def add_all(self, cuts: Sequence[Cut]) -> None:
        """Collect cuts, all at once."""
        self._keep(cuts, self._model.cuts(self._row, cuts, self.ease, LEADS))

    @staticmethod
    def add_each(rows: Sequence[CutRow], cuts: Sequence[Sequence[Cut]]) -> None:
        """Collect cuts in each of some rows of one task, all of them of one role and no rays."""
        model, kind = rows[0]._model, cuts[0][0].quantifier
        counts = [len(own) for own in cuts]
        numbers = np.array([row._row for row in rows]).repeat(counts)
        eases = np.array([row.ease for row in rows]).repeat(counts)
        decisions = stacked([cut.decision for own in cuts for cut in own])
        found = model.directions_of_each(numbers, kind, decisions)
        width, size = found.shape[1:]
        half_spaces = model.cut(numbers.repeat(width), found.reshape(-1, size), eases.repeat(width))
        before, each = 0, width * len(model.models)
        for row, own, count in zip(rows, cuts, counts, strict=True):
            after = before + count * each
            row._keep(own, half_spaces.part(before, after))
            before = after

    def _keep(self, cuts: Sequence[Cut], half_spaces: HalfSpaces) -> None:
        self._cuts += cuts
        for cut in cuts:
            self._known.add(cut.key)
        self._master.add(half_spaces)

    def propose(self) -> Array | None:
        """A change that meets all cuts: in haste, where counting features takes time.

        A hasty one collects cuts as well as the nearest; once it needs no more, `conclude`.
        """
        change = None if self._conclude else self._master.hurry()
        if change is None:
            return self.solve()
        self.hasty = True
        return change

    def holding(self, units: Sequence[int]) -> Array | None:
        """The nearest change that meets all cuts and leaves some units as they are, if any."""
        return self._master.holding(units)

    def conclude(self) -> None:
        """Let the next change be the nearest."""
        self._conclude = True

    def solve(self) -> Array | None:
        """The nearest change that meets all cuts; None if there is none, or it is not found."""
        self.hasty = self._conclude = False
        self._refuted = None
        self.nearest = self._master.solve()
        self._solved = len(self._cuts)
        return self.nearest.u

    @property
    def clashes(self) -> bool:
        """Whether nothing meets the cuts to the last digit."""
        return self.nearest.bound == np.inf

    @property
    def infeasible(self) -> bool:
        """Whether the cuts were proved to clash, by more than verification could overlook."""
        if self._refuted is None:
            self._refuted = (
                self.clashes and self._claim(True).bound(self._model, self._row) == np.inf
            )
        return self._refuted

    def proof(self) -> CutProof:
        """What the last solution of the master proves."""
        return self._claim(self.infeasible)

    def _claim(self, infeasible: bool) -> CutProof:
        return CutProof(tuple(self._cuts[: self._solved]), self.nearest.tree, infeasible)
