"""The contexts that are allowed: what `Features` says, for each row of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from cfopt._batch import ROWS, Batch
from cfopt._typing import Array
from cfopt.names import join_words
from cfopt.question.features import Features
from cfopt.question.limits import Limits

#: By how much a limit may be missed, as a fraction of its size (at least of 1).
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Domain(Batch):
    """Which contexts each row may move to.

    Arguments:
        origin: the factual contexts, flattened, `(B, p)`.
        lower, upper: bounds of each row, with what cannot change or in one direction only,
            `(B, p)`.
        limits: what holds for all rows.
        spared: sets of units for each row, of each of which at least one must stay as it is.
    """

    origin: Tensor = field(metadata=ROWS)
    lower: Tensor = field(metadata=ROWS)
    upper: Tensor = field(metadata=ROWS)
    limits: Limits
    spared: tuple[tuple[frozenset[int], ...], ...] = field(default=(), metadata=ROWS)

    @classmethod
    def of(cls, features: Features, x0: Tensor) -> Domain | None:
        """The domain of a batch of contexts, `(B, ...)`; None if any context is allowed."""
        return cls.unlimited(features, x0) if features.limited else None

    @classmethod
    def unlimited(cls, features: Features, x0: Tensor) -> Domain:
        """The same, even if any context is allowed."""
        origin = x0.flatten(1)
        limits = features.limits(origin.shape[1])
        # Whole numbers that are off by rounding are those that are meant.
        whole = torch.from_numpy(limits.integer).to(origin.device)
        held = torch.where(whole, origin.round(), origin)
        lower, upper = (torch.from_numpy(b).to(origin) for b in (limits.lower, limits.upper))
        up, down = (
            torch.from_numpy(limits.immutable | one_way).to(origin.device)
            for one_way in (limits.increase, limits.decrease)
        )
        return cls(
            origin,
            torch.where(up, torch.maximum(held, lower), lower).expand_as(origin),
            torch.where(down, torch.minimum(held, upper), upper).expand_as(origin),
            limits,
        )

    @property
    def discrete(self) -> bool:
        """Whether some features are whole numbers."""
        return bool(self.limits.integer.any())

    @property
    def boxed(self) -> bool:
        """Whether there are only bounds, apart from integrality."""
        return not len(self.limits.groups) and not len(self.limits.matrix)

    @property
    def counted(self) -> bool:
        """Whether it matters how many features change, or which of them together."""
        return self.limits.max_changes is not None or any(map(len, self.spared))

    @property
    def pinned(self) -> Tensor:
        """Rows whose only allowed context is the factual one, `(B,)`."""
        here = self.origin.clamp(self.lower, self.upper) - self.origin
        still = here.abs() <= _TOLERANCE * self.origin.abs().clamp(min=1.0)
        return (still & (self.lower == self.upper)).all(1)

    def uncounted(self) -> Domain:
        """The same, however many features change, and whichever together."""
        return replace(self, limits=replace(self.limits, max_changes=None), spared=())

    def holding(self, held: Tensor) -> Domain:
        """The domain in which some entries keep the value that they have, `(B, p)`."""
        whole = torch.from_numpy(self.limits.integer).to(held.device)
        values = torch.where(whole, self.origin.round(), self.origin)
        return replace(
            self,
            lower=torch.where(held, values, self.lower),
            upper=torch.where(held, values, self.upper),
        )

    def changed(self, x: Tensor) -> Tensor:
        """Which units differ from what they were: `(B, ...) -> (B, units)`."""
        flat = x.flatten(1)
        moved = (flat - self.origin).abs() > _TOLERANCE * flat.abs().clamp(min=1.0)
        unit = torch.from_numpy(self.limits.unit).to(flat.device).expand_as(moved)
        none = torch.zeros((len(flat), self.limits.num_units), dtype=torch.long, device=flat.device)
        return none.scatter_add(1, unit, moved.long()) > 0

    def restored(self, x: Tensor) -> Tensor:
        """Contexts with units that count as unchanged put back exactly: `(B, ...)`, same shape."""
        unit = torch.from_numpy(self.limits.unit).to(x.device)
        moved = self.changed(x)[:, unit]
        return torch.where(moved, x.flatten(1), self.origin).view_as(x)

    def _miscounts(self, x: Tensor) -> list[str]:
        """Why too many features change, or those that must not together, in words, or ""."""
        if not self.counted:
            return [""] * len(x)
        limits, faults = self.limits, []
        for row, flags in enumerate(self.changed(x).tolist()):
            fault, changed = "", [k for k, flag in enumerate(flags) if flag]
            if limits.max_changes is not None and len(changed) > limits.max_changes:
                names = join_words([self.unit_name(k) for k in changed])
                fault = f"{names} change, and no more than {limits.max_changes} may"
            for units in self.spared[row] if self.spared else ():
                if units.issubset(changed):
                    names = join_words([self.unit_name(k) for k in sorted(units)])
                    fault = fault or f"at least one of {names} needs to stay as it is"
            faults.append(fault)
        return faults

    def unit_name(self, unit: int) -> str:
        """What counts as one change, in words: a feature, or a group of them."""
        members = np.flatnonzero(self.limits.unit == unit)
        names = [self.limits.names[int(j)] for j in members]
        if len(names) == 1:
            return names[0]
        # The values of a category are called "city=Rome".
        columns = {name.split("=")[0] for name in names}
        return columns.pop() if len(columns) == 1 else f"the group ({', '.join(names)})"

    def sums(self) -> tuple[Array, Array, Array]:
        """Limits on weighted sums, one-hot groups among them: matrix `(k, p)`, lower and upper."""
        limits, ones = self.limits, np.ones(len(self.limits.groups))
        matrix = np.concatenate([limits.matrix, limits.group_matrix])
        return (
            matrix,
            np.concatenate([limits.row_lower, ones]),
            np.concatenate([limits.row_upper, ones]),
        )

    def clamp(self, x: Tensor) -> Tensor:
        """The nearest contexts within the bounds: `(B, ...) -> (B, ...)`."""
        return x.flatten(1).clamp(self.lower, self.upper).view_as(x)

    def round(self, x: Tensor) -> Tensor:
        """Whole numbers made whole, and one of each one-hot group chosen: `(B, ...)`, same shape.

        Limits on other sums may then be broken: ask `allows`.
        """
        flat = x.flatten(1)
        whole = torch.from_numpy(self.limits.integer).to(x.device)
        nearest = flat.round().clamp(self.lower.ceil(), self.upper.floor())
        rounded = torch.where(whole, nearest, flat)
        for group in self.limits.groups:
            columns = list(group)
            score = flat[:, columns].clone()
            score[self.upper[:, columns] < 0.5] = -torch.inf  # held at 0
            score[self.lower[:, columns] > 0.5] = torch.inf  # held at 1
            chosen = torch.zeros_like(score)
            chosen.scatter_(1, score.argmax(1, keepdim=True), 1.0)
            rounded[:, columns] = chosen
        return rounded.view_as(x)

    def settled(self, x: Tensor) -> Domain:
        """The domain with the whole numbers of given contexts, so that only the others can move."""
        whole = torch.from_numpy(self.limits.integer).to(x.device)
        values = x.flatten(1)
        return replace(
            self,
            lower=torch.where(whole, values, self.lower),
            upper=torch.where(whole, values, self.upper),
            limits=replace(self.limits, integer=np.zeros_like(self.limits.integer)),
        )

    def allows(self, x: Tensor) -> Tensor:
        """Whether each context is allowed: `(B, ...) -> (B,)`."""
        host = x.flatten(1).double().cpu().numpy()
        host = np.nan_to_num(host, nan=np.nan, posinf=np.nan, neginf=np.nan)
        allowed = self.within(host).all(1)
        integer = self.limits.integer
        off = np.abs(host - host.round())[:, integer] <= _TOLERANCE
        allowed &= off.all(1)
        matrix, least, most = self.sums()
        if len(matrix):
            sums = host @ matrix.T
            room = _TOLERANCE * np.maximum(1.0, np.abs(host) @ np.abs(matrix).T)
            allowed &= ((sums >= least - room) & (sums <= most + room)).all(1)
        if self.counted:
            allowed &= np.array([not fault for fault in self._miscounts(x)])
        return torch.from_numpy(allowed).to(x.device)

    def within(self, values: Array) -> Array:
        """Which values of features keep their bounds, rounding apart: `(B, p) -> (B, p)`."""
        # What cannot change has bounds of its own, which may be outside of those of all rows.
        lower = np.maximum(self.lower.double().cpu().numpy(), self.limits.lower)
        upper = np.minimum(self.upper.double().cpu().numpy(), self.limits.upper)
        slack = _TOLERANCE * np.maximum(1.0, np.abs(values))
        kept: Array = (values >= lower - slack) & (values <= upper + slack)
        return kept

    def faults(self, x: Tensor) -> list[str]:
        """What is not allowed about each context, in words, or ""."""
        allowed, miscounts = self.allows(x).tolist(), self._miscounts(x)
        flat = x.flatten(1).double().cpu().numpy()
        return [
            "" if ok else miscounts[row] or self._fault(row, flat[row])
            for row, ok in enumerate(allowed)
        ]

    def _fault(self, row: int, x: Array) -> str:
        """The first limit that a context breaks, in words."""
        limits, origin = self.limits, self.origin[row].double().cpu().numpy()
        slack = _TOLERANCE * np.maximum(1.0, np.abs(x))
        for j, name in enumerate(limits.names):
            fixed = ", and it cannot change" if limits.immutable[j] else ""
            if x[j] < limits.lower[j] - slack[j]:
                return f"{name!r} is {x[j]:g}, below its lower bound {limits.lower[j]:g}{fixed}"
            if x[j] > limits.upper[j] + slack[j]:
                return f"{name!r} is {x[j]:g}, above its upper bound {limits.upper[j]:g}{fixed}"
            moved = x[j] - origin[j]
            if limits.immutable[j] and abs(moved) > slack[j]:
                return f"{name!r} cannot change, but is {x[j]:g} instead of {origin[j]:g}"
            if limits.increase[j] and moved < -slack[j]:
                return f"{name!r} can only increase, but is {x[j]:g} instead of {origin[j]:g}"
            if limits.decrease[j] and moved > slack[j]:
                return f"{name!r} can only decrease, but is {x[j]:g} instead of {origin[j]:g}"
        for group in limits.groups:
            values = x[list(group)]
            if abs(values.sum() - 1) > _TOLERANCE or np.abs(values * (1 - values)).max() > 1e-5:
                members = ", ".join(f"{limits.names[j]!r}: {x[j]:g}" for j in group)
                return f"exactly one of a one-hot group needs to be 1, got {members}"
        for j in np.flatnonzero(limits.integer).tolist():
            if abs(x[j] - np.round(x[j])) > _TOLERANCE:
                return f"{limits.names[j]!r} needs to be a whole number, is {x[j]:g}"
        for k in range(len(limits.matrix)):
            total = float(limits.matrix[k] @ x)
            room = _TOLERANCE * max(1.0, float(np.abs(limits.matrix[k]) @ np.abs(x)))
            if total < limits.row_lower[k] - room or total > limits.row_upper[k] + room:
                least, most = limits.row_lower[k], limits.row_upper[k]
                return f"{self.describe_sum(k)} is {total:g}, not between {least:g} and {most:g}"
        return "it is outside of what is allowed"

    def describe_sum(self, k: int) -> str:
        """One of the limits on weighted sums, one-hot groups last, in words."""
        limits = self.limits
        if k >= len(limits.matrix):
            members = limits.groups[k - len(limits.matrix)]
            return "the group (" + ", ".join(limits.names[j] for j in members) + ")"
        row, terms = limits.matrix[k], []
        for j in np.flatnonzero(row):
            size = "" if abs(row[j]) == 1 else f"{abs(row[j]):g} "
            terms.append(("- " if row[j] < 0 else "+ ") + size + limits.names[int(j)])
        return "(" + " ".join(terms).removeprefix("+ ") + ")"
