"""The few SVG elements that pictures are drawn with, every text escaped, and where texts fit."""

from __future__ import annotations

from collections.abc import Iterable
from unicodedata import combining, east_asian_width

from markupsafe import Markup, escape

from cfopt.problems.network_scene import Network

#: Widths of letters as fractions of the font's size, in the widest of the usual fonts.
_NARROW, _USUAL, _BROAD, _FULL = 0.42, 0.64, 0.84, 1.0
#: What is smaller than this fraction of the numbers around it is their rounding.
NOISE = 1e-9


def picture(
    width: float,
    height: float,
    label: str,
    parts: Iterable[str],
    kind: str,
    stretched: bool = False,
) -> Markup:
    """A picture with a text that stands for it.

    Arguments:
        width, height: the range of its coordinates; the page says how large it is shown.
        label: what is seen, for those who cannot see it.
        parts: its elements, the lowest first.
        kind: the class by which the page styles it.
        stretched: whether it fills whatever shape the page gives it.
    """
    ratio = ' preserveAspectRatio="none"' if stretched else ""
    return Markup(
        f'<svg class="{escape(kind)}" viewBox="0 0 {number(width)} {number(height)}"{ratio} '
        f'role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def path(data: str, kind: str) -> str:
    """A path, or nothing where it has no points."""
    return f'<path class="{kind}" d="{data}"/>' if data else ""


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A rectangle."""
    return (
        f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
        f'height="{number(height)}"/>'
    )


def dot(x: float, y: float, radius: float, kind: str) -> str:
    """A circle."""
    return f'<circle class="{kind}" cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"/>'


def text(x: float, y: float, words: str, kind: str = "", whole: str = "") -> str:
    """A text; if it was cut, the whole of it is shown on pointing."""
    title = f"<title>{escape(whole)}</title>" if whole and whole != words else ""
    styled = f' class="{kind}"' if kind else ""
    return f'<text{styled} x="{number(x)}" y="{number(y)}">{title}{escape(words)}</text>'


def breadth(words: str, size: float) -> float:
    """How wide a text is at most, in a font of this size."""
    return size * sum(map(_breadth, words))


def _breadth(letter: str) -> float:
    if combining(letter):
        return 0.0
    if east_asian_width(letter) in "WF" or letter in "MWmw@%—…":
        return _FULL
    if letter in "iljtfrI .,:;'|!()[]-":
        return _NARROW
    return _BROAD if letter.isupper() or letter in "+=<>~\N{MINUS SIGN}" else _USUAL


def fitted(words: str, size: float, room: float) -> str:
    """A text that is no wider than its room: shortened with an ellipsis where it would be."""
    if breadth(words, size) <= room:
        return words
    while words and breadth(words + "…", size) > room:
        words = words[:-1]
    return words.rstrip() + "…"


def half_width(scene: Network, place: int, font: float) -> float:
    """Half the room that the name of a place takes, in a font of this size."""
    return breadth(scene.places[place], font) / 2


def readable(scene: Network, step: float, font: float) -> list[int]:
    """Start and goal, then the places whose names, in a font of this size, cover no other name.

    Places at a distance of 1 are drawn one step apart.
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


def image(uri: str, x: float, y: float, width: float, height: float) -> str:
    """An image inside the file."""
    return (
        f'<image href="{escape(uri)}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
        f'height="{number(height)}" preserveAspectRatio="none"/>'
    )


def shared(name: str) -> str:
    """What many pictures have in common, drawn once in the file."""
    return f'<use href="#{name}"/>'


def signed(words: str) -> str:
    """A number with a minus that is as wide as a plus."""
    return words.replace("-", "\N{MINUS SIGN}")


def without_noise(value: float, largest: float) -> float:
    """A value, or 0 if it is mere rounding compared with the largest number around it."""
    return 0.0 if abs(value) <= NOISE * largest else value


def number(value: float) -> str:
    """A coordinate with no more digits than can be seen."""
    return f"{value:.1f}".removesuffix(".0")
