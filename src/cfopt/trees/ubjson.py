"""UBJSON, in which XGBoost writes models: JSON in bytes, every number with its type before it."""

from __future__ import annotations

from typing import Any

import numpy as np

_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4"} | {
    b"D": ">f8"
}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def read_ubjson(data: bytes) -> Any:
    """The values in a document; ValueError if it is damaged."""
    return _Reader(data).value()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if count < 0 or len(found) < count:
            raise ValueError("it ends in the middle of a value")
        self._at += count
        return found

    def _follows(self, mark: bytes) -> bool:
        """Whether this comes next; then it is passed."""
        follows = self._data[self._at : self._at + 1] == mark
        self._at += follows
        return follows

    def value(self, kind: bytes | None = None) -> Any:
        """The next value, of a kind that is known or said before it."""
        kind = self._take(1) if kind is None else kind
        if kind in _NUMBERS:
            return self._numbers(kind, 1)[0]
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == b"S":
            return self._take(self.value()).decode()
        if kind == b"{":
            found = {}
            while not self._follows(b"}"):
                name = self._take(self.value()).decode()
                found[name] = self.value()
            return found
        if kind == b"[":
            return self._list()
        raise ValueError(f"{kind!r} is no kind of value")

    def _list(self) -> list[Any]:
        kind = self._take(1) if self._follows(b"$") else None
        if self._follows(b"#"):
            count = self.value()
            if kind in _NUMBERS:
                return self._numbers(kind, count)
            return [self.value(kind) for _ in range(count)]
        found = []
        while not self._follows(b"]"):
            found.append(self.value(kind))
        return found

    def _numbers(self, kind: bytes, count: int) -> list[Any]:
        dtype = np.dtype(_NUMBERS[kind])
        found = np.frombuffer(self._take(count * dtype.itemsize), dtype)
        # The shortest digits that mean the same number in its own precision.
        return [float(str(x)) for x in found] if kind == b"d" else found.tolist()
