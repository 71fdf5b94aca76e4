"""Contexts of a file: numbers, names and labels, and which rows are meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from cfopt.app.config import ReferenceSource, TableSource
from cfopt.app.tables import check_numbers, read_table, select
from cfopt.errors import InputError
from cfopt.generative.protocol import GenerativeModel
from cfopt.names import nearest
from cfopt.pipeline import Columns, Pipeline
from cfopt.pipeline.contexts import Contexts
from cfopt.question.features import Features

#: How many channels an image may have to be known as one.
_CHANNELS = (1, 3, 4)


def read_contexts(
    source: TableSource,
    features: Features,
    pipeline: Pipeline,
    generative: GenerativeModel | None,
) -> tuple[Contexts, list[Any], list[str]]:
    """All contexts of a file, what rows are called, and notes on what was left out.

    Arguments:
        source: the file.
        features: what is known of them.
        pipeline: the pipeline that reads them.
        generative: a model that may declare their shape.
    """
    shape = getattr(generative, "context_shape", None)
    try:
        table, labels, notes = _table(source.file, features, pipeline, source.label)
        return Contexts.of(table, pipeline, features, shape=shape), labels, notes
    except InputError as error:
        raise InputError(_with_file(source.file, error)) from error


def read_more(source: ReferenceSource, like: Contexts, pipeline: Pipeline) -> Tensor:
    """Further contexts of the same kind, `(N, ...)`.

    Arguments:
        source: the file.
        like: the contexts that they go with.
        pipeline: the pipeline that reads them.
    """
    try:
        return like.alike(_table(source.file, like.features, pipeline)[0], pipeline)
    except InputError as error:
        raise InputError(_with_file(source.file, error)) from error


def _with_file(path: Path, error: InputError) -> str:
    said = str(error)
    return said if str(path) in said else f"{path}: {said}"


def _table(
    path: Path, features: Features, pipeline: Pipeline, label: str | None = None
) -> tuple[Any, list[Any], list[str]]:
    """Contexts of a file, what rows are called, and what was left out.

    A model that knows its columns, and the values of categories among them, is asked for these.
    """
    table = read_table(path)
    if isinstance(table, np.ndarray):
        if label is not None:
            raise InputError(f"{path} has no columns, so that none can be the label {label!r}.")
        table = _batch(check_numbers(table, path), path)
        return table, list(range(len(table))), []
    labels: list[Any] = list(range(len(table)))
    if label is not None:
        labels = _labels(table, label, path)
        table = table.drop(columns=label)
    known: Columns | None = getattr(pipeline.predictor, "columns", None)
    names = None if features.names is None else tuple(features.names)
    names = tuple(known.names) if names is None and known is not None else names
    categories = {*features.categories, *(known.categories if known is not None else ())}
    picked = select(table, names, path, categories)
    left = [str(column) for column in table.columns if str(column) not in picked.columns]
    notes = [f"{path.name}: left out, not a feature: {', '.join(left)}"] if left else []
    return picked, labels, notes


def _batch(array: np.ndarray[Any, Any], path: Path) -> np.ndarray[Any, Any]:
    """An array with an axis of rows: a vector or one image becomes a batch of one."""
    if array.ndim == 3 and not {array.shape[0], array.shape[2]} & set(_CHANNELS):
        raise InputError(
            f"{path} needs images as (rows, channels, height, width), or one image with 1, 3 or 4 "
            f"channels; got shape {array.shape}. Grey images are (rows, 1, height, width)."
        )
    return array[None] if array.ndim in (1, 3) else array


def _labels(table: pd.DataFrame, label: str, path: Path) -> list[Any]:
    """What rows are called: the values of a column, which is not a feature."""
    if label not in table.columns:
        names = [str(column) for column in table.columns]
        raise InputError(f"{path}: {nearest('column', label, names)}")
    return [
        str(value) if pd.notna(value) else f"row {row}" for row, value in enumerate(table[label])
    ]


def chosen_rows(source: TableSource, total: int) -> list[int]:
    """The numbers of the rows that are meant.

    Arguments:
        source: where they come from.
        total: how many the file has.
    """
    rows = source.rows
    if rows is None:
        return list(range(total))
    if isinstance(rows, int):
        return list(range(min(rows, total)))
    beyond = [row for row in rows if row >= total]
    if beyond:
        raise InputError(
            f"rows names row {beyond[0]}, but {source.file} has rows 0 to {total - 1}."
        )
    return list(rows)
