"""A part as a Parquet file: a line for each row, or for each of its options, exact to the last bit.

Columns and their types follow from the question, not from the rows, so that all parts of a run make
one data set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from cfopt.engine.latent import Codes, norms
from cfopt.errors import InputError
from cfopt.fleet.answers import shared
from cfopt.fleet.work import Work
from cfopt.pipeline import Columns
from cfopt.result.explanation import Explanation
from cfopt.result.json import (
    clash_from_dict,
    clash_to_dict,
    from_dict,
    remedy_from_dict,
    remedy_to_dict,
    to_dict,
)
from cfopt.result.radii import Radii
from cfopt.result.status import Status
from cfopt.result.typical import Typical
from cfopt.storage.files import write_whole

#: Contexts with more features than this are a list in one column of the table.
_WIDE = 1000
#: What is kept of a row as it is, by the names of its columns.
_NUMBERS = {"loss": "loss", "bound": "bound", "violation": "violation"}
_COUNTS = {"steps": "steps", "solves": "solves", "passes": "passes"}
_LISTS = {
    "factual": "factual",
    "wanted": "wanted",
    "decision": "decision",
    "costs_before": "predicted costs before",
    "costs": "predicted costs after",
}
_CODES = {
    "z0": "code before",
    "z": "code",
    "reconstruction": "reconstruction",
    "decision": "decision of reconstruction",
    "costs": "costs of reconstruction",
}
#: Contexts, and what explains them.
_SIDES = ("before", "after")
#: What begins the names of columns that hold a criterion's own values.
_ASKED = "asked "
#: Our own entry among a file's metadata.
_ENTRY = b"cfopt"


@dataclass(frozen=True)
class PartFile:
    """What is known of a part that was written: its rows, its bytes, and their digest."""

    rows: int
    size: int
    digest: str


def write_part(path: Path, e: Explanation, rows: Sequence[int]) -> PartFile:
    """Write some rows, whole or not at all.

    Arguments:
        path: the file to write.
        e: the rows.
        rows: their numbers.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(to_table(e, rows), sink, compression="zstd", row_group_size=max(1, 2**20))
    data = sink.getvalue().to_pybytes()
    write_whole(path, data)
    return PartFile(len(e), len(data), hashlib.sha256(data).hexdigest())


def to_table(e: Explanation, rows: Sequence[int]) -> pa.Table:
    """Some rows as a table.

    Arguments:
        e: the rows.
        rows: their numbers.
    """
    lines = e.every_option()
    counts = [1] * len(e) if e.options is None else [len(one) for one in e.options]
    columns: dict[str, pa.Array] = {
        "row": pa.array(np.repeat(np.asarray(rows, dtype=np.int64), counts)),
        "label": pa.array(_each([e.label(i) for i in range(len(e))], counts), pa.string()),
    }
    if e.options is not None:
        numbers = [k + 1 for count in counts for k in range(count)]
        columns["option"] = pa.array(numbers, pa.int32())
    columns |= {
        "status": pa.array([str(one) for one in lines.status], pa.string()),
        "valid": pa.array(_host(lines.valid)),
        "optimal": pa.array(_host(lines.optimal)),
        "tie": pa.array(_host(lines.tie)),
        "distance": pa.array(_host(lines.distance.double())),
    }
    columns |= {
        name: pa.array(_host(getattr(lines, key).double())) for key, name in _NUMBERS.items()
    }
    columns |= {name: pa.array(_host(getattr(lines, key))) for key, name in _COUNTS.items()}
    columns["method"] = pa.array(lines.method, pa.string())
    columns["message"] = pa.array(lines.message, pa.string())
    columns["clash"] = _documents(clash_to_dict(one) for one in lines.clash)
    if lines.radii is not None:
        columns["radius"] = pa.array(_host(lines.radii.length.double()))
        columns["radius kind"] = pa.array(lines.radii.kind, pa.string())
    columns |= _of_rows(e, counts)
    columns |= _contexts(lines)
    columns |= {name: _lists(getattr(lines, key).double()) for key, name in _LISTS.items()}
    columns["alternative"] = _lists(lines.alternative.double())
    asked = lines.criterion.row_values()
    columns |= {_ASKED + name: _lists(values.double()) for name, values in asked.items()}
    if lines.latent is not None:
        columns |= {
            "norm of code": pa.array(_host(norms(lines.latent.z).double())),
            "in sphere": pa.array(_host(lines.in_sphere())),
            "moved by reconstruction": pa.array(_host(lines.reconstruction_moved)),
        }
        columns |= {name: _lists(getattr(lines.latent, key)) for key, name in _CODES.items()}
    return pa.table(columns).replace_schema_metadata({_ENTRY: json.dumps(_types(lines))})


