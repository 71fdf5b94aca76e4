"""Images in the forms that people have them, as predictors read them."""

from __future__ import annotations

import torch
from torch import Tensor


def as_floats(images: Tensor) -> Tensor:
    """Bytes from 0 to 255 as floats from 0 to 1; anything else as it is: same shape."""
    return images.to(torch.get_default_dtype()) / 255 if images.dtype == torch.uint8 else images
