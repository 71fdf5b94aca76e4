"""Normalising flows: what contexts or codes are like, as a map to and from N(0, I)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from cfopt import registry
from cfopt.errors import InputError
from cfopt.generative.coded_module import CodedModule
from cfopt.generative.protocol import GenerativeModel, check_attributes

#: The largest logarithm of a factor by which a layer scales.
_STEEPEST = 1.5
#: Directions in which data vary less than this, relative to the most varying one, are noise.
_THINNEST = 1e-3


@registry.generative_models.register
class Flow(CodedModule):
    """An invertible network whose codes of the data are distributed as N(0, I).

    Data are whitened, then pass through couplings (Dinh et al., 2017): each leaves half of the
    entries as they are, and scales and shifts the others by what a small network makes of these.
    Both ways are one pass, exact, the same each time and for each row alone. Trained for the
    likelihood of the data, which `log_density` states.

    Arguments:
        latent_dim: the size of a context.
        grid: the shape in which entries lie, channels first, if they lie in a grid; the networks
            are then convolutional.
        layers: how many couplings.
        width: the width of their hidden layers.
    """

    mean: Tensor
    whiten: Tensor
    colour: Tensor
    volume: Tensor

    def __init__(
        self,
        latent_dim: int,
        grid: Sequence[int] | None = None,
        layers: int = 8,
        width: int = 32,
    ) -> None:
        shape = None if grid is None else tuple(grid)
        if not isinstance(latent_dim, int) or min(latent_dim, layers, width) < 1:
            raise InputError(
                "Flow needs whole numbers of at least 1 for latent_dim, layers and width, got "
                f"{latent_dim}, {layers} and {width}."
            )
        if shape is not None and (len(shape) != 3 or math.prod(shape) != latent_dim):
            raise InputError(
                f"Flow needs a grid (channels, rows, columns) with {latent_dim} entries, got "
                f"{shape}."
            )
        listed = None if shape is None else list(shape)
        super().__init__((latent_dim,), latent_dim, grid=listed, layers=layers, width=width)
        self.grid = shape
        self.couplings = nn.ModuleList(
            _Coupling(_mask(latent_dim, shape, k), shape, width) for k in range(layers)
        )
        self.register_buffer("mean", torch.zeros(latent_dim))
        self.register_buffer("whiten", torch.eye(latent_dim))
        self.register_buffer("colour", torch.eye(latent_dim))
        self.register_buffer("volume", torch.zeros(()))

    def standardise(self, contexts: Tensor) -> Flow:
        """Take mean and covariance from contexts, `(N, n)`; returns the model.

        Whitened entries stay as near as they can to where they were, so that a grid stays one.
        """
        if contexts.ndim != 2 or contexts.shape[1] != self.latent_dim or len(contexts) < 2:
            raise InputError(
                f"standardise needs contexts of shape (N, {self.latent_dim}) with N >= 2, got "
                f"{tuple(contexts.shape)}."
            )
        values = contexts.detach().double()
        centred = values - values.mean(0)
        variances, vectors = torch.linalg.eigh(centred.T @ centred / (len(values) - 1))
        spread = variances.clamp(min=0).sqrt()
        spread = spread.clamp(min=_THINNEST * max(float(spread.max()), 1e-12))
        self.mean.copy_(values.mean(0))
        self.whiten.copy_(vectors @ torch.diag(1 / spread) @ vectors.T)
        self.colour.copy_(vectors @ torch.diag(spread) @ vectors.T)
        self.volume.copy_(-spread.log().sum())
        return self

    @torch.no_grad()
    def rematch(self, samples: int = 8000, seed: int = 0) -> Flow:
        """Give samples of the prior the mean and covariance that contexts had; returns the model.

        Likelihood hardly notices a small error that all entries share, such as a map that is a
        little too dry everywhere; a sample shows it. So the linear layer is changed by as much as
        samples before it differ from white ones. For samples only: codes of contexts are then less
        like N(0, I) than before, and searches want these.

        Arguments:
            samples: how many are drawn.
            seed: the seed of their codes.
        """
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn((samples, self.latent_dim), generator=generator).to(self.mean)
        parts = [self._inner(part) for part in torch.split(drawn, 500)]
        values = torch.cat(parts).double()
        centre, centred = values.mean(0), values - values.mean(0)
        variances, vectors = torch.linalg.eigh(centred.T @ centred / (samples - 1))
        spread = variances.clamp(min=0).sqrt()
        spread = spread.clamp(min=_THINNEST * float(spread.max()))
        whiten = vectors @ torch.diag(1 / spread) @ vectors.T
        undo = vectors @ torch.diag(spread) @ vectors.T
        colour = whiten @ self.colour.double()
        self.mean.copy_(self.mean.double() - centre @ colour)
        self.whiten.copy_(self.whiten.double() @ undo)
        self.colour.copy_(colour)
        self.volume.copy_(self.volume.double() + spread.log().sum())
        return self

    def encode(self, x: Tensor) -> Tensor:
        """The code of each context: `(B, n) -> (B, n)`."""
        return self._forward(x)[0]

    def decode(self, z: Tensor) -> Tensor:
        """The context of each code: `(B, n) -> (B, n)`."""
        self.check_codes(z)
        return self.mean + self._inner(z) @ self.colour

    def log_density(self, x: Tensor) -> Tensor:
        """The logarithm of the density at contexts: `(B, n) -> (B,)`."""
        z, volume = self._forward(x)
        return volume - 0.5 * (z.square() + math.log(2 * math.pi)).sum(1)

    def _inner(self, z: Tensor) -> Tensor:
        """What the couplings make of codes, before the linear layer: `(B, n) -> (B, n)`."""
        for coupling in reversed(self.couplings):
            z = cast(_Coupling, coupling).undo(z)
        return z

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Codes `(B, n)`, and the logarithm of how much volume grows, `(B,)`."""
        self.check_contexts(x)
        z = (x - self.mean) @ self.whiten
        volume = self.volume.expand(len(x))
        for coupling in self.couplings:
            z, grown = coupling(z)
            volume = volume + grown
        return z, volume


