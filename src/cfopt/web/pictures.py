"""Contexts that are images: read from what was sent, and shown as PNG."""

from __future__ import annotations

import base64
import binascii
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from cfopt.drawing.panel import host
from cfopt.drawing.pixels import data_uri, encoded
from cfopt.errors import InputError

#: What may be decoded: the library's other formats have had more security holes than users.
_FORMATS = ("PNG", "JPEG", "WEBP")
_THUMBNAIL, _COLUMNS = 48, 12
#: Little effort: it is for a page on the same machine, several times a second.
_QUICK = {"compress_level": 1}


@dataclass(frozen=True)
class Canvas:
    """How images of one kind are read and shown.

    Arguments:
        channels, height, width: the shape of a context.
        low, high: the values that black and white stand for.
        dtype: the type of a context's numbers.
        pixels: the most that an image may have.
    """

    channels: int
    height: int
    width: int
    low: float
    high: float
    dtype: torch.dtype
    pixels: int

    def read(self, sent: str) -> Tensor:
        """An image in base64 as a context `(C, H, W)`, made to fit."""
        head, _, body = sent.partition(",") if sent.startswith("data:") else ("", "", sent)
        if head and not head.endswith(";base64"):
            raise InputError("An image as a data URI needs to be in base64.")
        try:
            data = base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputError(f"The image is not in base64: {error}.") from error
        image = self._decoded(data)
        if image.size != (self.width, self.height):
            image = image.resize((self.width, self.height), Image.Resampling.BOX)
        array = np.asarray(image, dtype=np.float64).reshape(self.height, self.width, -1) / 255
        values = self.low + (self.high - self.low) * array.transpose(2, 0, 1)
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.dtype)

    def _decoded(self, data: bytes) -> Image.Image:
        try:
            # Only the header is read here: a few bytes can claim to be a billion pixels.
            image: Image.Image = Image.open(io.BytesIO(data), formats=_FORMATS)
        except Image.DecompressionBombError as error:
            raise InputError(self._too_large("it")) from error
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
            raise InputError(
                "The image is not a PNG, a JPEG or a WebP, or it is damaged."
            ) from error
        width, height = image.size
        if width * height > self.pixels or min(width, height) < 1:
            raise InputError(self._too_large(f"{width} x {height}"))
        try:
            # As it was meant to be seen.
            image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I"):
                # Grey in 16 bits, which would be cut off at 255.
                grey = np.rint(np.asarray(image, dtype=np.float64) / 257).clip(0, 255)
                image = Image.fromarray(grey.astype(np.uint8))
            if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
                # On white, as a page shows it.
                image = image.convert("RGBA")
                ground = Image.new("RGBA", image.size, "white")
                image = Image.alpha_composite(ground, image)
            return image.convert("RGB" if self.channels == 3 else "L")
        # Any: a damaged file may raise whatever its decoder runs into.
        except Exception as error:
            raise InputError(f"The image is damaged: {error}") from error

    def _too_large(self, what: str) -> str:
        return f"An image needs at most {self.pixels:,} pixels; {what} has more."

    def bytes(self, context: Tensor) -> NDArray[np.uint8]:
        """A context `(C, H, W)` as pixels from 0 to 255: `(H, W, C)`."""
        values = (host(context) - self.low) / (self.high - self.low)
        pixels: NDArray[np.uint8] = np.rint(np.clip(np.nan_to_num(values), 0, 1) * 255).astype(
            np.uint8
        )
        return pixels.transpose(1, 2, 0)

    def uri(self, context: Tensor) -> str:
        """A context as a data URI."""
        return tile_uri(self.bytes(context))

    def sprite(self, contexts: Tensor) -> str:
        """Small pictures of some contexts, in rows of twelve, in base64."""
        rows = -(-len(contexts) // _COLUMNS)
        sheet = Image.new("RGB", (_THUMBNAIL * _COLUMNS, _THUMBNAIL * rows))
        for k, context in enumerate(contexts):
            small = _image(self.bytes(context)).convert("RGB")
            small = small.resize((_THUMBNAIL, _THUMBNAIL), Image.Resampling.BOX)
            row, col = divmod(k, _COLUMNS)
            sheet.paste(small, (_THUMBNAIL * col, _THUMBNAIL * row))
        return encoded(sheet, "png", **_QUICK)


def tile_uri(pixels: NDArray[np.uint8]) -> str:
    """Pixels `(H, W, C)` as a data URI."""
    return data_uri(_image(pixels), "png", **_QUICK)


def _image(pixels: NDArray[Any]) -> Image.Image:
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
