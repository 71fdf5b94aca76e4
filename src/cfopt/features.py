"""What the entries of a context are called, and on what scale they live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cfopt.errors import InputError


@dataclass(frozen=True)
class Features:
    """The features of a context.

    Arguments:
        names: a name for each feature.
        scale: a typical change of each feature, > 0, such as its standard deviation. Distances
            that are to be minimised count in these units.
    """

    names: Sequence[str] | None = None
    scale: Sequence[float] | Tensor | None = None

    def __post_init__(self) -> None:
        if self.names is not None:
            names = tuple(str(name) for name in self.names)
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InputError(f"Features needs names that differ; {twice[0]!r} occurs twice.")
            object.__setattr__(self, "names", names)
        if self.scale is not None:
            scale = torch.as_tensor(self.scale, dtype=torch.float64).reshape(-1)
            check_scale(scale)
            object.__setattr__(self, "scale", tuple(scale.tolist()))
        if self.names is not None and self.scale is not None and len(self.names) != len(self.scale):
            raise InputError(
                f"Features needs as many scales as names, got {len(self.scale)} and "
                f"{len(self.names)}."
            )

    def check(self, size: int) -> None:
        """Raise InputError unless contexts have `size` features."""
        for what, given in (("names", self.names), ("scales", self.scale)):
            if given is not None and len(given) != size:
                raise InputError(
                    f"The contexts have {size} features, but Features has {len(given)} {what}."
                )

    def labels(self, size: int) -> tuple[str, ...]:
        """The names, or x0, x1, ... where there are none."""
        return tuple(self.names) if self.names is not None else tuple(f"x{i}" for i in range(size))


def check_scale(scale: Tensor) -> None:
    """Raise InputError unless every scale is finite and > 0."""
    bad = ~(scale.isfinite() & (scale > 0))
    if bad.any():
        first = int(bad.reshape(-1).nonzero()[0])
        value = scale.reshape(-1)[first]
        raise InputError(
            f"Scales need to be finite and > 0, got {value:g} for feature {first}. A feature that "
            "never varies can have scale 1."
        )
