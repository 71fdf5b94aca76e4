"""Explanations as tables: what changed, and how each row ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch

from cfopt.engine.latent import norms
from cfopt.result.explanation import Explanation

#: A feature has changed if it moved by more than this fraction of its size (at least of 1).
_CHANGED = 1e-6


def changes(e: Explanation) -> pd.DataFrame:
    """Feature, before, after, change; the largest first, in units of its scale.

    With more than one row, a first column says which. What is not a number changes by NaN.
    """
    columns = e.columns
    before, after = e.x0.flatten(1).double().cpu(), e.x.flatten(1).double().cpu()
    names: Sequence[str] = e.features.labels(before.shape[1])
    change = after - before
    scale = torch.ones(len(names), dtype=torch.float64)
    if e.features.scales is not None:
        scale = torch.tensor(e.features.scales, dtype=torch.float64)
    size = (change / scale).abs()
    moved = change.abs() > _CHANGED * before.abs().clamp(min=1)
    if columns is not None:
        names, places = columns.names, columns.layout.places
        size, moved = (
            torch.stack([part[:, list(place)].amax(1) for place in places], dim=1)
            for part in (size, moved)
        )
    order = size.argsort(dim=1, descending=True, stable=True).tolist()
    numeric = [columns is None or columns.is_number(name) for name in names]
    rows = []
    for i, (old, new, moves) in enumerate(
        zip(before.numpy(), after.numpy(), moved.tolist(), strict=True)
    ):
        label = e.label(i)
        for j in order[i]:
            if not moves[j]:
                continue
            first, last = (
                side[j].item() if columns is None else columns.cell(side, j) for side in (old, new)
            )
            rows.append((label, names[j], first, last, last - first if numeric[j] else math.nan))
    frame = pd.DataFrame(rows, columns=["row", "feature", "before", "after", "change"])
    if columns is None or not columns.has_text:
        frame = frame.astype({"before": float, "after": float})
    frame["change"] = frame["change"].astype(float)
    return frame.drop(columns="row") if len(e) == 1 else frame


def outcomes(e: Explanation) -> pd.DataFrame:
    """One line for each row: status, numbers, and every feature before and after.

    With several options, one line for each of them, numbered from 1.
    """
    if e.options is not None:
        frame = outcomes(e.every_option())
        numbers = [k + 1 for one in e.options for k in range(len(one))]
        frame.insert(0, "option", numbers)
        return frame
    columns: dict[str, list[Any]] = {
        "status": [str(status) for status in e.status],
        "valid": e.valid.tolist(),
        "tie": e.tie.tolist(),
        "distance": e.distance.tolist(),
        "loss": e.loss.tolist(),
        "bound": e.bound.tolist(),
        "optimal": e.optimal.tolist(),
        "violation": e.violation.tolist(),
        "steps": e.steps.tolist(),
        "solves": e.solves.tolist(),
        "passes": e.passes.tolist(),
        "method": list(e.method),
        "message": list(e.message),
    }
    if e.radii is not None:
        columns["radius"] = e.radius.tolist()
        columns["radius kind"] = list(e.radius_kind)
    if e.latent is not None:
        columns["norm of code"] = norms(e.latent.z).tolist()
        columns["in sphere"] = e.in_sphere().tolist()
        columns["moved by reconstruction"] = e.reconstruction_moved.tolist()
    if e.typical is not None:
        columns["percentile before"] = e.typical.before.tolist()
        columns["percentile after"] = e.typical.after.tolist()
    for what, frame in (("before", e.frame_before), ("after", e.frame)):
        columns |= {f"{name} {what}": values.tolist() for name, values in frame.items()}
    labels = e.labels if e.labels is not None else range(len(e))
    return pd.DataFrame(columns, index=pd.Index(labels, name="row"))