class FlowPrior(nn.Module):
    """A generative model whose codes are brought to N(0, I) by a flow.

    Samples of N(0, I) then look like the data, and the sphere of typical codes means something.

    Arguments:
        model: the generative model.
        flow: trained on its codes.
    """

    def __init__(self, model: GenerativeModel, flow: Flow) -> None:
        super().__init__()
        self.model, self.flow = check_attributes(model), flow
        if flow.latent_dim != model.latent_dim:
            raise InputError(
                f"FlowPrior needs a flow of codes with {model.latent_dim} entries, as the model "
                f"has; got one of {flow.latent_dim}."
            )
        self.latent_dim = model.latent_dim
        shape = getattr(model, "context_shape", None)
        if shape is not None:
            self.context_shape = tuple(shape)

    @property
    def usual_errors(self) -> Tensor | None:
        """Reconstruction errors of held-out contexts, if the model knows them: `(q,)`."""
        usual: Tensor | None = getattr(self.model, "usual_errors", None)
        return usual

    def encode(self, x: Tensor) -> Tensor:
        """The code of each context: `(B, ...) -> (B, n)`."""
        return self.flow.encode(self.model.encode(x))

    def decode(self, z: Tensor) -> Tensor:
        """The context of each code: `(B, n) -> (B, ...)`."""
        return self.model.decode(self.flow.decode(z))


class _Coupling(nn.Module):
    """Scales and shifts some entries by what a network makes of the others."""

    mask: Tensor

    def __init__(self, mask: Tensor, grid: tuple[int, ...] | None, width: int) -> None:
        super().__init__()
        self.register_buffer("mask", mask, persistent=False)
        self.grid = grid
        last: nn.Linear | nn.Conv2d
        if grid is None:
            last = nn.Linear(width, 2 * len(mask))
            self.network = nn.Sequential(
                nn.Linear(len(mask), width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), last
            )
        else:
            last = nn.Conv2d(width, 2 * grid[0], 3, padding=1)
            self.network = nn.Sequential(
                nn.Conv2d(2 * grid[0], width, 3, padding=1),
                nn.SiLU(),
                nn.Conv2d(width, width, 3, padding=1),
                nn.SiLU(),
                last,
            )
        # At first it leaves everything as it is.
        nn.init.zeros_(last.weight)
        assert last.bias is not None
        nn.init.zeros_(last.bias)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The entries scaled and shifted, `(B, n)`, and the logarithm of the volume, `(B,)`."""
        scale, shift = self._terms(z)
        return z * scale.exp() + shift, scale.sum(1)

    def undo(self, z: Tensor) -> Tensor:
        """The inverse: `(B, n) -> (B, n)`."""
        scale, shift = self._terms(z)
        return (z - shift) * (-scale).exp()

    def _terms(self, z: Tensor) -> tuple[Tensor, Tensor]:
        kept = z * self.mask
        if self.grid is None:
            scale, shift = self.network(kept).chunk(2, dim=1)
        else:
            seen = kept.view(-1, *self.grid)
            # The mask itself, which distinguishes a border from an entry of 0.
            shown = self.mask.view(1, *self.grid).expand(len(z), -1, -1, -1)
            found = self.network(torch.cat([seen, shown], dim=1))
            scale, shift = (part.flatten(1) for part in found.chunk(2, dim=1))
        moved = 1 - self.mask
        return _STEEPEST * (scale / _STEEPEST).tanh() * moved, shift * moved


def _mask(size: int, grid: tuple[int, ...] | None, layer: int) -> Tensor:
    """Which entries a layer leaves as they are, 1 or 0, `(n,)`: in turn, and by channels."""
    if grid is None:
        generator = torch.Generator().manual_seed(layer // 2)
        order = torch.randperm(size, generator=generator)
        mask = torch.zeros(size)
        mask[order[: size // 2]] = 1.0
        return mask if layer % 2 == 0 else 1 - mask
    channel, row, column = (torch.arange(side) for side in grid)
    if layer % 4 < 2 or grid[0] == 1:
        board = (row[:, None] + column + channel[:, None, None]) % 2
    else:
        board = (channel % 2)[:, None, None].expand(grid)
    return (board == layer % 2).float().flatten()
