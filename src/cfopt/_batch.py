"""Dataclasses with one entry for each row: how rows are picked, and how batches are joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, wraps
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

#: What marks a field that has an entry for each row: `x: Tensor = field(metadata=ROWS)`.
ROWS = MappingProxyType({"rows": True})
B = TypeVar("B", bound="Batch")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Batch:
    """A frozen dataclass some of whose fields have an entry for each row.

    Such a field holds a tensor `(B, ...)`, a tuple of length B, another batch, or nothing: None or
    an empty tuple. All other fields belong to the batch as a whole, and stay as they are.
    """

    @classmethod
    @cache
    def row_fields(cls) -> tuple[str, ...]:
        """The names of the fields that have an entry for each row."""
        return tuple(one.name for one in fields(cls) if "rows" in one.metadata)

    def __getitem__(self, rows: Tensor) -> Self:
        """Some of the rows, by index or mask."""
        picked = {name: _pick(getattr(self, name), rows) for name in self.row_fields()}
        return replace(self, **picked) if picked else self

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts in order; fields without rows are those of the first part."""
        names = cls.row_fields()
        if len(parts) == 1 or not names:
            return parts[0]
        joined = {name: _join([getattr(part, name) for part in parts]) for name in names}
        return replace(parts[0], **joined)

    def split(self, counts: Sequence[int]) -> list[Self]:
        """Parts of so many rows each, in their order."""
        names = self.row_fields()
        divided = [_divide(getattr(self, name), counts) for name in names]
        parts = zip(*divided, strict=True) if names else [()] * len(counts)
        return [replace(self, **dict(zip(names, part, strict=True))) for part in parts]


def once(look: Callable[[B], T]) -> Callable[[B], T]:
    """A function that looks at each batch once: batches do not change, and are forgotten alone."""
    found: WeakKeyDictionary[B, T] = WeakKeyDictionary()

    @wraps(look)
    def known(batch: B) -> T:
        try:
            return found[batch]
        except KeyError:
            return found.setdefault(batch, look(batch))

    return known


def are_all(rows: Tensor, count: int) -> bool:
    """Whether rows are all of so many, in their order."""
    if len(rows) != count:
        return False
    if rows.dtype == torch.bool:
        return bool(rows.all())
    if count == 1:
        return True  # there is no other row
    return bool((rows == torch.arange(count, device=rows.device)).all())


def where_rows(chosen: Tensor, values: Tensor, others: Tensor) -> Tensor:
    """Values in the chosen rows, and others elsewhere: `(B,), (B, ...), (B, ...) -> (B, ...)`."""
    return torch.where(chosen.view(-1, *[1] * (values.ndim - 1)), values, others)


def _pick(values: Any, rows: Tensor) -> Any:
    if values is None or (isinstance(values, tuple) and not values):
        return values
    if isinstance(values, tuple):
        index = rows.nonzero().flatten() if rows.dtype == torch.bool else rows
        return tuple(values[i] for i in index.tolist())
    return values[rows.to(values.device) if isinstance(values, Tensor) else rows]


def _join(values: list[Any]) -> Any:
    first = values[0]
    if first is None:
        return None
    if isinstance(first, Tensor):
        return torch.cat(values)
    if isinstance(first, tuple):
        return tuple(entry for value in values for entry in value)
    return type(first).concat(values)


def _divide(values: Any, counts: Sequence[int]) -> list[Any]:
    if values is None or (isinstance(values, tuple) and not values):
        return [values] * len(counts)
    if isinstance(values, tuple):
        ends = list(accumulate(counts))
        return [values[end - count : end] for count, end in zip(counts, ends, strict=True)]
    if isinstance(values, Tensor):
        # With memory of its own, so that one part does not keep all of them.
        return [part.clone() for part in torch.split(values, list(counts))]
    parts: list[Any] = values.split(counts)
    return parts
