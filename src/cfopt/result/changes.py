"""What changed in each row of an explanation, as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import torch

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
    order = size.argsort(dim=1, descending=True, stable=True)
    cells = [(i, j) for i in range(len(e)) for j in order[i].tolist() if moved[i, j]]
    rows = []
    for i, j in cells:
        sides = [
            part[i, j].item() if columns is None else columns.cell(part[i].numpy(), j)
            for part in (before, after)
        ]
        numeric = columns is None or columns.is_number(names[j])
        rows.append((e.label(i), names[j], *sides, sides[1] - sides[0] if numeric else math.nan))
    frame = pd.DataFrame(rows, columns=["row", "feature", "before", "after", "change"])
    if columns is None or not columns.has_text:
        frame = frame.astype({"before": float, "after": float})
    frame["change"] = frame["change"].astype(float)
    return frame.drop(columns="row") if len(e) == 1 else frame
