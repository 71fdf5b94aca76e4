"""One level of a flow: the details of a grid, given everything coarser."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

#: The largest logarithm of a factor by which a layer scales.
_STEEPEST = 1.5
#: Directions in which data vary less than this, relative to the most varying one, are noise.
_THINNEST = 1e-3
#: Grids with no more cells than this are seen as a whole, by networks that are so much wider.
_SMALL, _WIDER = 16, 3


class Level(nn.Module):
    """Maps details to N(0, I) and back, given the coarser image that they belong to.

    What coarser entries say of the details by linear regression is taken away, the rest whitened;
    couplings (Dinh et al., 2017) do what is not linear. Each leaves some of the entries as they
    are, and scales and shifts the others by what a small network makes of these and the coarser
    image.

    Arguments:
        shape: the shape of the details, channels first, or `(m,)` where they lie in no grid.
        coarser: the channels of the coarser image, 0 if there is none.
        layers: how many couplings.
        width: the width of their hidden layers.
    """

    predict: Tensor
    whiten: Tensor
    colour: Tensor
    volume: Tensor
    unit: Tensor

    def __init__(self, shape: tuple[int, ...], coarser: int, layers: int, width: int) -> None:
        super().__init__()
        self.size, cells = math.prod(shape), math.prod(shape[1:])
        self.couplings = nn.ModuleList(
            Coupling(_mask(shape, k), shape, coarser, width) for k in range(layers)
        )
        self.register_buffer("predict", torch.zeros(coarser * cells, self.size))
        self.register_buffer("whiten", torch.eye(self.size))
        self.register_buffer("colour", torch.eye(self.size))
        self.register_buffer("volume", torch.zeros(()))
        self.register_buffer("unit", torch.ones(()))

    def standardise(self, details: Tensor, coarser: Tensor) -> None:
        """Take regression and covariance from centred data, `(N, m)` and `(N, k)` in float64."""
        rest = details
        if coarser.shape[1]:
            predict = torch.linalg.lstsq(coarser, details, driver="gelsd").solution
            self.predict.copy_(predict)
            self.unit.copy_(coarser.square().mean().sqrt().clamp(min=1e-12))
            rest = details - coarser @ predict
        variances, vectors = torch.linalg.eigh(rest.T @ rest / (len(rest) - 1))
        spread = variances.clamp(min=0).sqrt()
        spread = spread.clamp(min=_THINNEST * max(float(spread.max()), 1e-12))
        # Symmetric, so that whitened entries stay as near as they can to where they were.
        self.whiten.copy_(vectors @ torch.diag(1 / spread) @ vectors.T)
        self.colour.copy_(vectors @ torch.diag(spread) @ vectors.T)
        self.volume.copy_(-spread.log().sum())

    def forward(self, details: Tensor, coarser: Tensor) -> tuple[Tensor, Tensor]:
        """Codes `(B, m)`, and the logarithm of how much volume grows, `(B,)`."""
        z = (details - coarser @ self.predict) @ self.whiten
        volume = self.volume.expand(len(z))
        seen = coarser / self.unit
        for coupling in self.couplings:
            z, grown = coupling(z, seen)
            volume = volume + grown
        return z, volume

    def undo(self, z: Tensor, coarser: Tensor) -> Tensor:
        """The details of codes: `(B, m) -> (B, m)`."""
        seen = coarser / self.unit
        for coupling in reversed(self.couplings):
            assert isinstance(coupling, Coupling)
            z = coupling.undo(z, seen)
        return self.linear(z, coarser)

    def linear(self, white: Tensor, coarser: Tensor) -> Tensor:
        """The details of white entries, by regression and covariance alone: `(B, m) -> (B, m)`."""
        return coarser @ self.predict + white @ self.colour


class Coupling(nn.Module):
    """Scales and shifts some entries by what a network makes of the others.

    Arguments:
        mask: 1 for entries that stay as they are, 0 for the others, `(m,)`.
        shape: the shape in which entries lie.
        coarser: the channels of the coarser image, which the network sees, too.
        width: the width of the network's hidden layers.
    """

    mask: Tensor
    moved: Tensor
    steepest: Tensor

    def __init__(self, mask: Tensor, shape: tuple[int, ...], coarser: int, width: int) -> None:
        super().__init__()
        self.register_buffer("mask", mask, persistent=False)
        self.register_buffer("moved", 1 - mask, persistent=False)
        self.register_buffer("steepest", _STEEPEST * (1 - mask), persistent=False)
        cells = math.prod(shape[1:])
        self.cells = shape[1:] if cells > _SMALL else None
        last: nn.Linear | nn.Conv2d
        if self.cells is None:
            wide = width if len(shape) == 1 else _WIDER * width
            size = math.prod(shape)
            last = nn.Linear(wide, 2 * size)
            first: nn.Module = nn.Linear(size + coarser * cells, wide)
            middle: nn.Module = nn.Linear(wide, wide)
        else:
            last = nn.Conv2d(width, 2 * shape[0], 3, padding=1)
            first = nn.Sequential(
                nn.Conv2d(shape[0] + coarser, width, 3, padding=1), Place(width, self.cells)
            )
            middle = nn.Conv2d(width, width, 3, padding=1)
        self.network = nn.Sequential(first, nn.SiLU(), middle, nn.SiLU(), last)
        # At first it leaves everything as it is.
        nn.init.zeros_(last.weight)
        assert last.bias is not None
        nn.init.zeros_(last.bias)

    def forward(self, z: Tensor, coarser: Tensor) -> tuple[Tensor, Tensor]:
        """The entries scaled and shifted, `(B, m)`, and the logarithm of the volume, `(B,)`."""
        scale, shift = self._terms(z, coarser)
        return z * scale.exp() + shift, scale.sum(1)

    def undo(self, z: Tensor, coarser: Tensor) -> Tensor:
        """The inverse: `(B, m) -> (B, m)`."""
        scale, shift = self._terms(z, coarser)
        return (z - shift) * (-scale).exp()

    def _terms(self, z: Tensor, coarser: Tensor) -> tuple[Tensor, Tensor]:
        seen = torch.cat([z * self.mask, coarser], dim=1)
        if self.cells is not None:
            seen = seen.view(len(z), seen.shape[1] // math.prod(self.cells), *self.cells)
        scale, shift = self.network(seen).flatten(1).chunk(2, dim=1)
        return scale.tanh() * self.steepest, shift * self.moved


class Place(nn.Module):
    """Adds to feature maps what was learned for each position.

    Arguments:
        channels: how many feature maps there are.
        cells: their rows and columns.
    """

    def __init__(self, channels: int, cells: tuple[int, ...]) -> None:
        super().__init__()
        self.planes = nn.Parameter(torch.zeros(channels, *cells))

    def forward(self, seen: Tensor) -> Tensor:
        """`(B, c, H, W) -> (B, c, H, W)`."""
        return seen + self.planes


def halved(image: Tensor) -> tuple[Tensor, Tensor]:
    """Means of 2 x 2 cells, and what they leave out; both as of one orthonormal (Haar) map.

    `(B, c, H, W) -> (B, c, H/2, W/2), (B, 3 c, H/2, W/2)`.
    """
    corners = torch.stack([image[..., i::2, j::2] for i in (0, 1) for j in (0, 1)], dim=2)
    mixed = torch.einsum("bckhw,kl->bclhw", corners, _haar(image))
    return mixed[:, :, 0], mixed[:, :, 1:].flatten(1, 2)


def doubled(coarser: Tensor, details: Tensor) -> Tensor:
    """The inverse of `halved`."""
    count, channels, *sides = coarser.shape
    mixed = torch.cat([coarser[:, :, None], details.view(count, channels, 3, *sides)], dim=2)
    corners = torch.einsum("bckhw,kl->bclhw", mixed, _haar(coarser))
    return nn.functional.pixel_shuffle(corners.flatten(1, 2), 2)


def _haar(like: Tensor) -> Tensor:
    """Symmetric and orthonormal: its own inverse."""
    signs = [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]
    return 0.5 * torch.tensor(signs, dtype=like.dtype, device=like.device)


def _mask(shape: tuple[int, ...], layer: int) -> Tensor:
    """Which entries a layer leaves as they are, 1 or 0, `(m,)`: in turn, and by several patterns.

    At random where entries lie in no grid or in a small one; otherwise like a chessboard, by halves
    of the channels, and by every other channel.
    """
    size = math.prod(shape)
    if math.prod(shape[1:]) <= _SMALL:
        generator = torch.Generator().manual_seed(layer // 2)
        mask = torch.zeros(size)
        mask[torch.randperm(size, generator=generator)[: size // 2]] = 1.0
        return mask if layer % 2 == 0 else 1 - mask
    channel, row, column = (torch.arange(side) for side in shape)
    pattern = layer // 2 % 3 if shape[0] > 1 else 0
    board = (
        (row[:, None] + column + channel[:, None, None]) % 2,
        (channel >= shape[0] // 2)[:, None, None].expand(shape),
        (channel % 2)[:, None, None].expand(shape),
    )[pattern]
    return (board == layer % 2).float().flatten()
