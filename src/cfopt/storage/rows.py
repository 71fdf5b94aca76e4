"""Tables and arrays on disk whose rows are read when they are needed, some at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from cfopt.errors import InputError
from cfopt.storage.tables import check_separator, read_table

#: A row group of more rows is read piece by piece, in pieces of this many.
_WHOLE, _PIECE = 2**17, 2**14
#: The bytes from which on a CSV file is read piece by piece.
_LARGE = 2**25
#: What rows are read as.
Table: TypeAlias = "pd.DataFrame | np.ndarray[Any, Any]"


class Rows(ABC):
    """Rows in their order.

    Arguments:
        name: what they are called in messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, rows: Sequence[int]) -> Table:
        """Some rows by their numbers, from 0, in this order."""


class RowsInMemory(Rows):
    """A table or an array that is at hand, or a file that is mapped into memory.

    Arguments:
        name: what it is called in messages.
        table: all rows.
    """

    def __init__(self, name: str, table: Table) -> None:
        super().__init__(name)
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def read(self, rows: Sequence[int]) -> Table:
        """Some rows by their numbers, from 0, in this order."""
        index = np.asarray(rows, dtype=np.int64)
        if isinstance(self.table, pd.DataFrame):
            return self.table.iloc[index].reset_index(drop=True)
        return np.array(self.table[index])


class ParquetRows(Rows):
    """A Parquet file, or a folder of them that may be partitioned, here or in an object store.

    Files count in the order of their paths. Only the row groups that are asked for are read.

    Arguments:
        path: the file, the folder, or the address of either.
    """

    def __init__(self, path: Path | str) -> None:
        super().__init__(str(path))
        self._path = path
        self._last: tuple[int, Any] | None = None
        self._window: _Window | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A process opens its files itself.
        return {"name": self.name, "_path": self._path, "_last": None, "_window": None}

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, rows: Sequence[int]) -> Table:
        """Some rows by their numbers, from 0, in this order."""
        import pyarrow as pa

        parts, numbers = [], np.asarray(rows, dtype=np.int64)
        groups = np.searchsorted(np.array(self._ends), numbers, side="right")
        # Runs of rows of one group, in the order that was asked for.
        edges = np.flatnonzero(np.diff(groups)) + 1
        for run in np.split(numbers, edges):
            if not len(run):
                continue
            group = bisect_right(self._ends, int(run[0]))
            first = self._ends[group - 1] if group else 0
            if (np.diff(run) == 1).all():
                parts.append(self._slice(group, int(run[0]) - first, len(run)))
            else:
                parts.append(self._group(group).take(pa.array(run - first)))
        found = pa.concat_tables(parts) if parts else self._group(0).slice(0, 0)
        frame: pd.DataFrame = found.to_pandas()
        return frame

    def _slice(self, number: int, start: int, count: int) -> Any:
        """Some rows of a row group; a large one is read piece by piece, and not kept."""
        import pyarrow as pa

        if self._counted[number][2] <= _WHOLE:
            return self._group(number).slice(start, count)
        if self._window is None or self._window.number != number or start < self._window.start:
            self._window = _Window(number, *self._groups[number], self._set.schema)
        parts, stop = [], start + count
        while start < stop:
            while start >= self._window.stop:
                self._window.move()
            piece = self._window.table.slice(
                start - self._window.start, min(stop, self._window.stop) - start
            )
            parts.append(piece)
            start += len(piece)
        return pa.concat_tables(parts)

    def _group(self, number: int) -> Any:
        """A row group as a table; the last one is kept, since parts follow one another."""
        if self._last is None or self._last[0] != number:
            fragment, group = self._groups[number]
            try:
                table = fragment.subset(row_group_ids=[group]).to_table(schema=self._set.schema)
            except (OSError, ValueError) as error:
                raise InputError(f"{fragment.path} cannot be read: {error}") from error
            self._last = number, table
        return self._last[1]

    @cached_property
    def _set(self) -> Any:
        import pyarrow.dataset as ds

        try:
            if isinstance(self._path, str):
                import fsspec
                from pyarrow.fs import FSSpecHandler, PyFileSystem

                system, root = fsspec.core.url_to_fs(self._path)
                files = PyFileSystem(FSSpecHandler(system))
                return ds.dataset(root, filesystem=files, format="parquet", partitioning="hive")
            return ds.dataset(str(self._path), format="parquet", partitioning="hive")
        # Any: each store has errors of its own, and a damaged file may raise anything.
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise InputError(f"{self._path} cannot be read: {reason[0]}") from error

    @cached_property
    def _groups(self) -> list[tuple[Any, int]]:
        """Each row group: its file, and its number there."""
        return [one[:2] for one in self._counted]

    @cached_property
    def _ends(self) -> list[int]:
        """How many rows there are up to the end of each row group."""
        return list(accumulate(count for _, _, count in self._counted))

    @cached_property
    def _counted(self) -> list[tuple[Any, int, int]]:
        fragments = sorted(self._set.get_fragments(), key=lambda one: str(one.path))
        try:
            return [
                (fragment, group.id, group.num_rows)
                for fragment in fragments
                for group in fragment.row_groups
                if group.num_rows
            ]
        except (OSError, ValueError) as error:
            raise InputError(f"{self._path} cannot be read: {error}") from error


