"""Explanations as JSON lines: what was asked in the first, then a line for each row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cfopt.errors import InputError
from cfopt.problems.base import Problem
from cfopt.result.explanation import Explanation
from cfopt.result.json import from_dict, to_dict

#: What a document holds beside its rows: lists with an entry for each of them, and tensors.
_LISTS, _TENSORS = ("radius", "options", "remedy"), ("latent", "typical")


def to_lines(e: Explanation, first: bool = True) -> Iterator[str]:
    """The lines of some rows, each with its end.

    Arguments:
        e: the rows.
        first: whether the line that says what was asked comes before them.
    """
    content = to_dict(replace(e, prices=None))  # an explanation of its own, which rows take apart
    rows = content.pop("rows")
    lists = {name: content.pop(name) for name in _LISTS}
    groups = {name: content.pop(name) for name in _TENSORS}
    if first:
        yield _line(content)
    for i, row in enumerate(rows):
        row |= {name: values[i] for name, values in lists.items() if values}
        row |= {name: _taken(one, i, len(rows)) for name, one in groups.items() if one is not None}
        if e.prices is not None:
            row["prices"] = to_dict(e.prices[i])
        yield _line(row)


def _taken(group: dict[str, Any], row: int, count: int) -> dict[str, Any]:
    """One row of tensors that are described as plain values."""
    found = {}
    for name, one in group.items():
        size = len(one["values"]) // count
        values = one["values"][row * size : (row + 1) * size]
        found[name] = {**one, "shape": [1, *one["shape"][1:]], "values": values}
    return found


def _joined(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """All rows of what `_taken` took apart."""
    found = {}
    for name, one in groups[0].items():
        values = [value for group in groups for value in group[name]["values"]]
        found[name] = {**one, "shape": [len(groups), *one["shape"][1:]], "values": values}
    return found


def from_lines(lines: Iterable[str], problem: Problem | None = None) -> Explanation:
    """The explanation that `to_lines` described; what only some of its rows have is left out."""
    try:
        content, *rows = [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise InputError(f"Not a file of JSON lines: {error}.") from error
    if not isinstance(content, dict) or not all(isinstance(row, dict) for row in rows):
        raise InputError("Not a file of JSON lines: each line needs to be an object.")
    own: dict[str, list[Any]] = {}
    for name in (*_LISTS, *_TENSORS, "prices"):
        values = [row.pop(name) for row in rows if name in row]
        if rows and len(values) == len(rows):
            own[name] = values
    lists = {name: own.get(name) for name in _LISTS} | {"remedy": own.get("remedy", [])}
    groups = {name: _joined(own[name]) if name in own else None for name in _TENSORS}
    e = from_dict({**content, **lists, **groups, "rows": rows}, problem)
    prices = [from_dict(one, problem) for one in own.get("prices", ())]
    return replace(e, prices=Explanation.concat(prices)) if prices else e


def read_explanation(source: str | Path, problem: Problem | None = None) -> Explanation:
    """The explanation in a file of JSON or JSON lines (`.jsonl`), or in a JSON text itself."""
    text = str(source)
    if text.endswith(".jsonl"):
        with Path(source).open(encoding="utf-8") as lines:
            return from_lines(lines, problem)
    if isinstance(source, Path) or not text.lstrip().startswith("{"):
        text = Path(source).read_text(encoding="utf-8")
    try:
        content: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"Not a JSON document: {error}.") from error
    return from_dict(content, problem)


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, allow_nan=False) + "\n"
