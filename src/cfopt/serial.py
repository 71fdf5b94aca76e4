"""Explanations to and from plain dictionaries, the content of a JSON file."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from cfopt.criteria import Absolute, Criterion, Epsilon, Relative
from cfopt.errors import InputError
from cfopt.explanation import Explanation
from cfopt.features import Features
from cfopt.problems.base import Problem
from cfopt.types import Sense, Status

_FORMAT = "cfopt explanation 1"
_FLOATS = ("x0", "x", "loss", "violation", "factual", "decision", "costs_before", "costs")
_WHOLE = {"tie": torch.bool, "steps": torch.long, "solves": torch.long}
_CONTRASTIVE: dict[str, type[Relative] | type[Absolute]] = {
    "relative": Relative,
    "absolute": Absolute,
}


def to_dict(explanation: Explanation) -> dict[str, Any]:
    """A dictionary of plain values; what is not finite becomes None."""
    e = explanation
    columns = {name: _plain(getattr(e, name)) for name in (*_FLOATS, *_WHOLE)}
    columns["distance"] = _plain(e.distance)
    columns["valid"] = _plain(e.valid)
    if e.criterion.contrasts:
        columns["alternative"] = _plain(e.alternative)
    rows = [
        {"label": _label(e, i), "status": str(e.status[i]), "message": e.message[i]}
        | {name: values[i] for name, values in columns.items()}
        for i in range(len(e))
    ]
    names, scale = e.features.names, e.features.scale
    return {
        "format": _FORMAT,
        "criterion": _describe(e.criterion),
        "margin": e.margin,
        "sense": str(e.sense),
        "problem": None if e.problem is None else type(e.problem).__name__,
        "dtype": str(e.x.dtype).removeprefix("torch."),
        "names": None if names is None else list(names),
        "scale": None if scale is None else [float(value) for value in scale],
        "labelled": e.labels is not None,
        "shapes": {name: list(getattr(e, name).shape[1:]) for name in _FLOATS},
        "rows": rows,
    }


def from_dict(content: Any, problem: Problem | None = None) -> Explanation:
    """The explanation that `to_dict` described."""
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"Not an explanation of cfopt: the document needs format {_FORMAT!r}.")
    try:
        rows = content["rows"]
        dtype = getattr(torch, content["dtype"])
        if not dtype.is_floating_point:
            raise ValueError(f"dtype {dtype}")
        shapes = content["shapes"]
        tensors: dict[str, Any] = {
            name: _tensor([row[name] for row in rows], dtype).reshape(len(rows), *shapes[name])
            for name in _FLOATS
        }
        tensors |= {
            name: torch.tensor([row[name] for row in rows], dtype=kind)
            for name, kind in _WHOLE.items()
        }
        return Explanation(
            **tensors,
            status=tuple(Status(row["status"]) for row in rows),
            message=tuple(row["message"] for row in rows),
            criterion=_criterion(content["criterion"], rows, dtype, shapes["factual"][0]),
            margin=float(content["margin"]),
            sense=Sense(content["sense"]),
            features=Features(content["names"], content["scale"]),
            labels=tuple(row["label"] for row in rows) if content["labelled"] else None,
            problem=problem,
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InputError(f"The explanation is damaged: {type(error).__name__} {error}.") from error


def _label(explanation: Explanation, row: int) -> Any:
    """A row's label as it is, if JSON has its type, else in words."""
    label = None if explanation.labels is None else explanation.labels[row]
    return label if isinstance(label, (int, float, str)) else explanation.label(row)


def _describe(criterion: Criterion) -> dict[str, Any]:
    if isinstance(criterion, Epsilon):
        return {"kind": "epsilon", "epsilon": criterion.epsilon}
    return {"kind": type(criterion).__name__.lower()}


def _criterion(
    content: dict[str, Any], rows: list[Any], dtype: torch.dtype, width: int
) -> Criterion:
    if content["kind"] == "epsilon":
        return Epsilon(content["epsilon"])
    alternative = _tensor([row["alternative"] for row in rows], dtype)
    return _CONTRASTIVE[content["kind"]](alternative.reshape(len(rows), width))


def _plain(tensor: Tensor) -> list[Any]:
    values: list[Any] = _finite(tensor.detach().cpu().tolist())
    return values


def _finite(values: Any) -> Any:
    if isinstance(values, list):
        return [_finite(value) for value in values]
    if isinstance(values, float) and not math.isfinite(values):
        return None
    return values


def _tensor(values: Any, dtype: torch.dtype) -> Tensor:
    return torch.tensor(_nan(values), dtype=dtype)


def _nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_nan(value) for value in values]
    return math.nan if values is None else values
