"""Which places of a network can have their names beside them."""

from __future__ import annotations

from cfopt.drawing.elements import breadth
from cfopt.problems.routes import Network


def half_width(scene: Network, place: int, font: float) -> float:
    """Half the room that the name of a place takes, in a font of this size."""
    return breadth(scene.places[place], font) / 2


def readable(scene: Network, step: float, font: float) -> list[int]:
    """Start and goal, then the places whose names cover no other name.

    Arguments:
        scene: the network.
        step: how far apart places at a distance of 1 are drawn.
        font: the size of the names, in the same unit.
    """
    ends = [place for place in (scene.start, scene.goal) if place is not None]
    kept: list[int] = []
    for place in dict.fromkeys([*ends, *(() if scene.crowded else range(len(scene.places)))]):
        (x, y), half = scene.positions[place], half_width(scene, place, font)
        covered = (
            abs(x - u) * step <= half + half_width(scene, other, font) and abs(y - v) * step <= font
            for other, (u, v) in ((other, scene.positions[other]) for other in kept)
        )
        if not any(covered):
            kept.append(place)
    return kept