class _Window:
    """Some rows of a large row group, which moves on over it.

    Arguments:
        number: the number of the row group.
        fragment, group: its file, and its number there.
        schema: the columns of the data set, among them those that folders are named after.
    """

    def __init__(self, number: int, fragment: Any, group: int, schema: Any) -> None:
        import pyarrow.dataset as ds
        import pyarrow.parquet as pq

        self.number, self._schema = number, schema
        self._keys = ds.get_partition_keys(fragment.partition_expression)
        file = pq.ParquetFile(fragment.filesystem.open_input_file(fragment.path))
        self._batches = file.iter_batches(_PIECE, row_groups=[group])
        self.start = self.stop = 0
        self.move()

    def move(self) -> None:
        """Go on to the next rows."""
        import pyarrow as pa

        table = pa.Table.from_batches([next(self._batches)])
        for name, value in self._keys.items():
            column = pa.array([value] * len(table)).cast(self._schema.field(name).type)
            table = table.append_column(name, column)
        self.table = table.select(self._schema.names).cast(self._schema)
        self.start, self.stop = self.stop, self.stop + len(table)


def open_rows(path: Path | str) -> Rows:
    """The rows of a file, of a folder of Parquet files, or of either in an object store.

    Parquet and .npy files are read as far as rows are needed, and so are large CSV files.

    Arguments:
        path: a path, or an address such as s3://bucket/orders.
    """
    if isinstance(path, str) or path.is_dir() or path.suffix.lower() == ".parquet":
        if isinstance(path, Path) and not path.exists():
            raise InputError(f"There is no file {path}.")
        found = ParquetRows(path)
        if not len(found):
            raise InputError(f"{path} has no rows.")
        return found
    if path.suffix.lower() == ".npy" and path.is_file():
        # Mapped, so that images are read as they are needed; what cannot be is reported below.
        with suppress(Exception):
            return RowsInMemory(str(path), np.load(path, "r", allow_pickle=False))
    if _is_large_csv(path):
        from cfopt.storage.csv_rows import CsvRows

        check_separator(path)
        lines = CsvRows(path)
        if len(lines):
            return lines
    return RowsInMemory(str(path), read_table(path))


def check_rows(path: Path) -> None:
    """Raise InputError if a file, or a folder of Parquet files, cannot be read as rows.

    Of a large CSV file only the first line is looked at.
    """
    if _is_large_csv(path):
        check_separator(path)
    else:
        open_rows(path)


def _is_large_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv" and path.is_file() and path.stat().st_size > _LARGE
