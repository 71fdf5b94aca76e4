"""Explanations to and from plain dictionaries, the content of a JSON file."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from cfopt.engine.latent import Codes
from cfopt.errors import InputError
from cfopt.exact.certificate import Clash
from cfopt.pipeline import Columns
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.question import Question
from cfopt.question.prices import Prices
from cfopt.result.explanation import Explanation
from cfopt.result.json_question import (
    NOUNS,
    check_kind,
    criterion_from_dict,
    features_from_dict,
    features_to_dict,
    finite,
    noun_from_dict,
    noun_to_dict,
    plain,
    tensor,
)
from cfopt.result.radii import Radii
from cfopt.result.remedy import Remedy
from cfopt.result.status import Status
from cfopt.result.typical import Typical

G = TypeVar("G", Codes, Typical)

_FORMAT = "cfopt explanation 1"
_FLOATS = ("x0", "x", "loss", "violation", "factual", "wanted", "decision", "costs_before", "costs")
_WHOLE = {"tie": torch.bool, "steps": torch.long, "solves": torch.long, "passes": torch.long}


def to_dict(explanation: Explanation) -> dict[str, Any]:
    """A dictionary of plain values; what is not finite becomes None."""
    e = explanation
    columns = {name: plain(getattr(e, name)) for name in (*_FLOATS, *_WHOLE)}
    columns["distance"] = plain(e.distance)
    columns["bound"] = plain(e.bound)  # None stands for "nothing proved", and for infinity
    columns["valid"] = plain(e.valid)
    asked = e.criterion.row_values()
    columns |= {name: plain(values) for name, values in asked.items()}
    if e.columns is not None and e.columns.has_text:
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
        "time_limit": e.asked.time_limit,
        "asked_options": e.asked.options,
        "asked_prices": _asked_prices_to_dict(e.asked.prices),
        "proximity": noun_to_dict(e.asked.proximity),
        "plausibility": noun_to_dict(e.asked.plausibility),
        "search": noun_to_dict(e.asked.search),
        "robust": noun_to_dict(e.asked.robust),
        "sense": str(e.sense),
        "problem": None if e.problem is None else type(e.problem).__name__,
        "dtype": str(e.x.dtype).removeprefix("torch."),
        "features": features_to_dict(e.features),
        "columns": None if e.columns is None else e.columns.to_dict(),
        "labelled": e.labels is not None,
        "shapes": {name: list(getattr(e, name).shape[1:]) for name in _FLOATS}
        | {name: list(values.shape[1:]) for name, values in asked.items()},
        "rows": rows,
        "prices": None if e.prices is None else to_dict(e.prices),
        "radius": None if e.radii is None else _radii_to_list(e.radii),
        "latent": None if e.latent is None else _tensors_to_dict(e.latent),
        "typical": None if e.typical is None else _tensors_to_dict(e.typical),
        "options": None if e.options is None else [to_dict(one) for one in e.options],
        "remedy": [remedy_to_dict(one) for one in e.remedy],
    }


def from_dict(content: Any, problem: Problem | None = None) -> Explanation:
    """The explanation that `to_dict` described."""
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"Not an explanation of cfopt: the document needs format {_FORMAT!r}.")
    check_kind(content.get("criterion"))
    try:
        rows = content["rows"]
        dtype = getattr(torch, content["dtype"])
        if not dtype.is_floating_point:
            raise ValueError(f"dtype {dtype}")
        shapes, columns = content["shapes"], content.get("columns")
        options = content.get("options")
        prices = content["prices"]
        tensors: dict[str, Any] = {
            name: tensor([row[name] for row in rows], dtype).reshape(len(rows), *shapes[name])
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
                criterion_from_dict(content["criterion"], rows, dtype, shapes),
                float(content["margin"]),
                **{name: noun_from_dict(content.get(name)) for name in NOUNS},
                features=features_from_dict(content["features"]),
                time_limit=content["time_limit"],
                options=content["asked_options"],
                prices=_asked_prices(content["asked_prices"]),
            ),
            sense=Sense(content["sense"]),
            labels=tuple(row["label"] for row in rows) if content["labelled"] else None,
            problem=problem,
            latent=_tensors(Codes, content["latent"]),
            typical=_tensors(Typical, content.get("typical")),
            columns=None if columns is None else Columns.from_dict(columns),
            options=None if options is None else tuple(from_dict(one, problem) for one in options),
            prices=None if prices is None else from_dict(prices, problem),
            radii=_radii(content.get("radius"), dtype),
            remedy=tuple(remedy_from_dict(one, problem) for one in content.get("remedy", ())),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InputError(f"The explanation is damaged: {type(error).__name__} {error}.") from error


def _radii_to_list(radii: Radii) -> list[dict[str, Any]]:
    """A length, None if there is no end to it, and how it is known; None for rows without one."""
    pairs = zip(radii.length.tolist(), radii.kind, strict=True)
    return [{"length": finite(length), "kind": kind} for length, kind in pairs]


def _radii(content: list[Any] | None, dtype: torch.dtype) -> Radii | None:
    """What `_radii_to_list` described: a row of a kind, but without a length, has no end."""
    if content is None:
        return None
    kinds = tuple(row["kind"] for row in content)
    lengths = [
        math.inf if row["length"] is None and row["kind"] else row["length"] for row in content
    ]
    return Radii(tensor(lengths, dtype), kinds)


def _asked_prices_to_dict(asked: Prices | None) -> dict[str, Any] | None:
    if asked is None:
        return None
    return {
        "proximity": noun_to_dict(asked.proximity),
        "features": features_to_dict(asked.features),
    }


def _asked_prices(content: dict[str, Any] | None) -> Prices | None:
    if content is None:
        return None
    proximity, features = noun_from_dict(content["proximity"]), content["features"]
    return Prices(proximity, features_from_dict(features))


def remedy_to_dict(remedy: Remedy | None) -> dict[str, Any] | None:
    """What would help a row, as plain values."""
    if remedy is None:
        return None
    return {
        "limits": list(remedy.limits),
        "answer": to_dict(remedy.answer),
        "smallest": remedy.smallest,
        "words": remedy.words,
    }


def remedy_from_dict(content: dict[str, Any] | None, problem: Problem | None) -> Remedy | None:
    """What `remedy_to_dict` described."""
    if content is None:
        return None
    limits, found = tuple(content["limits"]), from_dict(content["answer"], problem)
    return Remedy(limits, found, bool(content["smallest"]))


def _tensors_to_dict(group: Codes | Typical) -> dict[str, Any]:
    tensors = {field.name: getattr(group, field.name) for field in fields(group)}
    return {
        name: {
            "shape": list(values.shape),
            "dtype": str(values.dtype).removeprefix("torch."),
            "values": plain(values.flatten()),
        }
        for name, values in tensors.items()
    }


def _tensors(kind: type[G], content: dict[str, Any] | None) -> G | None:
    if content is None:
        return None
    tensors = {}
    for field in fields(kind):
        saved = content[field.name]
        values = tensor(saved["values"], getattr(torch, saved["dtype"]))
        tensors[field.name] = values.reshape(saved["shape"])
    return kind(**tensors)


def _bounds(rows: list[Any], dtype: torch.dtype) -> Tensor:
    infeasible = [Status(row["status"]) is Status.PROVED_INFEASIBLE for row in rows]
    bound = tensor([row["bound"] for row in rows], dtype)
    return bound.masked_fill(torch.tensor(infeasible, dtype=torch.bool), torch.inf)


def clash_to_dict(clash: Clash | None) -> dict[str, Any] | None:
    """Why there is no explanation, as plain values."""
    if clash is None:
        return None
    return {
        "decisions": clash.decisions.tolist(),
        "limits": list(clash.limits),
        "locked": list(clash.locked),
        "radius": finite(clash.radius),
        "why": clash.why,
    }


def clash_from_dict(content: dict[str, Any] | None) -> Clash | None:
    """What `clash_to_dict` described."""
    if content is None:
        return None
    radius = math.inf if content["radius"] is None else float(content["radius"])
    given = content["decisions"]
    decisions = np.array(given, dtype=np.float64) if given else np.empty((0, 1))
    limits, locked = tuple(content["limits"]), tuple(content["locked"])
    return Clash(decisions, limits, locked, radius, content["why"])


def _label(explanation: Explanation, row: int) -> Any:
    """A row's label as it is, if JSON has its type, else in words."""
    label = None if explanation.labels is None else explanation.labels[row]
    return label if isinstance(label, (int, float, str)) else explanation.label(row)
