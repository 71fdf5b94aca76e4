"""A part as a Parquet file: a line for each row, or for each of its options, exact to the last bit.

`read_back.py` reads it.

Columns and their types follow from the question, not from the rows, so that all parts of a run make
one data set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from cfopt.engine.latent import norms
from cfopt.pipeline import Columns
from cfopt.result.explanation import Explanation
from cfopt.result.json import clash_to_dict, remedy_to_dict, to_dict
from cfopt.storage.files import write_whole

#: Contexts with more features than this are a list in one column of the table.
_WIDE = 1000
#: What is kept of a row as it is, by the names of its columns.
NUMBERS = {"loss": "loss", "bound": "bound", "violation": "violation"}
COUNTS = {"steps": "steps", "solves": "solves", "passes": "passes"}
LISTS = {
    "factual": "factual",
    "wanted": "wanted",
    "decision": "decision",
    "costs_before": "predicted costs before",
    "costs": "predicted costs after",
}
CODES = {
    "z0": "code before",
    "z": "code",
    "reconstruction": "reconstruction",
    "decision": "decision of reconstruction",
    "costs": "costs of reconstruction",
}
#: Contexts, and what explains them.
SIDES = ("before", "after")
#: What begins the names of columns that hold a criterion's own values.
ASKED = "asked "
#: Our own entry among a file's metadata.
ENTRY = b"cfopt"


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
    table, sink = to_table(e, rows), pa.BufferOutputStream()
    # Numbers hardly ever repeat: to look for it takes as long as all else.
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    pq.write_table(table, sink, compression="zstd", use_dictionary=texts, row_group_size=2**20)
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
        name: pa.array(_host(getattr(lines, key).double())) for key, name in NUMBERS.items()
    }
    columns |= {name: pa.array(_host(getattr(lines, key))) for key, name in COUNTS.items()}
    columns["method"] = pa.array(lines.method, pa.string())
    columns["message"] = pa.array(lines.message, pa.string())
    columns["clash"] = _documents(clash_to_dict(one) for one in lines.clash)
    if lines.radii is not None:
        columns["radius"] = pa.array(_host(lines.radii.length.double()))
        columns["radius kind"] = pa.array(lines.radii.kind, pa.string())
    columns |= _of_rows(e, counts)
    columns |= _contexts(lines)
    columns |= {name: _lists(getattr(lines, key).double()) for key, name in LISTS.items()}
    columns["alternative"] = _lists(lines.alternative.double())
    asked = lines.criterion.row_values()
    columns |= {ASKED + name: _lists(values.double()) for name, values in asked.items()}
    if lines.latent is not None:
        columns |= {
            "norm of code": pa.array(_host(norms(lines.latent.z).double())),
            "in sphere": pa.array(_host(lines.in_sphere())),
            "moved by reconstruction": pa.array(_host(lines.reconstruction_moved)),
        }
        columns |= {name: _lists(getattr(lines.latent, key)) for key, name in CODES.items()}
    return pa.table(columns).replace_schema_metadata({ENTRY: json.dumps(_types(lines))})


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
            for side in SIDES
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
            numbers = _host(x.double())
            words = columns.decode(numbers) if columns.has_text else None
            for name, place in zip(columns.names, columns.layout.places, strict=True):
                # Of numbers, those that were found: a column's own type may have fewer digits.
                found[f"{name} {side}"] = (
                    pa.array(numbers[:, place[0]])
                    if words is None or columns.is_number(name)
                    else _column(columns, name, words[name])
                )
    if not by_feature(e.x0, e.columns):
        found |= {side: _lists(x) for side, x in sides.items()}
    return found


def by_feature(x: Tensor, columns: Columns | None) -> bool:
    """Whether the columns of features say all about contexts."""
    return x.ndim == 2 and x.shape[1] <= _WIDE and (columns is None or not columns.has_text)


def _column(columns: Columns, name: str, values: pd.Series[Any]) -> pa.Array:
    if name in columns.flags:
        return pa.array(values.astype(bool), pa.bool_())
    texts = [None if value is None or pd.isna(value) else str(value) for value in values]
    return pa.array(texts, pa.string())


def _types(e: Explanation) -> dict[str, Any]:
    """Shapes and types that tensors had."""
    tensors = {key: getattr(e, key) for key in (*NUMBERS, *LISTS, "x", "x0")}
    tensors |= {ASKED + key: value for key, value in e.criterion.row_values().items()}
    if e.latent is not None:
        tensors |= {f"latent {key}": getattr(e.latent, key) for key in CODES}
    return {
        key: [str(value.dtype).removeprefix("torch."), list(value.shape[1:])]
        for key, value in tensors.items()
    }


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
