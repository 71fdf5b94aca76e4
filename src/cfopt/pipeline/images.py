"""Images in the forms that users have, turned into what predictors read."""

from __future__ import annotations

import torch
from torch import Tensor

from cfopt.errors import InputError

#: How far pixels may lie outside the range that a predictor declares: rounding, no other scale.
_SLACK = 0.01


def as_floats(images: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Bytes from 0 to 255 as floats from 0 to 1; anything else as it is: same shape.

    Arguments:
        images: images of any shape.
        dtype: the type of the floats; torch's default if None.
    """
    if images.dtype != torch.uint8:
        return images
    return images.to(torch.get_default_dtype() if dtype is None else dtype) / 255


def as_read(
    images: Tensor, predictor: object, shape: tuple[int, ...] | None, dtype: torch.dtype
) -> Tensor:
    """Images `(B, ., ., .)` as a predictor reads them: floats `(B, 3, H, W)` in its range.

    Bytes are certainly images; floats only where the predictor declares the `value_range` of its
    pixels. Other floats are left as they are.

    Arguments:
        images: images with the channels first or last.
        predictor: may declare `value_range` and, for images of one size, `context_shape`.
        shape: the shape of one image, if it is known from elsewhere.
        dtype: the type of the floats that bytes become.
    """
    shape = getattr(predictor, "context_shape", None) if shape is None else shape
    limits = getattr(predictor, "value_range", None)
    is_bytes = images.dtype == torch.uint8
    if is_bytes or limits is not None:
        last = channels_last(images, shape)
        if last is None and is_bytes:
            raise InputError(
                f"Images as uint8 need channels that can be recognised; those of shape "
                f"{tuple(images.shape)} may have them first or last. Pass floats from 0 to 1 with "
                "the channels first, (rows, 3, height, width)."
            )
        images = images.permute(0, 3, 1, 2).contiguous() if last else images
    images = as_floats(images, dtype)
    if limits is not None:
        check_range(images, limits, type(predictor).__name__)
    return images


def channels_last(images: Tensor, shape: tuple[int, ...] | None = None) -> bool | None:
    """Whether three channels come last, None where that is unknown: `(B, ., ., .) -> bool`.

    Arguments:
        images: a batch.
        shape: the shape of one image with the channels first, if it is known.
    """
    _, first, height, last = images.shape
    if shape is not None and tuple(shape) in ((first, height, last), (last, first, height)):
        return tuple(shape) != (first, height, last)
    return None if first == last == 3 else last == 3


def check_range(images: Tensor, limits: tuple[float, float], reader: str) -> None:
    """Raise InputError if finite pixels lie outside the limits.

    Arguments:
        images: floats of any shape.
        limits: the least and the greatest value.
        reader: the reader whose limits they are.
    """
    known = images[images.isfinite()]
    low, high = (known.min().item(), known.max().item()) if len(known) else limits
    if low >= limits[0] - _SLACK and high <= limits[1] + _SLACK:
        return
    remedy = "Rescale them as the images that it was trained on, and undo any standardisation."
    if limits[1] == 1 and low >= -_SLACK and high > 1.5:
        remedy = "Divide them by 255, or pass them as uint8."
    raise InputError(
        f"{reader} needs pixels from {limits[0]:g} to {limits[1]:g}, got values from {low:.4g} to "
        f"{high:.4g}. {remedy}"
    )


def check_cells(images: Tensor, predictor: object, num_costs: int) -> None:
    """Raise InputError if images have another number of cells than a problem has costs.

    Arguments:
        images: `(B, 3, H, W)`; contexts of other shapes are not judged.
        predictor: not judged either, unless it declares the pixels along the side of a `cell`.
        num_costs: the number of costs of the problem.
    """
    cell = getattr(predictor, "cell", None)
    if not isinstance(cell, int) or images.ndim != 4 or images.shape[1] != 3:
        return
    height, width = images.shape[2:]
    rows, cols = height // cell, width // cell
    if rows * cols != num_costs:
        raise InputError(
            f"The problem needs {num_costs} costs, one for each cell of an image; images of "
            f"{height} x {width} pixels have {rows} x {cols} = {rows * cols} cells of {cell} "
            "pixels. Pass images of the size that the problem was built for."
        )
