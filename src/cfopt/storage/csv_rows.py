"""CSV files of any size, whose rows are read when they are needed, some at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cfopt._typing import Indices
from cfopt.errors import InputError
from cfopt.storage.rows import Rows
from cfopt.storage.tables import parse_csv

#: Rows that are parsed at once, and bytes that are looked at once to find out where rows begin.
_PIECE, _BLOCK = 2**13, 2**22
_NEWLINE, _RETURN, _QUOTE = b'\n\r"'


class _Index(NamedTuple):
    """Where rows are: the line of column names, where each piece of rows begins, and how many."""

    header: bytes
    starts: list[int]
    rows: int


class CsvRows(Rows):
    """A CSV file of which only the pieces are parsed, and kept, that are asked for.

    One pass over its bytes finds where every so many rows begin: at the ends of lines, but for
    those within quotation marks. Columns that are text in the first piece are text in all.

    Arguments:
        path: the file.
        piece: rows that are parsed at once.
        block: bytes that are looked at once to find out where rows begin.
    """

    def __init__(self, path: Path, piece: int = _PIECE, block: int = _BLOCK) -> None:
        super().__init__(str(path))
        self._path, self._piece, self._block = path, piece, block
        self._last: tuple[int, pd.DataFrame] | None = None

    def __len__(self) -> int:
        return self._index.rows

    def read(self, rows: Sequence[int]) -> pd.DataFrame:
        """Some rows by their numbers, from 0, in this order."""
        numbers = np.asarray(rows, dtype=np.int64)
        pieces = numbers // self._piece
        runs = np.split(numbers, np.flatnonzero(np.diff(pieces)) + 1)
        parts = [
            self._parsed(int(run[0]) // self._piece).iloc[run % self._piece]
            for run in runs
            if len(run)
        ]
        found = pd.concat(parts) if parts else self._parsed(0).iloc[:0]
        return found.reset_index(drop=True)

    def _parsed(self, number: int) -> pd.DataFrame:
        """A piece; the last one is kept, since parts follow one another."""
        if self._last is None or self._last[0] != number:
            self._last = number, self._parse(number, self._text)
        return self._last[1]

    @cached_property
    def _text(self) -> dict[str, Any]:
        """The types of the columns that are text in the first piece."""
        kinds = self._parse(0, {}).dtypes
        return {str(name): kind for name, kind in kinds.items() if not _counts(kind)}

    def _parse(self, number: int, kinds: dict[str, Any]) -> pd.DataFrame:
        starts, first = self._index.starts, number * self._piece
        with self._path.open("rb") as file:
            file.seek(starts[number])
            last = number + 1 == len(starts)
            data = file.read() if last else file.read(starts[number + 1] - starts[number])
        frame = parse_csv(BytesIO(self._index.header + data), self._path, kinds)
        expected = min(self._piece, len(self) - first)
        if len(frame) != expected:
            raise InputError(
                f"{self._path} cannot be read piece by piece: from row {first} on it has "
                f"{expected} lines with {len(frame)} rows. Remove lines of blanks, or save it as "
                "Parquet."
            )
        return frame

    @cached_property
    def _index(self) -> _Index:
        header, starts, count = b"", [], 0
        for begins, ends in self._lines():
            if not header and len(begins):
                with self._path.open("rb") as file:
                    file.seek(int(begins[0]))
                    header = file.read(int(ends[0] - begins[0]))
                begins = begins[1:]
            numbers = count + np.arange(len(begins))
            starts += begins[numbers % self._piece == 0].tolist()
            count += len(begins)
        return _Index(header, starts, count)

    def _lines(self) -> Iterator[tuple[Indices, Indices]]:
        """Where the lines of each block begin and end, empty ones left out."""
        before = offset = marks = 0
        last = _NEWLINE
        with self._path.open("rb") as file:
            while block := file.read(self._block):
                data = np.frombuffer(block, dtype=np.uint8)
                quoted = (np.cumsum(data == _QUOTE) + marks) % 2 == 1
                (places,) = ((data == _NEWLINE) & ~quoted).nonzero()
                ends = places + offset + 1
                begins = np.concatenate([[before], ends])[:-1]
                previous = np.where(places > 0, data[places - 1], last)
                sizes = ends - begins - (previous == _RETURN)
                yield begins[sizes > 1], ends[sizes > 1]
                marks, last, offset = (
                    marks + int((data == _QUOTE).sum()),
                    data[-1],
                    offset + len(data),
                )
                before = int(ends[-1]) if len(ends) else before
        if marks % 2:
            raise InputError(f"{self._path} cannot be read: a quotation mark is not closed.")
        if before < offset:  # the last line has no end
            yield np.array([before]), np.array([offset])


def _counts(kind: Any) -> bool:
    """Whether a column of this type holds numbers, or flags."""
    return pd.api.types.is_numeric_dtype(kind)
