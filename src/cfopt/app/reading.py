"""Contexts of a configuration: where they are, and which rows are meant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from cfopt.app.sources import ReferenceSource, TableSource
from cfopt.errors import InputError
from cfopt.fleet.source import ContextSource
from cfopt.generative.protocol import GenerativeModel
from cfopt.pipeline import Pipeline
from cfopt.question.features import Features
from cfopt.storage.rows import open_rows


def open_contexts(
    source: TableSource,
    features: Features,
    pipeline: Pipeline,
    generative: GenerativeModel | None,
) -> tuple[ContextSource, list[str]]:
    """The contexts of a file, read when they are needed, and notes on what was left out.

    Arguments:
        source: the file.
        features: what is known of them.
        pipeline: the pipeline that reads them.
        generative: a model that may declare their shape.
    """
    shape = getattr(generative, "context_shape", None)
    found = ContextSource.of(open_rows(source.file), pipeline, features, source.label, shape)
    left = found.left_out()
    name = Path(source.file).name
    return found, [f"{name}: left out, not a feature: {', '.join(left)}"] if left else []


def read_more(source: ReferenceSource, like: ContextSource) -> Tensor:
    """Further contexts of the same kind, `(N, ...)`.

    Arguments:
        source: the file.
        like: the contexts that they go with.
    """
    first = like.read([0])
    shape = tuple(first.x.shape[1:])
    rows = open_rows(source.file)
    more = ContextSource.of(rows, like.pipeline, first.features, shape=shape)
    x = more.read(range(len(rows))).x
    if x.shape[1:] != shape:
        raise InputError(
            f"{source.file}: reference needs contexts of shape {shape}, as x0 has; got "
            f"{tuple(x.shape[1:])}."
        )
    return x


def chosen_rows(source: TableSource, total: int) -> Sequence[int]:
    """The numbers of the rows that are meant.

    Arguments:
        source: where they come from.
        total: how many the file has.
    """
    rows = source.rows
    if rows is None:
        return range(total)
    if isinstance(rows, int):
        return range(min(rows, total))
    beyond = [row for row in rows if row >= total]
    if beyond:
        raise InputError(
            f"rows names row {beyond[0]}, but {source.file} has rows 0 to {total - 1}."
        )
    return rows
