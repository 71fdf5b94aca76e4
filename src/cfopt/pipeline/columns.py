"""The columns of a DataFrame as numbers, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.names import join_words, nearest
from cfopt.question.categories import Layout, checked_categories

#: How many values of a category a message lists.
_LISTED = 8


@dataclass(frozen=True)
class Columns:
    """How the columns of a DataFrame become the features of a context, and back.

    Numbers stay as they are, True and False become 1 and 0, and a category has a 0 or 1 for each
    of its values.

    Arguments:
        names: the columns.
        categories: the values of those that take one of several.
        dtypes: the types that columns have in a DataFrame, as far as they are known.
    """

    names: Sequence[str]
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dtypes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "categories", checked_categories(self.categories))
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InputError(f"The DataFrame has two columns {twice!r}. Rename one of them.")
        _ = self.layout  # so that contradictions are found where they are written

    @classmethod
    def of(
        cls, frame: pd.DataFrame, categories: Mapping[str, Sequence[Any]] | None = None
    ) -> Columns:
        """Those of a DataFrame.

        Arguments:
            frame: rows that have all values that categories can take, such as the training data.
            categories: the values of some columns, which then need not occur.
        """
        frame = frame.rename(columns=str)
        found = dict(categories or {})
        for name, values in frame.items():
            dtype = values.dtype
            if name in found or pd.api.types.is_numeric_dtype(dtype):
                continue  # truth values among them
            if isinstance(dtype, pd.CategoricalDtype):
                found[str(name)] = dtype.categories.tolist()
            elif pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
                found[str(name)] = sorted(values.dropna().unique().tolist(), key=str)
            else:
                raise InputError(
                    f"Columns are numbers, truth values or categories; {name!r} has type {dtype}. "
                    "Turn it into a number."
                )
        return cls(tuple(frame.columns), found).typed(frame)

    def typed(self, frame: pd.DataFrame) -> Columns:
        """The same columns with the types of a DataFrame."""
        known = frame.rename(columns=str).dtypes.to_dict()
        return replace(self, dtypes={name: known[name] for name in self.names if name in known})

    @cached_property
    def layout(self) -> Layout:
        """Which features stand for each column."""
        return Layout(tuple(self.names), self.categories)

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The columns that are True or False."""
        return tuple(
            name
            for name, dtype in self.dtypes.items()
            if pd.api.types.is_bool_dtype(dtype) and name not in self.categories
        )

    @property
    def has_text(self) -> bool:
        """Whether some values are not numbers."""
        return bool(self.categories or self.flags)

    def is_number(self, name: str) -> bool:
        """Whether a column is neither a category nor a truth value."""
        return name not in self.categories and name not in self.flags

    def encode(self, frame: pd.DataFrame) -> Array:
        """The features of each row, `(B, p)`; NaN where a value is missing.

        Other columns are left out.
        """
        frame = frame.rename(columns=str)
        for name in self.names:
            if name not in frame.columns:
                raise InputError(nearest("column", name, frame.columns))
        encoded = np.zeros((len(frame), len(self.layout.labels)))
        for name, place in zip(self.names, self.layout.places, strict=True):
            values = frame[name]
            if name in self.categories:
                encoded[:, list(place)] = self._one_hot(name, values)
            elif pd.api.types.is_numeric_dtype(values.dtype):
                encoded[:, place[0]] = values.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                raise InputError(
                    f"Column {name!r} needs numbers, but has type {values.dtype}. If it takes one "
                    f"of several values, say so: Features(categories={{{name!r}: [...]}}); for a "
                    "model that reads DataFrames, Function(model.predict, like=its training data)."
                )
        return encoded

    def _one_hot(self, name: str, values: pd.Series[Any]) -> Array:
        taken = self.categories[name]
        numbers = {value: j for j, value in enumerate(taken)}
        missing = values.isna().to_numpy()
        rows = np.zeros((len(values), len(taken)))
        for row, value in enumerate(values.tolist()):
            if missing[row]:
                value = None
            elif value not in numbers:
                texts = [str(one) for one in taken]
                near = get_close_matches(str(value), texts, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise InputError(
                    f"Column {name!r} needs one of {join_words(texts, 'or', _LISTED)}; "
                    f"row {row} has {value!r}.{hint}"
                )
            if value in numbers:
                rows[row, numbers[value]] = 1.0
            else:
                rows[row] = np.nan
        return rows

    def decode(self, x: Array) -> pd.DataFrame:
        """Features as a DataFrame with the types that are known: `(B, p)` to B rows.

        Of a category, the value whose feature is largest. Numbers that are not whole stay so, even
        in a column of whole numbers.
        """
        return pd.DataFrame(
            {
                name: self._column(name, x[:, list(place)])
                for name, place in zip(self.names, self.layout.places, strict=True)
            }
        )

    def _column(self, name: str, x: Array) -> Any:
        dtype = self.dtypes.get(name)
        if name in self.categories:
            return self._values(name, x, dtype)
        values = x[:, 0]
        if dtype is None or (np.isnan(values).any() and not pd.api.types.is_float_dtype(dtype)):
            return values
        if pd.api.types.is_bool_dtype(dtype):
            return pd.Series(values > 0.5).astype(dtype)
        if pd.api.types.is_integer_dtype(dtype) and (values != np.round(values)).any():
            return values
        return pd.Series(values).astype(dtype)

    def _values(self, name: str, x: Array, dtype: Any) -> Any:
        taken = self.categories[name]
        numbers = all(isinstance(value, (bool, int, float)) for value in taken)
        known = ~np.isnan(x).any(axis=1)
        array = np.empty(len(taken), dtype=object)
        array[:] = taken
        values = array[np.nan_to_num(x).argmax(axis=1)]
        values[~known] = None
        if isinstance(dtype, pd.CategoricalDtype):
            return pd.Categorical(values, dtype=dtype)
        if dtype is not None:
            return pd.Series(values, dtype=object).astype(dtype)
        return np.array(values.tolist()) if numbers and known.all() else values

    def cell(self, x: Array, column: int) -> Any:
        """The value of one column of a single row, `(p,)`."""
        name, place = self.names[column], self.layout.places[column]
        if name in self.categories:
            values = x[list(place)]
            return np.nan if np.isnan(values).any() else self.categories[name][int(values.argmax())]
        value = float(x[place[0]])
        return value > 0.5 if name in self.flags and not math.isnan(value) else value

    def records(self, x: Array) -> list[dict[str, Any]]:
        """Each row as values by column, `(B, p)`; None where one is missing."""
        rows = [[self.cell(row, j) for j in range(len(self.names))] for row in x]
        known = [[None if pd.isna(value) else value for value in row] for row in rows]
        return [dict(zip(self.names, row, strict=True)) for row in known]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "names": list(self.names),
            "categories": {name: list(values) for name, values in self.categories.items()},
            "dtypes": {name: str(dtype) for name, dtype in self.dtypes.items()},
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Columns:
        """What `to_dict` described; that a category's values are ordered is not kept."""
        categories = content["categories"]
        dtypes = {
            name: pd.CategoricalDtype(categories.get(name))
            if text == "category"
            else pd.api.types.pandas_dtype(text)
            for name, text in content["dtypes"].items()
        }
        return cls(content["names"], categories, dtypes)
