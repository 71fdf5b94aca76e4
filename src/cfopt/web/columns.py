"""What the entries of a decision may be, so that one can be entered by hand."""

from __future__ import annotations

from typing import Any

from cfopt.problems.scene import Scene

#: Of more columns nobody enters a decision by hand; of more arcs nobody draws a route.
_MOST, _DRAWN = 2000, 20_000


def names(scene: Scene) -> list[str] | None:
    """What the columns are called; None where they are too many."""
    return list(scene.names) if len(scene.entries) <= _MOST else None


def columns(scene: Scene) -> list[dict[str, Any]] | None:
    """The name of each column, its bounds where they are known, and whether it is whole or 0/1."""
    if len(scene.entries) > _MOST:
        return None
    pairs = zip(scene.to_dict()["entries"], scene.entries, strict=True)
    return [one | {"binary": entry.binary} for one, entry in pairs]


def drawable(scene: Scene) -> dict[str, Any] | None:
    """The scene as the page draws it; None where it is too large, and the server draws it."""
    return scene.to_dict() if len(scene.entries) <= _DRAWN else None
