"""The rows of a part, read back from its table as they were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from cfopt.engine.latent import Codes
from cfopt.fleet.answers import shared
from cfopt.fleet.table import (
    ASKED,
    CODES,
    COUNTS,
    ENTRY,
    LISTS,
    NUMBERS,
    SIDES,
    by_feature,
)
from cfopt.fleet.work import Work
from cfopt.result.explanation import Explanation
from cfopt.result.json import clash_from_dict, from_dict, remedy_from_dict
from cfopt.result.radii import Radii
from cfopt.result.status import Status
from cfopt.result.typical import Typical


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
        sides = [table[f"percentile {side}"].to_numpy().copy() for side in SIDES]
        known["typical"] = Typical(*map(torch.from_numpy, sides))
    if "prices" in table.column_names:
        priced = [from_dict(_document(one), problem) for one in _texts(table, "prices")]
        known["prices"] = Explanation.concat(priced)
    return replace(e, **known)


def _lines(table: pa.Table, work: Work) -> Explanation:
    types = json.loads(table.schema.metadata[ENTRY])

    def tensor(key: str, column: str) -> Tensor:
        dtype, shape = types[key]
        values = table[column].combine_chunks()
        values = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
        array = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=True)
        return torch.from_numpy(array).reshape(-1, *shape).to(getattr(torch, dtype))

    columns = work.first.contexts.columns
    asked = [name for name in types if name.startswith(ASKED)]
    tensors: dict[str, Any] = {key: tensor(key, name) for key, name in {**NUMBERS, **LISTS}.items()}
    for key, side in (("x0", "before"), ("x", "after")):
        dtype, shape = types[key]
        if by_feature(torch.empty((0, *shape)), columns):
            names = work.first.contexts.features.labels(shape[0])
            wide = [table[f"{name} {side}"].to_numpy() for name in names]
            tensors[key] = torch.from_numpy(np.stack(wide, axis=1)).to(getattr(torch, dtype))
        else:
            tensors[key] = tensor(key, side)
    for key, name in COUNTS.items():
        tensors[key] = torch.from_numpy(table[name].to_numpy().copy())
    codes = {
        key: tensor(f"latent {key}", name)
        for key, name in CODES.items()
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
            {name.removeprefix(ASKED): tensor(name, name) for name in asked},
        ),
    )


def _document(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _texts(table: pa.Table, name: str) -> list[Any]:
    found: list[Any] = table[name].to_pylist()
    return found
