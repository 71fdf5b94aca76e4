"""How contexts of each kind are read from a request and shown to the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from cfopt.errors import InputError
from cfopt.problems.cells import Cells
from cfopt.problems.scene import Scene
from cfopt.question.features import Features
from cfopt.web.pictures import Canvas
from cfopt.web.requests import Context, Ranges


class View(Protocol):
    """Contexts of one kind: tables, or images with or without cells."""

    @property
    def kind(self) -> str:
        """What the page is to show: "table", "map" or "image"."""

    def read(self, sent: Context) -> Tensor:
        """A context that was sent: `-> (...)`."""

    def show(self, context: Tensor) -> dict[str, Any]:
        """A context for the page."""

    def describe(self, contexts: Tensor) -> dict[str, Any]:
        """What the page needs to know of all of them."""

    def limited(self, ranges: Ranges) -> Features:
        """What a search may change."""


@dataclass(frozen=True)
class TableView:
    """Contexts that are rows of a table.

    Arguments:
        features: names, scales and limits.
        size: the number of features.
        dtype: the type of a context's numbers.
    """

    features: Features
    size: int
    dtype: torch.dtype
    kind: str = "table"

    @property
    def names(self) -> Sequence[str]:
        """What features are called."""
        return self.features.labels(self.size)

    def read(self, sent: Context) -> Tensor:
        """The values, one for each feature."""
        if sent.values is None:
            raise InputError("This pipeline reads tables: a context needs values, not an image.")
        if len(sent.values) != self.size:
            raise InputError(
                f"The context needs {self.size} values, one for each feature; got "
                f"{len(sent.values)}."
            )
        return torch.tensor(sent.values, dtype=torch.float64).to(self.dtype)

    def show(self, context: Tensor) -> dict[str, Any]:
        """Its values."""
        return {"values": plain(context)}

    def describe(self, contexts: Tensor) -> dict[str, Any]:
        """Each feature with the range of a slider."""
        limits = self.features.limits(self.size)
        data = contexts.double().numpy()
        groups = {j: k for k, group in enumerate(limits.groups) for j in group}
        described = []
        for j, name in enumerate(self.names):
            lower, upper = float(limits.lower[j]), float(limits.upper[j])
            low, high = _slider(data[:, j], lower, upper)
            whole = bool(limits.integer[j])
            rises, falls = bool(limits.increase[j]), bool(limits.decrease[j])
            described.append(
                {
                    "name": name,
                    "min": math.floor(low) if whole else low,
                    "max": math.ceil(high) if whole else high,
                    "lower": lower if math.isfinite(lower) else None,
                    "upper": upper if math.isfinite(upper) else None,
                    "step": 1 if whole else 10 ** math.floor(math.log10((high - low) / 50)),
                    "integer": whole,
                    "immutable": bool(limits.immutable[j] or (rises and falls)),
                    "only": "increase" if rises else "decrease" if falls else None,
                    "group": groups.get(j),
                }
            )
        return {"features": described}

    def limited(self, ranges: Ranges) -> Features:
        """The pipeline's own limits and those asked for, whichever is tighter."""
        most = [n for n in (ranges.max_changes, self.features.max_changes) if n is not None]
        features = replace(self.features, max_changes=min(most, default=None))
        if not (ranges.locked or ranges.lower or ranges.upper):
            return features
        names = self.names
        # Built once with the names alone, so that the library reports a wrong one.
        Features(names, immutable=ranges.locked, lower=ranges.lower, upper=ranges.upper)
        within = features.within(self.size, ranges.lower, ranges.upper)
        return replace(within, immutable=[*within.immutable, *ranges.locked])


@dataclass(frozen=True)
class ImageView:
    """Contexts that are images.

    Arguments:
        canvas: how they are read and shown.
        scene: what is decided: on a map, a way over its cells.
        features: what pixels may be.
        terrains: what can be painted on a map.
    """

    canvas: Canvas
    scene: Scene
    features: Features
    terrains: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """A map is an image with the cells of a shortest path."""
        return "map" if self.scene.kind == "cells" else "image"

    def read(self, sent: Context) -> Tensor:
        """The image, made to fit."""
        if sent.image is None:
            raise InputError("This pipeline reads images: a context needs an image, not values.")
        return self.canvas.read(sent.image)

    def show(self, context: Tensor) -> dict[str, Any]:
        """A data URI."""
        return {"image": self.canvas.uri(context)}

    def describe(self, contexts: Tensor) -> dict[str, Any]:
        """The size, the cells, and what can be painted."""
        size = {"width": self.canvas.width, "height": self.canvas.height}
        if not isinstance(self.scene, Cells):
            return {"size": size}
        scene, (rows, cols) = self.scene, self.scene.size
        ends = {"start": scene.start, "goal": scene.goal}
        grid = {
            "rows": rows,
            "cols": cols,
            "pixels": self.canvas.height // rows,
            "neighbours": scene.neighbours,
            **{name: list(divmod(place or 0, cols)) for name, place in ends.items()},
        }
        return {"size": size, "grid": grid, "terrains": self.terrains}

    def limited(self, ranges: Ranges) -> Features:
        """Pixels have no names that could be locked."""
        if ranges.locked or ranges.lower or ranges.upper or ranges.max_changes is not None:
            raise InputError(
                "Features can be locked, counted or held in a range for tables, not for images."
            )
        return self.features


def _slider(values: np.ndarray[Any, Any], lower: float, upper: float) -> tuple[float, float]:
    """From where to where a slider goes: over what is allowed, else a bit more than was seen."""
    seen = values[np.isfinite(values)]
    least, most = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 1.0)
    room = 0.25 * (most - least) or max(1.0, abs(most))
    low = lower if math.isfinite(lower) else _short(least - room, room, math.floor)
    high = upper if math.isfinite(upper) else _short(most + room, room, math.ceil)
    return (low, high) if high > low else (low, low + 1.0)


def _short(value: float, room: float, towards: Any) -> float:
    """A nearby number with few digits."""
    unit = 10 ** math.floor(math.log10(room))
    return float(round(towards(value / unit) * unit, 12))


def plain(values: Tensor) -> list[float | None]:
    """Numbers for JSON; what is not finite becomes None."""
    return [v if math.isfinite(v) else None for v in values.detach().double().reshape(-1).tolist()]
