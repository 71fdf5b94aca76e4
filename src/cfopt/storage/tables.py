"""Numbers in files: CSV, Parquet and NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from cfopt.errors import InputError
from cfopt.names import nearest

#: What stands between columns in files that some programs write.
_OTHER_SEPARATORS = (";", "\t")


def read_table(path: Path) -> pd.DataFrame | np.ndarray[Any, Any]:
    """A file as it is: a DataFrame, or of a .npy file an array.

    Arguments:
        path: ends with .csv (with a line of column names), .parquet or .npy.
    """
    readers: dict[str, Callable[[Path], Any]] = {
        ".csv": lambda file: parse_csv(file, file),
        ".parquet": pd.read_parquet,
        # Pickled objects could execute code.
        ".npy": lambda file: np.load(file, allow_pickle=False),
    }
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path} needs to be one of {', '.join(readers)}.")
    try:
        if path.suffix.lower() == ".csv":
            check_separator(path)
        table: pd.DataFrame | np.ndarray[Any, Any] = reader(path)
    except InputError:
        raise
    # Any: each reader has errors of its own, and a damaged file may raise anything.
    except Exception as error:
        raise _unreadable(path, error) from error
    if np.ndim(table) and not len(table):
        raise InputError(f"{path} has no rows.")
    return table


def _unreadable(path: Path, error: Exception) -> InputError:
    if isinstance(error, UnicodeDecodeError):
        return InputError(f"{path} is not encoded in UTF-8. Save it as UTF-8.")
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return InputError(f"{path} cannot be read: {reason}")


def parse_csv(
    file: Path | IO[bytes], path: Path, kinds: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """A table with a line of column names, whose columns are all known by name.

    A first column without a name would be taken for the names of rows, and shift the others.

    Arguments:
        file: the file, or a part of it with its line of column names.
        path: what the file is called in messages.
        kinds: the types of some columns.
    """
    try:
        table: pd.DataFrame = pd.read_csv(file, dtype=None if kinds is None else dict(kinds))
    # Any: a damaged file may raise anything.
    except Exception as error:
        raise _unreadable(path, error) from error
    if not isinstance(table.index, pd.RangeIndex):
        raise InputError(
            f"{path}: its rows have more fields than its line of column names. Give each column a "
            "name, or drop the separator at the ends of lines."
        )
    return table


def check_separator(path: Path) -> None:
    """Raise InputError where something else than commas stands between the names of columns.

    All of them would be one column; and numbers with commas would be taken apart.
    """
    # Bytes: the encoding is looked at next, and the separators are the same in all that are usual.
    with path.open("rb") as file:
        first = file.readline().partition(b",")[0]
    for separator in _OTHER_SEPARATORS:
        if separator.encode() in first:
            raise InputError(
                f"{path} needs commas between its columns, and points in its numbers; its "
                f"separator seems to be {separator!r}. Save it with commas and points."
            )


def read_numbers(path: Path, names: tuple[str, ...] | None = None) -> np.ndarray[Any, Any]:
    """A file as an array of numbers: tables have a row for each line, `(rows, columns)`.

    Arguments:
        path: the file to read.
        names: the names of the columns, in order; a table that has some of them is read by name,
            any other as it stands.
    """
    return numbers_of(read_table(path), path, names)


def read_argument(path: Path) -> Any:
    """What a file holds for an argument of a problem: a network, where nodes lie, or numbers.

    A table with columns `from` and `to` is a list of edges, `[(node, node), ...]`; one with columns
    `node`, `x` and `y` says where nodes lie, `{node: (x, y)}`. Anything else is an array.

    Arguments:
        path: ends with .csv (with a line of column names), .parquet or .npy.
    """
    table = read_table(path)
    if isinstance(table, pd.DataFrame):
        if {"from", "to"} <= set(table.columns):
            return list(zip(*_nodes(table, path, "from", "to"), strict=True))
        if {"node", "x", "y"} <= set(table.columns):
            (nodes,) = _nodes(table, path, "node")
            places = numeric(table[["x", "y"]], path).to_numpy(dtype=np.float64)
            return dict(zip(nodes, places.tolist(), strict=True))
    return numbers_of(table, path)


def _nodes(table: pd.DataFrame, path: Path, *names: str) -> list[list[Any]]:
    """Columns of nodes: whole numbers if all of them are, else names."""
    columns = table[list(names)]
    if columns.isna().any(axis=None):
        row = int(columns.isna().any(axis=1).to_numpy().argmax())
        raise InputError(
            f"{path} needs a node in each row of {' and '.join(names)}; row {row} lacks one."
        )
    whole = all(kind.kind in "iu" for kind in columns.dtypes)
    return [(column if whole else column.astype(str)).tolist() for _, column in columns.items()]


def numbers_of(
    table: pd.DataFrame | np.ndarray[Any, Any], path: Path, names: tuple[str, ...] | None = None
) -> np.ndarray[Any, Any]:
    """A table as an array of numbers, as `read_numbers` does."""
    if isinstance(table, pd.DataFrame):
        if names is not None and not {str(column) for column in table.columns}.isdisjoint(names):
            table = select(table, names, path)
        return numeric(table, path).to_numpy(dtype=np.float64, na_value=np.nan)
    return check_numbers(table, path)


def check_numbers(array: np.ndarray[Any, Any], path: Path) -> np.ndarray[Any, Any]:
    """The array, if it holds real numbers and has an axis."""
    if array.dtype.kind not in "fiub":
        raise InputError(f"{path} needs real numbers, got {array.dtype}.")
    if array.ndim == 0:
        raise InputError(f"{path} needs an array with rows, got a single number.")
    return array


def select(
    table: pd.DataFrame,
    names: tuple[str, ...] | None,
    path: Path,
    categories: Collection[str] = (),
) -> pd.DataFrame:
    """The columns of some names in their order, all of them by default; numbers and categories.

    Arguments:
        table: the table with all its columns.
        names: the names of the features; None for every column.
        path: the name of the file, for messages.
        categories: the names of columns that need not be numbers.
    """
    table = table.rename(columns=str) if names is None else pick(table, names, path)
    numbers = [name for name in table.columns if name not in categories]
    return table.assign(**numeric(table[numbers], path))


def pick(table: pd.DataFrame, names: Sequence[str], path: Path) -> pd.DataFrame:
    """The columns of some names, in their order; InputError where one is not there."""
    table = table.rename(columns=str)
    missing = [name for name in names if name not in table.columns]
    if missing:
        more = f" ({len(missing)} features have none)" if len(missing) > 1 else ""
        raise InputError(f"{path}: {nearest('column', missing[0], table.columns)}{more}")
    return table[list(names)]


def numeric(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The table, if it holds numbers only; empty cells become NaN."""
    for column in table.columns:
        values = table[column]
        if pd.api.types.is_numeric_dtype(values):
            continue
        wrong = pd.to_numeric(values, errors="coerce").isna() & values.notna()
        row = int(wrong.to_numpy().argmax())
        got = str(values.iloc[row])
        if re.fullmatch(r"\s*[-+]?\d+,\d+\s*", got):
            raise InputError(
                f"{path}: column {str(column)!r} needs points in its numbers; row {row} has "
                f"{got!r:.40}. Save it with points in place of these commas."
            )
        raise InputError(
            f"{path}: column {str(column)!r} needs numbers; row {row} has {got!r:.40}. Say in "
            "[features] which values it takes, as one of its categories, or name the features "
            "there; or make it the label in [contexts]."
        )
    return table.astype(np.float64)
