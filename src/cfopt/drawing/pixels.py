"""Contexts that are images, and what changed in them, as pixels and as data URIs."""

from __future__ import annotations

import base64
import math
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from cfopt._typing import Array
from cfopt.drawing.palette import CHANGE
from cfopt.drawing.panel import host

#: What a magnification may be, times a power of ten.
_NICE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


def pixels(context: Tensor) -> Array:
    """An image as it is drawn, values cut to [0, 1]: `(C, H, W) -> (H, W, 3)`."""
    image = np.moveaxis(np.clip(host(context), 0, 1), 0, -1)
    return np.broadcast_to(image, (*image.shape[:2], 3))


def change_size(before: Tensor, after: Tensor) -> Array:
    """How far each pixel moved, in the channel that moved most: `(C, H, W) -> (H, W)`."""
    size: Array = np.abs(host(after) - host(before)).max(axis=0)
    return size


def change_over_map(before: Tensor, after: Tensor, full: float) -> Array:
    """The change, in full colour from a size `full` > 0 on, over a pale map: `-> (H, W, 3)`."""
    grey = 0.72 + 0.28 * pixels(before) @ np.array([0.299, 0.587, 0.114])
    fraction = np.clip(change_size(before, after) / full, 0, 1)[..., None]
    colour = np.array(list(bytes.fromhex(CHANGE.removeprefix("#")))) / 255
    mixed: Array = (1 - fraction) * grey[..., None] + fraction * colour
    return mixed


def magnified(before: Tensor, after: Tensor, factor: float) -> Array:
    """The signed difference around mid grey, `0.5 + factor (x - x0)` cut to [0, 1]: `(H, W, 3)`."""
    return pixels(0.5 + factor * (after.double() - before.double()))


def magnification(before: Tensor, after: Tensor) -> float:
    """The factor that shows the largest change in full, rounded down to a nice number."""
    largest = float(change_size(before, after).max())
    if not largest > 0:
        return 1.0
    factor = 0.5 / largest
    unit = 10.0 ** math.floor(math.log10(factor))
    # 1e-9: a factor of 5 that rounding has made 4.999... is still 5.
    return max(nice for nice in _NICE if nice <= factor / unit + 1e-9) * unit


def encoded(image: Image.Image, kind: str, **options: Any) -> str:
    """An image in base64, as "png" or "jpeg" with Pillow's options for it."""
    file = BytesIO()
    image.save(file, kind, **options)
    return base64.b64encode(file.getvalue()).decode("ascii")


def data_uri(image: Image.Image, kind: str, **options: Any) -> str:
    """An image as a data URI; arguments as for `encoded`."""
    return f"data:image/{kind};base64,{encoded(image, kind, **options)}"
