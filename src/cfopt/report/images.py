"""Contexts that are images, small enough for a file with a thousand of them."""

from __future__ import annotations

import numpy as np
from PIL import Image
from torch import Tensor

from cfopt._typing import Array
from cfopt.drawing.pixels import change_over_map, change_size, data_uri, pixels

#: The longer side of an image in the file, and the quality of its JPEG.
_SIDE, _QUALITY = 192, 80
#: A pixel has visibly moved if it did by more than this fraction of a colour's range.
_SEEN = 0.05


def image_uri(context: Tensor) -> str:
    """An image `(C, H, W)` in [0, 1] as a data URI."""
    return _small(pixels(context))


def change_uri(before: Tensor, after: Tensor) -> str:
    """Where an image changed, in colour over a pale grey one, as a data URI."""
    largest = float(np.nan_to_num(change_size(before, after)).max())
    return _small(change_over_map(before, after, largest or 1.0))


def change_words(before: Tensor, after: Tensor) -> str:
    """How much of an image changed, in a sentence."""
    size = change_size(before, after)
    if not size.max() > 0:
        return "Nothing changed."
    return (
        f"{(size > _SEEN).mean():.0%} of the pixels moved by more than {_SEEN:.0%} of a colour's "
        f"range, the largest by {size.max():.0%}."
    )


def _small(image: Array) -> str:
    drawn = Image.fromarray((255 * np.nan_to_num(image) + 0.5).astype(np.uint8))
    drawn.thumbnail((_SIDE, _SIDE))
    return data_uri(drawn, "jpeg", quality=_QUALITY, optimize=True)
