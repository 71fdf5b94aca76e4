"""Generative models that are modules: what they can encode and decode, and how they are rebuilt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cfopt.errors import InputError

#: By how much values may leave their range: resampled images overshoot a little.
_OVERSHOOT = 0.01


class CodedModule(nn.Module, ABC):
    """A generative model that is a module, for contexts of one shape; anything else is refused.

    Arguments:
        shape: the shape of one context.
        latent_dim: the size of a code.
        settings: the other arguments that rebuild the model.
    """

    #: The least and the largest value of a context; None for any.
    value_range: ClassVar[tuple[float, float] | None] = None

    def __init__(self, shape: tuple[int, ...], latent_dim: int, **settings: Any) -> None:
        super().__init__()
        self.context_shape, self.latent_dim = tuple(shape), latent_dim
        self._settings = {"latent_dim": latent_dim, **settings}

    def settings(self) -> dict[str, Any]:
        """The arguments that rebuild this model, without its weights."""
        return dict(self._settings)

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """The code of each context, the mean if there are several: `(B, ...) -> (B, n)`."""

    @abstractmethod
    def decode(self, z: Tensor) -> Tensor:
        """The context of each code, the mean if there are several: `(B, n) -> (B, ...)`."""

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction of each context, by its code."""
        return self.decode(self.encode(x))

    def check_contexts(self, x: Tensor) -> None:
        """Raise InputError unless this model was built for such contexts, `(B, ...)`."""
        owner, shape = type(self).__name__, self.context_shape
        dtype = next(chain(self.parameters(), self.buffers())).dtype
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
        if self.value_range is None or not x.numel():
            return
        least, most = self.value_range
        low, high = (float(end) for end in torch.aminmax(x.detach()))
        if low < least - _OVERSHOOT or high > most + _OVERSHOOT:
            raise InputError(
                f"This {owner} needs values from {least:g} to {most:g}, got {low:g} to {high:g}. "
                "If they are bytes as floats, divide by 255; otherwise clamp them."
            )

    def check_codes(self, z: Tensor) -> None:
        """Raise InputError unless codes have the shape `(B, latent_dim)`."""
        if z.ndim != 2 or z.shape[1] != self.latent_dim:
            raise InputError(
                f"This {type(self).__name__} decodes codes of shape (B, {self.latent_dim}), got "
                f"shape {tuple(z.shape)}."
            )


def _axes(x: Tensor, shape: tuple[int, ...]) -> str:
    """How to turn the axes so that they fit, if that is what is wrong."""
    if x.shape == shape:
        return " The first axis counts contexts: pass x[None]."
    if len(shape) == 3 and x.shape[1:] == (*shape[1:], shape[0]):
        return " Channels come first: pass x.permute(0, 3, 1, 2)."
    return ""
