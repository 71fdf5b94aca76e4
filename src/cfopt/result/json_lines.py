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

#: What a document holds for each row, beside its rows.
_BESIDE = ("radius", "options", "remedy")


def to_lines(e: Explanation, first: bool = True) -> Iterator[str]:
    """The lines of some rows, each with its end.

    Arguments:
        e: the rows.
        first: whether the line that says what was asked comes before them.
    """
    # Prices and codes are explanations and tensors of their own, which rows take apart.
    content = to_dict(replace(e, prices=None, latent=None))
    rows = content.pop("rows")
    beside = {name: content.pop(name) or None for name in _BESIDE}
    del content["prices"], content["latent"]
    if first:
        yield _line(content)
    for i, row in enumerate(rows):
        row |= {name: values[i] for name, values in beside.items() if values is not None}
        if e.prices is not None:
            row["prices"] = to_dict(e.prices[i])
        if e.latent is not None:
            row["latent"] = to_dict(replace(e[i], prices=None, options=None, remedy=()))["latent"]
        yield _line(row)


def from_lines(lines: Iterable[str], problem: Problem | None = None) -> Explanation:
    """The explanation that `to_lines` described."""
    try:
        content, *rows = [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise InputError(f"Not a file of JSON lines: {error}.") from error
    if not isinstance(content, dict) or not all(isinstance(row, dict) for row in rows):
        raise InputError("Not a file of JSON lines: each line needs to be an object.")
    prices = [row.pop("prices") for row in rows if "prices" in row]
    latent = [row.pop("latent") for row in rows if "latent" in row]
    beside: dict[str, Any] = {
        name: [row.pop(name) for row in rows if name in row] or None for name in _BESIDE
    }
    beside["remedy"] = beside["remedy"] or []
    codes = {}
    for name in latent[0] if latent else ():
        shape = [len(rows), *latent[0][name]["shape"][1:]]
        values = [value for one in latent for value in one[name]["values"]]
        codes[name] = {**latent[0][name], "shape": shape, "values": values}
    e = from_dict({**content, **beside, "rows": rows, "latent": codes or None}, problem)
    if not prices:
        return e
    return replace(e, prices=Explanation.concat([from_dict(one, problem) for one in prices]))


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
