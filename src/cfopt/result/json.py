"""Explanations to and from plain dictionaries, the content of a JSON file."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfopt import registry
from cfopt.engine.latent import Codes
from cfopt.errors import InputError
from cfopt.exact.certificate import Clash
from cfopt.pipeline import Columns
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.question import Criterion, Question
from cfopt.question.features import Features, LinearLimit
from cfopt.result.explanation import Explanation
from cfopt.result.status import Status

#: What a question holds besides criterion and features, and where its class is found.
_NOUNS = {
    "proximity": registry.proximities,
    "plausibility": registry.plausibilities,
    "search": registry.searches,
}
_FORMAT = "cfopt explanation 1"
_FLOATS = ("x0", "x", "loss", "violation", "factual", "decision", "costs_before", "costs")
_WHOLE = {"tie": torch.bool, "steps": torch.long, "solves": torch.long, "passes": torch.long}


def to_dict(explanation: Explanation) -> dict[str, Any]:
    """A dictionary of plain values; what is not finite becomes None."""
    e = explanation
    columns = {name: _plain(getattr(e, name)) for name in (*_FLOATS, *_WHOLE)}
    columns["distance"] = _plain(e.distance)
    columns["bound"] = _plain(e.bound)  # None stands for "nothing proved", and for infinity
    columns["valid"] = _plain(e.valid)
    asked = {name: getattr(e.criterion, name) for name in e.criterion.row_fields()}
    columns |= {name: _plain(values) for name, values in asked.items()}
    if e.columns is not None and e.columns.worded:
        # As the caller knows them, beside the numbers that stand for them.
        for name, x in (("frame_before", e.x0), ("frame", e.x)):
            columns[name] = e.columns.records(x.flatten(1).double().cpu().numpy())
    rows = [
        {"label": _label(e, i), "status": str(e.status[i]), "message": e.message[i]}
        | {"method": e.method[i], "clash": clash_to_dict(e.clash[i])}
        | {name: values[i] for name, values in columns.items()}
        for i in range(len(e))
    ]
    return {
        "format": _FORMAT,
        "criterion": e.criterion.to_dict(),
        "margin": e.margin,
        "proximity": _noun_to_dict(e.asked.proximity),
        "plausibility": _noun_to_dict(e.asked.plausibility),
        "search": _noun_to_dict(e.asked.search),
        "sense": str(e.sense),
        "problem": None if e.problem is None else type(e.problem).__name__,
        "dtype": str(e.x.dtype).removeprefix("torch."),
        "features": _features_to_dict(e.features),
        "columns": None if e.columns is None else e.columns.to_dict(),
        "labelled": e.labels is not None,
        "shapes": {name: list(getattr(e, name).shape[1:]) for name in _FLOATS}
        | {name: list(values.shape[1:]) for name, values in asked.items()},
        "rows": rows,
        "latent": None if e.latent is None else _latent_to_dict(e.latent),
    }


def from_dict(content: Any, problem: Problem | None = None) -> Explanation:
    """The explanation that `to_dict` described."""
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"Not an explanation of cfopt: the document needs format {_FORMAT!r}.")
    _check_kind(content.get("criterion"))
    try:
        rows = content["rows"]
        dtype = getattr(torch, content["dtype"])
        if not dtype.is_floating_point:
            raise ValueError(f"dtype {dtype}")
        shapes, columns = content["shapes"], content.get("columns")
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
            method=tuple(row["method"] for row in rows),
            clash=tuple(clash_from_dict(row["clash"]) for row in rows),
            bound=_bounds(rows, dtype),
            asked=Question(
                _criterion(content["criterion"], rows, dtype, shapes),
                float(content["margin"]),
                **{name: _noun(content.get(name)) for name in _NOUNS},
                features=_features(content["features"]),
            ),
            sense=Sense(content["sense"]),
            labels=tuple(row["label"] for row in rows) if content["labelled"] else None,
            problem=problem,
            latent=_latent(content["latent"]),
            columns=None if columns is None else Columns.from_dict(columns),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InputError(f"The explanation is damaged: {type(error).__name__} {error}.") from error


def _latent_to_dict(codes: Codes) -> dict[str, Any]:
    tensors = {field.name: getattr(codes, field.name) for field in fields(codes)}
    return {
        name: {
            "shape": list(values.shape),
            "dtype": str(values.dtype).removeprefix("torch."),
            "values": _plain(values.flatten()),
        }
        for name, values in tensors.items()
    }


def _latent(content: dict[str, Any] | None) -> Codes | None:
    if content is None:
        return None
    tensors = {}
    for field in fields(Codes):
        saved = content[field.name]
        values = _tensor(saved["values"], getattr(torch, saved["dtype"]))
        tensors[field.name] = values.reshape(saved["shape"])
    return Codes(**tensors)


def _bounds(rows: list[Any], dtype: torch.dtype) -> Tensor:
    infeasible = [Status(row["status"]) is Status.PROVED_INFEASIBLE for row in rows]
    bound = _tensor([row["bound"] for row in rows], dtype)
    return bound.masked_fill(torch.tensor(infeasible, dtype=torch.bool), torch.inf)


def clash_to_dict(clash: Clash | None) -> dict[str, Any] | None:
    """Why there is no explanation, as plain values."""
    if clash is None:
        return None
    return {
        "decisions": clash.decisions.tolist(),
        "limits": list(clash.limits),
        "locked": list(clash.locked),
        "radius": _finite(clash.radius),
    }


def clash_from_dict(content: dict[str, Any] | None) -> Clash | None:
    """What `clash_to_dict` described."""
    if content is None:
        return None
    radius = math.inf if content["radius"] is None else float(content["radius"])
    decisions = np.array(content["decisions"], dtype=np.float64)
    return Clash(decisions, tuple(content["limits"]), tuple(content["locked"]), radius)


def _features_to_dict(features: Features) -> dict[str, Any]:
    """What was given; bounds as pairs, since JSON has no numbers for keys nor infinity."""
    plain = {field.name: getattr(features, field.name) for field in fields(features)}
    for name in ("lower", "upper"):
        plain[name] = _pairs(plain[name])
    plain["linear"] = [
        {
            "coefficients": _pairs(limit.coefficients),
            "lower": _finite(float(limit.lower)),
            "upper": _finite(float(limit.upper)),
        }
        for limit in features.linear
    ]
    return plain


def _features(content: dict[str, Any]) -> Features:
    given = dict(content)
    for name, open_end in (("lower", -math.inf), ("upper", math.inf)):
        given[name] = _unpair(given[name], open_end)
    given["linear"] = [
        LinearLimit(
            _unpair(limit["coefficients"], 0.0),
            -math.inf if limit["lower"] is None else limit["lower"],
            math.inf if limit["upper"] is None else limit["upper"],
        )
        for limit in given["linear"]
    ]
    return Features(**given)


def _pairs(values: Any) -> Any:
    if isinstance(values, dict):
        return {"of": [[which, _finite(value)] for which, value in values.items()]}
    return _finite(list(values)) if isinstance(values, tuple) else _finite(values)


def _unpair(values: Any, open_end: float) -> Any:
    if isinstance(values, dict):
        return {which: open_end if v is None else v for which, v in values["of"]}
    if isinstance(values, list):
        return [open_end if value is None else value for value in values]
    return values


def _label(explanation: Explanation, row: int) -> Any:
    """A row's label as it is, if JSON has its type, else in words."""
    label = None if explanation.labels is None else explanation.labels[row]
    return label if isinstance(label, (int, float, str)) else explanation.label(row)


