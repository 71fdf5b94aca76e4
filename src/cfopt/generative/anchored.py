"""Decoding that leaves alone what a code does not change."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real

import torch
from torch import Tensor, nn

from cfopt._batch import ROWS, Batch
from cfopt.errors import InputError
from cfopt.generative.protocol import (
    GenerativeModel,
    ambiguity,
    broad_directions,
    check_attributes,
    log_density,
    shown,
    value_range,
)


class Anchored(nn.Module):
    """A generative model whose decoder is exact at the factual context.

    With `z0 = encode(x0)` and `d0 = decode(z0)`, a code z of the row is decoded to

        x(z) = decode(z) + w (x0 - d0),   w = exp(-m / tau),

    where m is the squared change `(decode(z) - d0)^2`: for images summed over channels and averaged
    over the pixels nearby, for other contexts that of each feature. So x(z0) is x0 itself, and what
    a code leaves as it was keeps the details that the model alone would lose; where it changes
    something, w vanishes, and the model's own picture is seen. Details may add up to a value that
    no context can have, such as a colour brighter than white; where the model declares its
    `value_range`, x(z) is held to it.

    Arguments:
        model: any generative model.
        tau: the squared change at which about a third of the details is left, > 0.
        reach: how many pixels away a change still counts, in each direction; for images only.
        scale: the unit in which changes are measured, > 0: one for all, or one for each feature.
    """

    def __init__(
        self,
        model: GenerativeModel,
        tau: float = 0.05,
        reach: int = 4,
        scale: float | Tensor = 1.0,
    ) -> None:
        super().__init__()
        self.model = check_attributes(model)
        if not isinstance(tau, Real) or not (tau > 0 and math.isfinite(tau)):
            raise InputError(f"Anchored needs a finite number > 0 for tau, got {tau!r}.")
        if isinstance(reach, bool) or not isinstance(reach, int) or reach < 0:
            raise InputError(f"Anchored needs a whole number >= 0 for reach, got {reach!r}.")
        unit = torch.as_tensor(scale, dtype=torch.float64)
        if not bool((unit.isfinite() & (unit > 0)).all()):
            raise InputError("Anchored needs scales that are finite and > 0.")
        self.tau: float = float(tau)
        self.reach: int = reach
        self.register_buffer("scale", unit, persistent=False)
        self.latent_dim = model.latent_dim
        shape = getattr(model, "context_shape", None)
        if shape is not None:
            self.context_shape = tuple(shape)
        self.value_range: tuple[float, float] | None = value_range(model)

    @property
    def usual_errors(self) -> Tensor | None:
        """Reconstruction errors of held-out contexts, if the model knows them: `(q,)`."""
        usual: Tensor | None = getattr(self.model, "usual_errors", None)
        return usual

    def encode(self, x: Tensor) -> Tensor:
        """The model's own code: `(B, ...) -> (B, n)`."""
        return self.model.encode(x)

    def decode(self, z: Tensor) -> Tensor:
        """The model's own context, where no factual one is known: `(B, n) -> (B, ...)`."""
        return self.model.decode(z)

    def ambiguity(self, z: Tensor) -> Tensor | None:
        """How undecided the model is: `(B, n) -> (B, p)`."""
        return ambiguity(self.model, z)

    def shown(self, z: Tensor) -> tuple[Tensor, Tensor | None]:
        """`decode` and `ambiguity` in one pass."""
        return shown(self.model, z)

    def log_density(self, x: Tensor) -> Tensor | None:
        """That of the model, if it is one: `(B, ...) -> (B,)`."""
        return log_density(self.model, x)

    def broad_directions(self, count: int) -> Tensor | None:
        """Those of the model's codes, if it names any: `(n, count)`, orthonormal columns."""
        return broad_directions(self.model, count)

    def anchor(self, x0: Tensor, decoded: Tensor) -> Anchor:
        """What is kept of factual contexts, given what the model makes of them, `(B, ...)` each."""
        scale: Tensor = self.get_buffer("scale").to(decoded)
        return Anchor(x0, decoded, self.tau, self.reach, scale, self.value_range)


@dataclass(frozen=True, eq=False)
class Anchor(Batch):
    """The details of factual contexts, to be put back where nothing changes.

    Arguments:
        origin: the factual contexts, x0, `(B, ...)`.
        decoded: what the model makes of them, d0, `(B, ...)`.
        tau, reach, scale: as in `Anchored`.
        limits: the least and the greatest value of a context, if there are any.
    """

    origin: Tensor = field(metadata=ROWS)
    decoded: Tensor = field(metadata=ROWS)
    tau: float
    reach: int
    scale: Tensor
    limits: tuple[float, float] | None = None

    def lost(self, decoded: Tensor) -> Tensor:
        """The fraction 1 - w of the details that is not put back: `(B, ...)`, 1 channel of images.

        Arguments:
            decoded: what the model makes of codes, `(B, ...)`.
        """
        change = ((decoded - self.decoded) / self.scale).square()
        if change.ndim == 4:
            # As two products with matrices, which take a fraction of the time of pooling.
            down, across = (_averages(side, self.reach, change) for side in change.shape[2:])
            change = down @ change.sum(1, keepdim=True) @ across.T
        return -torch.expm1(-change / self.tau)

    def restore(self, decoded: Tensor) -> Tensor:
        """Decoded contexts with the details that belong to them: `(B, ...) -> (B, ...)`."""
        # Written so that d0 becomes x0 to the last bit.
        details = self.origin - self.decoded
        x = self.origin + (decoded - self.decoded) - self.lost(decoded) * details
        if self.limits is None:
            return x
        least, most = self.limits
        # x0 stays what it is, also where it is beyond a limit by a little.
        return x.clamp(self.origin.clamp(max=least), self.origin.clamp(min=most))


def _averages(side: int, reach: int, like: Tensor) -> Tensor:
    """Weights of the pixels nearby, along one axis: `(side, side)`, each row with the sum 1."""
    at = torch.arange(side, device=like.device)
    near = ((at[:, None] - at).abs() <= reach).to(like)
    return near / near.sum(1, keepdim=True)
