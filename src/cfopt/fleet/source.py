"""Contexts that are read from a table when they are needed, some rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cfopt.errors import InputError
from cfopt.names import nearest
from cfopt.pipeline import Columns, Pipeline
from cfopt.pipeline.contexts import Contexts
from cfopt.question.features import Features
from cfopt.storage.rows import Rows, RowsInMemory, Table
from cfopt.storage.tables import check_numbers, select

#: How many channels an image may have to be known as one.
_CHANNELS = (1, 3, 4)
#: Rows that are looked at before a run, where the others are not at hand.
_LOOKED_AT = 16


@dataclass(frozen=True, eq=False)
class ContextSource:
    """Rows of a table as contexts, with names and labels.

    Arguments:
        rows: the table.
        pipeline: the pipeline that reads them.
        features: what is known of them.
        label: the column with the rows' labels, which is not a feature.
        shape: the shape of one context, where a generative model declares it.
    """

    rows: Rows
    pipeline: Pipeline
    features: Features
    label: str | None = None
    shape: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls,
        rows: Rows,
        pipeline: Pipeline,
        features: Features,
        label: str | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> ContextSource:
        """A source whose rows can be read, as far as that can be known beforehand.

        Where all rows are at hand all are looked at, else the first and the types of columns.
        """
        if isinstance(rows, RowsInMemory):
            if isinstance(rows.table, np.ndarray):
                array = check_numbers(rows.table, Path(rows.name))
                rows = RowsInMemory(rows.name, _batch(array, rows.name))
            source = cls(rows, pipeline, features, label, shape)
            source._select(rows.table, range(len(rows)))
        else:
            source = cls(rows, pipeline, features, label, shape)
        source.read(range(min(_LOOKED_AT, len(rows))))
        return source

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, numbers: Sequence[int]) -> Contexts:
        """Some rows by their numbers in the table."""
        try:
            picked, labels = self._select(self.rows.read(numbers), numbers)
            found = Contexts.of(picked, self.pipeline, self.features, shape=self.shape)
        except InputError as error:
            said = str(error)
            raise InputError(
                said if self.rows.name in said else f"{self.rows.name}: {said}"
            ) from error
        return replace(found, labels=tuple(labels))

    def in_units_of(self, reference: Any) -> ContextSource:
        """These rows in the usual changes of known contexts: learned once, for every row of a run.

        Arguments:
            reference: the known contexts in any form; None without.
        """
        described, _ = self.read([0]).beside(reference, self.pipeline)
        usual = described.features.usual
        return replace(self, features=replace(self.features, usual=usual))

    def left_out(self) -> list[str]:
        """The columns that are not features."""
        first = self.rows.read([0])
        if isinstance(first, np.ndarray):
            return []
        picked, _ = self._select(first, [0])
        return [str(name) for name in first.columns if str(name) not in {*picked, self.label}]

    def _select(self, table: Table, numbers: Sequence[int]) -> tuple[Any, list[str]]:
        """The features of some rows, and what the rows are called.

        A model that knows its columns, and the values of categories among them, is asked for these.
        """
        path = Path(self.rows.name)
        if isinstance(table, np.ndarray):
            if self.label is not None:
                raise InputError(
                    f"{path} has no columns, so that none can be the label {self.label!r}."
                )
            return check_numbers(table, path), [str(number) for number in numbers]
        labels = [str(number) for number in numbers]
        if self.label is not None:
            labels = _labels(table, self.label, numbers, path)
            table = table.drop(columns=self.label)
        known: Columns | None = getattr(self.pipeline.predictor, "columns", None)
        names = None if self.features.names is None else tuple(self.features.names)
        names = tuple(known.names) if names is None and known is not None else names
        categories = {*self.features.categories, *(known.categories if known is not None else ())}
        return select(table, names, path, categories), labels


def _batch(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """An array with an axis of rows: a vector or one image becomes a batch of one."""
    if array.ndim == 3 and not {array.shape[0], array.shape[2]} & set(_CHANNELS):
        raise InputError(
            f"{name} needs images as (rows, channels, height, width), or one image with 1, 3 or 4 "
            f"channels; got shape {array.shape}. Grey images are (rows, 1, height, width)."
        )
    return array[None] if array.ndim in (1, 3) else array


def _labels(table: pd.DataFrame, label: str, numbers: Sequence[int], path: Path) -> list[str]:
    """What rows are called: the values of a column, which is not a feature."""
    if label not in table.columns:
        names = [str(column) for column in table.columns]
        raise InputError(f"{path}: {nearest('column', label, names)}")
    return [
        str(value) if pd.notna(value) else f"row {number}"
        for number, value in zip(numbers, table[label], strict=True)
    ]