def _of_rows(e: Explanation, counts: Sequence[int]) -> dict[str, pa.Array]:
    """What belongs to a row, and not to each of its options: in its first line."""
    first = [0, *accumulate(counts)][:-1]

    def placed(values: Sequence[Any]) -> list[Any]:
        line: list[Any] = [None] * sum(counts)
        for at, value in zip(first, values, strict=True):
            line[at] = value
        return line

    columns: dict[str, pa.Array] = {}
    if e.typical is not None:
        columns |= {
            f"percentile {side}": pa.array(placed(getattr(e.typical, side).tolist()), pa.float64())
            for side in _SIDES
        }
    helped = [remedy_to_dict(one) for one in e.remedy] or [None] * len(e)
    columns["remedy"] = _documents(placed(helped))
    if e.prices is not None:
        prices = [to_dict(e.prices[i]) for i in range(len(e))]
        columns["prices"] = _documents(placed(prices))
    return columns


def _contexts(e: Explanation) -> dict[str, pa.Array]:
    """A column for each feature before and after; lists where they would be many, or lose bits."""
    found: dict[str, pa.Array] = {}
    sides = {"before": e.x0, "after": e.x}
    if e.x0[0].numel() <= _WIDE and e.x0.ndim == 2:
        names = e.features.labels(e.x0.shape[1])
        columns = Columns(names) if e.columns is None else e.columns
        for side, x in sides.items():
            frame = columns.decode(x.double().cpu().numpy())
            found |= {f"{name} {side}": _column(columns, str(name), v) for name, v in frame.items()}
    if not _by_feature(e.x0, e.columns):
        found |= {side: _lists(x) for side, x in sides.items()}
    return found


def _by_feature(x: Tensor, columns: Columns | None) -> bool:
    """Whether the columns of features say all about contexts."""
    return x.ndim == 2 and x.shape[1] <= _WIDE and (columns is None or not columns.has_text)


def _column(columns: Columns, name: str, values: pd.Series[Any]) -> pa.Array:
    if name in columns.flags:
        return pa.array(values.astype(bool), pa.bool_())
    if name not in columns.categories:
        return pa.array(values.to_numpy(dtype=np.float64))
    texts = [None if value is None or pd.isna(value) else str(value) for value in values]
    return pa.array(texts, pa.string())


def _types(e: Explanation) -> dict[str, Any]:
    """Shapes and types that tensors had."""
    tensors = {key: getattr(e, key) for key in (*_NUMBERS, *_LISTS, "x", "x0")}
    tensors |= {_ASKED + key: value for key, value in e.criterion.row_values().items()}
    if e.latent is not None:
        tensors |= {f"latent {key}": getattr(e.latent, key) for key in _CODES}
    return {
        key: [str(value.dtype).removeprefix("torch."), list(value.shape[1:])]
        for key, value in tensors.items()
    }


def read_part(path: Path, work: Work, rows: Sequence[int] | None = None) -> Explanation:
    """The rows that `write_part` wrote.

    Arguments:
        path: the file to read.
        work: the work whose rows they are.
        rows: the numbers that they must have; None for any.
    """
    try:
        return from_table(pq.read_table(path, partitioning=None), work, rows)
    # Any: a damaged file may raise anything.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"The rows in {path} cannot be read: {reason}. Delete it to compute them again."
        ) from error


