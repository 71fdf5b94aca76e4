"""Contexts that are images, small enough for a file with a thousand of them."""

from __future__ import annotations

import base64
from io import BytesIO

import numpy as np
from PIL import Image
from torch import Tensor

from cfopt.explanation import Explanation
from cfopt.plots.maps import change_over_map, change_size, pixels
from cfopt.types import Array

#: The longer side of an image in the file, and the quality of its JPEG.
_SIDE, _QUALITY = 192, 80
#: A pixel has visibly moved if it did by more than this part of a colour's range.
_SEEN = 0.05


def has_images(e: Explanation) -> bool:
    """Whether the contexts are images, grey or in colour: `(B, C, H, W)`."""
    return e.x0.ndim == 4 and e.x0.shape[1] in (1, 3)


def image_uri(context: Tensor) -> str:
    """An image `(C, H, W)` in [0, 1] as a data URI."""
    return _encoded(pixels(context))


def change_uri(before: Tensor, after: Tensor) -> str:
    """Where an image changed, in colour over a pale grey one, as a data URI."""
    largest = float(np.nan_to_num(change_size(before, after)).max())
    return _encoded(change_over_map(before, after, largest or 1.0))


def change_words(before: Tensor, after: Tensor) -> str:
    """How much of an image changed, in a sentence."""
    size = change_size(before, after)
    if not size.max() > 0:
        return "Nothing changed."
    return (
        f"{(size > _SEEN).mean():.0%} of the pixels moved by more than {_SEEN:.0%} of a colour's "
        f"range, the largest by {size.max():.0%}."
    )


def _encoded(image: Array) -> str:
    drawn = Image.fromarray((255 * np.nan_to_num(image) + 0.5).astype(np.uint8))
    drawn.thumbnail((_SIDE, _SIDE))
    file = BytesIO()
    drawn.save(file, "JPEG", quality=_QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
