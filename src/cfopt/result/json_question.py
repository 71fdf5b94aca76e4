"""Questions to and from plain values: criteria, features, and what else is asked."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfopt import registry
from cfopt.errors import InputError
from cfopt.problems.foil_text import foil_of
from cfopt.question import Criterion
from cfopt.question.features import Features, LinearLimit

#: What a question holds besides criterion and features, and where its class is found.
NOUNS = {
    "proximity": registry.proximities,
    "plausibility": registry.plausibilities,
    "search": registry.searches,
    "robust": registry.robustness,
}


def features_to_dict(features: Features) -> dict[str, Any]:
    """What was given; bounds as pairs, since JSON has no numbers for keys nor infinity."""
    plain = {field.name: getattr(features, field.name) for field in fields(features)}
    for name in ("lower", "upper"):
        plain[name] = _pairs(plain[name])
    plain["linear"] = [
        {
            "coefficients": _pairs(limit.coefficients),
            "lower": finite(float(limit.lower)),
            "upper": finite(float(limit.upper)),
        }
        for limit in features.linear
    ]
    return plain


def features_from_dict(content: dict[str, Any]) -> Features:
    """What `features_to_dict` described."""
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
        return {"of": [[which, finite(value)] for which, value in values.items()]}
    return finite(list(values)) if isinstance(values, tuple) else finite(values)


def _unpair(values: Any, open_end: float) -> Any:
    if isinstance(values, dict):
        return {which: open_end if v is None else v for which, v in values["of"]}
    if isinstance(values, list):
        return [open_end if value is None else value for value in values]
    return values


def check_kind(content: Any) -> None:
    """Raise InputError if the criterion is one that is not known here: the file is in order."""
    kind = content.get("kind") if isinstance(content, dict) else None
    if isinstance(kind, str):
        try:
            registry.criteria.find(kind)
        except InputError as error:
            raise InputError(
                f"{error} Import the module that registers it before you read the file."
            ) from error


def criterion_from_dict(
    content: dict[str, Any], rows: list[Any], dtype: torch.dtype, shapes: dict[str, list[int]]
) -> Criterion:
    """The criterion of some rows, of which `shapes` says what their own values are like."""
    kind = registry.criteria.find(content["kind"])
    own: dict[str, Any] = {
        name: tensor([row[name] for row in rows], dtype).reshape(
            len(rows), *shapes.get(name, shapes["factual"])
        )
        for name in kind.row_fields()
        if "wish" not in content
    }
    if "wish" in content:
        own["alternative"] = foil_of(content["wish"])
    criterion: Criterion = kind(**own, **{name: content[name] for name in kind.settings()})
    return criterion


def noun_to_dict(one: Any) -> dict[str, Any] | None:
    """A registered dataclass as its name and fields; of anything else, what it looks like."""
    if one is None:
        return None
    names = ((noun, known.name_of(type(one))) for noun, known in NOUNS.items())
    noun, name = next(((noun, name) for noun, name in names if name), ("text", repr(one)[:1000]))
    if noun == "text" or not is_dataclass(one):
        return {noun: name}
    return {noun: name} | {
        entry.name: _value(getattr(one, entry.name)) for entry in fields(one) if entry.init
    }


def _value(value: Any) -> Any:
    if isinstance(value, Tensor):
        return finite(value.tolist())
    if is_dataclass(value):
        return noun_to_dict(value)
    if isinstance(value, (list, tuple)):
        return [_value(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    plain = isinstance(value, (bool, int, float, str, type(None)))
    return finite(value) if plain else repr(value)[:1000]


def noun_from_dict(content: dict[str, Any] | None) -> Any:
    """What `_noun_to_dict` described; None where its class is not known here."""
    content = content or {}
    found = next(((noun, content[noun]) for noun in NOUNS if noun in content), None)
    if found is None or found[1] not in NOUNS[found[0]]:
        return None
    kind = NOUNS[found[0]].find(found[1])
    usual = {entry.name: entry.default for entry in fields(kind)} if is_dataclass(kind) else {}
    given = {key: _nested(value) for key, value in content.items() if key != found[0]}
    for key, default in usual.items():
        if isinstance(default, Enum):
            given[key] = type(default)(given[key])
    return kind(**given)


def _nested(value: Any) -> Any:
    """A value of a noun's field: nouns of its own, alone or in a list, or a plain one."""
    if isinstance(value, list):
        return [_nested(one) for one in value]
    return noun_from_dict(value) if isinstance(value, dict) else value


def plain(tensor: Tensor) -> list[Any]:
    """A tensor as nested lists; what is not finite becomes None."""
    values: list[Any] = tensor.detach().cpu().tolist()
    return values if bool(tensor.isfinite().all()) else list(finite(values))


def finite(values: Any) -> Any:
    """Nested lists or a number, in which what is not finite becomes None."""
    if isinstance(values, list):
        return [finite(value) for value in values]
    if isinstance(values, float) and not math.isfinite(values):
        return None
    return values


def tensor(values: Any, dtype: torch.dtype) -> Tensor:
    """The tensor of nested lists, in which None stands for NaN."""
    # NumPy reads None as NaN.
    return torch.tensor(np.array(values, dtype=np.float64), dtype=dtype)
