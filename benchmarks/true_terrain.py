"""The process that made the maps, as a generative model: the most that a learned one could know.

Its codes are the random values that a map was made of, and what it decodes is a map by definition.
No learned model can be more plausible; so what it is still lacking, no better model would bring.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cfopt.datasets import Terrain, terrain
from cfopt.errors import InputError

#: What 8 bits for a pixel may change of a map, as a squared error.
_ROUNDING = 0.1


class TrueTerrain(nn.Module):
    """Generated maps with the random values that they were made of as codes.

    Arguments:
        count: how many maps.
        seed: that of the maps.
    """

    def __init__(self, count: int, seed: int) -> None:
        super().__init__()
        made = Terrain()
        down, across = made._smoothing
        self.down, self.across = torch.from_numpy(down), torch.from_numpy(across)
        self.textures = torch.from_numpy(made._textures) / 255
        self.grid = (2, down.shape[1], across.shape[1])
        self.latent_dim = int(np.prod(self.grid))
        self.context_shape = tuple(self.textures.shape[1:])
        self.maps = made.generate(count, seed=seed).contexts()
        drawn = _Recorded(seed)
        for first in range(0, count, terrain._AT_ONCE):
            made._fields(drawn, min(terrain._AT_ONCE, count - first))
        self.codes = torch.from_numpy(np.concatenate(drawn.values)).flatten(1)
        error = float((self.decode(self.codes) - self.maps).square().flatten(1).sum(1).max())
        if error > _ROUNDING:
            raise InputError(f"The process needs to make its own maps; one is off by {error:.3g}.")

    def encode(self, x: Tensor) -> Tensor:
        """What a map was made of, which is known: `(B, 3, H, W) -> (B, n)`."""
        return self.codes[torch.cdist(x.flatten(1), self.maps.flatten(1)).argmin(1)]

    def decode(self, z: Tensor) -> Tensor:
        """The map that random values make: `(B, n) -> (B, 3, H, W)`."""
        fields = self.down @ z.view(-1, *self.grid) @ self.across.T
        height, moisture = fields[:, 0], fields[:, 1]
        water, rock = _above(-terrain._SHORE, -height), _above(terrain._CLIFF, height)
        land = 1 - water - rock
        earth, forest = (
            land * _above(-terrain._DRY, -moisture),
            land * _above(terrain._WET, moisture),
        )
        shares = torch.stack([water, earth, land - earth - forest, forest, rock], dim=1)
        slope = (height - terrain._FOOT) / (terrain._CLIFF - terrain._FOOT)
        beyond = (terrain._SHORE - height, moisture - terrain._WET, height - terrain._CLIFF)
        depth, density, steepness = (excess / terrain._RANGE for excess in beyond)
        hardness = torch.stack([depth, slope, slope, density, steepness], dim=1).clamp(0, 1)
        weights = shares * (terrain._LIGHT - (terrain._LIGHT - terrain._DARK) * hardness)
        return torch.einsum("nkhw,kchw->nchw", weights, self.textures).clamp(0, 1)

    def broad_directions(self, count: int) -> Tensor:
        """The values that move most pixels, as many of each field: `(n, count)`, orthonormal."""
        (_, down, rows), (_, across, columns) = (
            torch.linalg.svd(weights, full_matrices=False) for weights in (self.down, self.across)
        )
        strongest = torch.outer(down, across).flatten().topk(count // 2).indices
        patterns = torch.einsum("ia,jb->ijab", rows, columns).flatten(2).flatten(0, 1)[strongest]
        return torch.block_diag(patterns.T, patterns.T)


def _above(limit: float, field: Tensor) -> Tensor:
    return torch.sigmoid((field - limit) / terrain._SOFT)


class _Recorded:
    """Random numbers of a seed, which are kept."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.values: list[NDArray[np.float32]] = []

    def standard_normal(self, shape: tuple[int, ...], dtype: Any) -> NDArray[np.float32]:
        self.values.append(self._random.standard_normal(shape, dtype=dtype))
        return self.values[-1]