def from_table(table: pa.Table, work: Work, rows: Sequence[int] | None = None) -> Explanation:
    """The rows of a table that `to_table` made."""
    numbers = table["row"].to_numpy()
    first = np.flatnonzero(np.diff(numbers, prepend=-1))
    if rows is not None and not np.array_equal(numbers[first], np.asarray(rows)):
        raise ValueError(f"it has {len(first)} rows, not {len(rows)}, or others")
    lines = _lines(table, work)
    if "option" in table.column_names:
        ends = [*first[1:].tolist(), len(numbers)]
        options = tuple(lines[a:b] for a, b in zip(first.tolist(), ends, strict=True))
        e = replace(lines[torch.from_numpy(first)], options=options)
    else:
        e = lines
    table = table.take(first)
    problem = work.pipeline.problem
    known: dict[str, Any] = {
        "remedy": tuple(
            remedy_from_dict(_document(one), problem) for one in _texts(table, "remedy")
        )
    }
    if "percentile before" in table.column_names:
        sides = [table[f"percentile {side}"].to_numpy().copy() for side in _SIDES]
        known["typical"] = Typical(*map(torch.from_numpy, sides))
    if "prices" in table.column_names:
        priced = [from_dict(_document(one), problem) for one in _texts(table, "prices")]
        known["prices"] = Explanation.concat(priced)
    return replace(e, **known)


def _lines(table: pa.Table, work: Work) -> Explanation:
    types = json.loads(table.schema.metadata[_ENTRY])

    def tensor(key: str, column: str) -> Tensor:
        dtype, shape = types[key]
        values = table[column].combine_chunks()
        values = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
        array = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=True)
        return torch.from_numpy(array).reshape(-1, *shape).to(getattr(torch, dtype))

    columns = work.first.contexts.columns
    asked = [name for name in types if name.startswith(_ASKED)]
    tensors: dict[str, Any] = {
        key: tensor(key, name) for key, name in {**_NUMBERS, **_LISTS}.items()
    }
    for key, side in (("x0", "before"), ("x", "after")):
        dtype, shape = types[key]
        if _by_feature(torch.empty((0, *shape)), columns):
            names = work.first.contexts.features.labels(shape[0])
            wide = [table[f"{name} {side}"].to_numpy() for name in names]
            tensors[key] = torch.from_numpy(np.stack(wide, axis=1)).to(getattr(torch, dtype))
        else:
            tensors[key] = tensor(key, side)
    for key, name in _COUNTS.items():
        tensors[key] = torch.from_numpy(table[name].to_numpy().copy())
    codes = {
        key: tensor(f"latent {key}", name)
        for key, name in _CODES.items()
        if f"latent {key}" in types
    }
    radii = None
    if "radius" in table.column_names:
        length = torch.from_numpy(table["radius"].to_numpy().copy()).to(tensors["loss"])
        radii = Radii(length, tuple(_texts(table, "radius kind")))
    return Explanation(
        **tensors,
        radii=radii,
        tie=torch.from_numpy(table["tie"].to_numpy().copy()),
        status=tuple(Status(one) for one in _texts(table, "status")),
        message=tuple(_texts(table, "message")),
        method=tuple(_texts(table, "method")),
        clash=tuple(clash_from_dict(_document(one)) for one in _texts(table, "clash")),
        latent=Codes(**codes) if codes else None,
        **shared(
            work,
            tuple(_texts(table, "label")),
            {name.removeprefix(_ASKED): tensor(name, name) for name in asked},
        ),
    )


def _host(values: Tensor) -> Any:
    return values.detach().cpu().numpy()


def _lists(values: Tensor) -> pa.Array:
    """A tensor `(B, ...)` as a list for each row."""
    flat = values.detach().cpu().flatten(1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1).numpy()), flat.shape[1])


def _each(values: Sequence[Any], counts: Sequence[int]) -> list[Any]:
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]


def _documents(values: Iterable[Any]) -> pa.Array:
    """Plain values as JSON; null where there is nothing."""
    texts = [None if value is None else json.dumps(value, allow_nan=False) for value in values]
    return pa.array(texts, pa.string())


def _document(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _texts(table: pa.Table, name: str) -> list[Any]:
    found: list[Any] = table[name].to_pylist()
    return found