def _check_kind(content: Any) -> None:
    """Raise InputError if the criterion is one that is not known here: the file is in order."""
    kind = content.get("kind") if isinstance(content, dict) else None
    if isinstance(kind, str):
        try:
            registry.criteria.find(kind)
        except InputError as error:
            raise InputError(
                f"{error} Import the module that registers it before you read the file."
            ) from error


def _criterion(
    content: dict[str, Any], rows: list[Any], dtype: torch.dtype, shapes: dict[str, list[int]]
) -> Criterion:
    kind = registry.criteria.find(content["kind"])
    own = {
        name: _tensor([row[name] for row in rows], dtype).reshape(
            len(rows), *shapes.get(name, shapes["factual"])
        )
        for name in kind.row_fields()
    }
    criterion: Criterion = kind(**own, **{name: content[name] for name in kind.settings()})
    return criterion


def _noun_to_dict(one: Any) -> dict[str, Any] | None:
    """A registered dataclass as its name and fields; of anything else, what it looks like."""
    if one is None:
        return None
    names = ((noun, known.name_of(type(one))) for noun, known in _NOUNS.items())
    noun, name = next(((noun, name) for noun, name in names if name), ("text", repr(one)[:1000]))
    if noun == "text" or not is_dataclass(one):
        return {noun: name}
    return {noun: name} | {
        entry.name: _value(getattr(one, entry.name)) for entry in fields(one) if entry.init
    }


def _value(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _finite(value.tolist())
    if is_dataclass(value):
        return _noun_to_dict(value)
    value = value.item() if isinstance(value, np.generic) else value
    plain = isinstance(value, (bool, int, float, str, type(None)))
    return _finite(value) if plain else repr(value)[:1000]


def _noun(content: dict[str, Any] | None) -> Any:
    """What `_noun_to_dict` described; None where its class is not known here."""
    content = content or {}
    found = next(((noun, content[noun]) for noun in _NOUNS if noun in content), None)
    if found is None or found[1] not in _NOUNS[found[0]].names():
        return None
    kind = _NOUNS[found[0]].find(found[1])
    usual = {entry.name: entry.default for entry in fields(kind)} if is_dataclass(kind) else {}
    given = {
        key: _noun(value) if isinstance(value, dict) else value
        for key, value in content.items()
        if key != found[0]
    }
    for key, default in usual.items():
        if isinstance(default, Enum):
            given[key] = type(default)(given[key])
    return kind(**given)


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
    # NumPy reads None as NaN.
    return torch.tensor(np.array(values, dtype=np.float64), dtype=dtype)
