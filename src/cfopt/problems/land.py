"""The kinds of land of a map: names and colours, and which of them a cell shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from cfopt._typing import Array, Indices
from cfopt.errors import InputError

#: Names, each with its colour, such as `("grass", "#6e9e48")`.
Land: TypeAlias = tuple[tuple[str, str], ...]
#: How much darker or brighter than its colour a pixel of a kind may be: shadows and lights.
_DARKEST, _BRIGHTEST = 0.55, 1.35


def checked_land(land: Mapping[str, str] | None) -> Land:
    """Kinds of land as they are kept; InputError where a colour is none."""
    if land is None:
        return ()
    if not isinstance(land, Mapping):
        raise InputError(
            f'land needs names with colours, as in {{"grass": "#6e9e48"}}, got {land!r}.'
        )
    for name, colour in land.items():
        if not isinstance(colour, str) or not re.fullmatch("#[0-9a-fA-F]{6}", colour):
            raise InputError(
                f'The colour of {name} needs to be red, green and blue as in "#6e9e48", got '
                f"{colour!r}."
            )
    return tuple((str(name), colour.lower()) for name, colour in land.items())


def kinds_of_cells(image: Array, size: tuple[int, int], land: Land) -> list[str]:
    """What most pixels of each cell show, row by row: the kind of the nearest colour, in any light.

    Arguments:
        image: the map, `(C, H, W)` from 0 to 1, in colour or grey.
        size: the rows and columns of its cells.
        land: the kinds of land, at least one.
    """
    colours = np.array([list(bytes.fromhex(colour[1:])) for _, colour in land]) / 255
    pixels = np.broadcast_to(image, (3, *image.shape[1:])).reshape(3, -1)
    # |p - b c|^2 = |p|^2 + b (b |c|^2 - 2 <p, c>), with the brightness b in which c comes nearest.
    products, squares = colours @ pixels, np.square(colours).sum(axis=1)[:, None]
    light = (products / np.maximum(squares, 1e-12)).clip(_DARKEST, _BRIGHTEST)
    nearest = (light * (light * squares - 2 * products)).argmin(axis=0)
    cells = _cells(image.shape[1:], size).ravel()
    count = size[0] * size[1]
    votes = np.bincount(cells * len(land) + nearest, minlength=count * len(land))
    return [land[kind][0] for kind in votes.reshape(count, -1).argmax(axis=1).tolist()]


def mean_of_cells(values: Array, size: tuple[int, int]) -> Array:
    """The mean of each cell, row by row, of a value for each pixel: `(H, W) -> (cells,)`."""
    cells = _cells(values.shape, size).ravel()
    count = size[0] * size[1]
    sums = np.bincount(cells, values.ravel(), minlength=count)
    means: Array = sums / np.maximum(np.bincount(cells, minlength=count), 1)
    return means


def _cells(shape: tuple[int, ...], size: tuple[int, int]) -> Indices:
    """The number of the cell that each pixel lies in, `(H, W)`."""
    down, across = (np.arange(n) * k // n for n, k in zip(shape, size, strict=True))
    numbers: Indices = down[:, None] * size[1] + across
    return numbers
