"""What a generative model can encode and decode; anything else is refused with an explanation."""

from __future__ import annotations

import torch
from torch import Tensor

from cfopt.errors import InputError

#: By how much values may leave their range: resampled images overshoot a little.
_OVERSHOOT = 0.01


def check_contexts(
    model: object,
    x: Tensor,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    value_range: tuple[float, float] | None = None,
) -> None:
    """Raise InputError unless a model was built for such contexts.

    Arguments:
        model: the model that asks.
        x: contexts, `(B, ...)`.
        shape: the shape that one context must have.
        dtype: the type of the model's weights.
        value_range: the least and the largest value there may be; None for any.
    """
    owner = type(model).__name__
    if x.shape[1:] != shape:
        raise InputError(
            f"This {owner} was built for contexts of shape {shape}, got {tuple(x.shape[1:])}."
            f"{_axes(x, shape)}"
        )
    if x.dtype != dtype:
        remedy = (
            "Divide bytes by 255: x.float() / 255."
            if x.dtype == torch.uint8
            else f"Pass x.to({dtype}), or convert the model."
        )
        raise InputError(f"This {owner} needs contexts in {dtype}, got {x.dtype}. {remedy}")
    if value_range is None or not x.numel():
        return
    low, high = (float(end) for end in torch.aminmax(x.detach()))
    if low < value_range[0] - _OVERSHOOT or high > value_range[1] + _OVERSHOOT:
        raise InputError(
            f"This {owner} needs values from {value_range[0]:g} to {value_range[1]:g}, got {low:g} "
            f"to {high:g}. If they are bytes as floats, divide by 255; otherwise clamp them."
        )


def check_codes(model: object, z: Tensor, latent_dim: int) -> None:
    """Raise InputError unless codes have the shape `(B, latent_dim)`."""
    if z.ndim != 2 or z.shape[1] != latent_dim:
        raise InputError(
            f"This {type(model).__name__} decodes codes of shape (B, {latent_dim}), got shape "
            f"{tuple(z.shape)}."
        )


def _axes(x: Tensor, shape: tuple[int, ...]) -> str:
    """How to turn the axes so that they fit, if that is what is wrong."""
    if x.shape == shape:
        return " The first axis counts contexts: pass x[None]."
    if len(shape) == 3 and x.shape[1:] == (*shape[1:], shape[0]):
        return " Channels come first: pass x.permute(0, 3, 1, 2)."
    return ""
