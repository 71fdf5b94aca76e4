"""A sharp variational autoencoder of maps: regions, and what each looks like at each position."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from cfopt import registry
from cfopt.errors import InputError
from cfopt.generative.vae import VAE

#: Channels that tell the encoder where it is.
_PLACE = 8
#: How many quantiles of the usual reconstruction errors are kept.
_QUANTILES = 201
#: Each pixel of a texture is seen alone, and learns this many times faster than shared weights.
_GAIN = 10.0
#: How many codes are decoded at once.
_AT_ONCE = 4
#: One pixel in this many along each axis is looked at, to see whether textures are mixed.
_EVERY = 2


@registry.generative_models.register
class TexturedVAE(VAE):
    """A map as regions, each with a texture of its own that is learned for every position.

    The codes are a few smooth fields over the map, with a value for each cell. Between cells they
    are interpolated; at each pixel a small network turns them into shares of the textures, and into
    how bright each of them is:

        d(z) = sum_k share_k light_k texture_k,   sum_k share_k = 1.

    So borders are as sharp as pixels, every code is a map, and a code changes what is near its cell
    and nothing else: no layer of the decoder mixes distant cells. Trained on absolute errors of
    pixels and of their differences, rather than on squared ones, which blur.

    Arguments:
        rows, cols: the cells of a map.
        cell: pixels along the side of a cell, a multiple of 4.
        fields: the codes of a cell.
        textures: how many textures there are.
        width: the channels of hidden layers.
        precision: the weight of absolute errors against the divergence, > 0.
    """

    value_range = (0.0, 1.0)
    interpolate_rows: Tensor
    interpolate_cols: Tensor
    usual_errors: Tensor

    def __init__(
        self,
        rows: int = 12,
        cols: int = 12,
        cell: int = 8,
        fields: int = 2,
        textures: int = 6,
        width: int = 24,
        precision: float = 3.0,
    ) -> None:
        size = {"rows": rows, "cols": cols, "cell": cell, "fields": fields, "textures": textures}
        if min(*size.values(), width) < 1 or cell % 4:
            raise InputError(
                "TexturedVAE needs rows, cols, fields, textures and width of at least 1 and cells "
                f"of 4, 8, 12, ... pixels, got {rows}, {cols}, {fields}, {textures}, {width} and "
                f"{cell}."
            )
        if not 0 < precision < float("inf"):
            raise InputError(f"TexturedVAE needs a finite precision > 0, got {precision}.")
        height, breadth = rows * cell, cols * cell
        super().__init__((3, height, breadth), fields * rows * cols)
        self._arguments = {**size, "width": width, "precision": precision}
        self.precision, self.textures = precision, textures
        self.grid = (fields, rows, cols)
        self.encoder = nn.Sequential(
            nn.PixelUnshuffle(4),
            _Place(height // 4, breadth // 4),
            nn.Conv2d(48 + _PLACE, width, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(width, 2 * width, cell // 4 + 2, cell // 4, 1),
            nn.SiLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(2 * width, 2 * fields, 1),
            nn.Flatten(),
        )
        self.decoder = nn.ModuleDict(
            {
                "fields": nn.Sequential(
                    nn.Conv2d(fields, width, 3, padding=1),
                    nn.SiLU(),
                    nn.Conv2d(width, width, 3, padding=1),
                ),
                "pixels": nn.Sequential(nn.SiLU(), nn.Conv2d(width, 2 * textures, 1)),
            }
        )
        # Plain colours at first: which region is which is learned before what it looks like.
        colours = 0.15 * torch.randn(textures, 3, 1, 1)
        self.texture = nn.Parameter(colours.repeat(1, 1, height, breadth))
        for name, count in (("rows", rows), ("cols", cols)):
            weights = functional.interpolate(
                torch.eye(count)[None, None], (count, count * cell), mode="bicubic"
            )
            self.register_buffer(f"interpolate_{name}", weights[0, 0], persistent=False)

        self.register_buffer("usual_errors", torch.full((_QUANTILES,), torch.nan))

    @torch.no_grad()
    def calibrate(self, maps: Tensor) -> TexturedVAE:
        """Remember the reconstruction errors of held-out maps, `(N, 3, H, W)`; returns the model.

        What is reconstructed much worse is not a map of the kind that the model knows.
        """
        parts = torch.split(maps, 100)
        errors = torch.cat([self.squared_error(part, self(part)) for part in parts])
        ranks = torch.linspace(0, 1, _QUANTILES, dtype=torch.float64)
        self.usual_errors.copy_(errors.double().quantile(ranks.to(errors.device)))
        return self

    def settings(self) -> dict[str, Any]:
        """The arguments that rebuild this model, without its weights."""
        return dict(self._arguments)

    def decode(self, z: Tensor) -> Tensor:
        """The map of each code: `(B, n) -> (B, 3, H, W)`."""
        self.check_codes(z)
        # A few at a time: hidden layers have the size of many maps, and should stay in the cache.
        return torch.cat([self._decode(part) for part in torch.split(z, _AT_ONCE)])

    def ambiguity(self, z: Tensor) -> Tensor:
        """By how much mixed pixels differ from what they are mixed of: `(B, n) -> (B, p)`.

        Were each pixel drawn from the textures by their shares, it would have the mean d(z) and
        the variance

            sum_k share_k |light_k texture_k|^2 - |d(z)|^2,

        which is 0 where one texture has it all. It turns the squared distance of d(z) to a map into
        the expected one of the drawn pixels. A search for what is nearest mixes textures, since
        half of another colour everywhere is nearer, by squares, than all of it on half the pixels;
        maps do that at borders only. With the variance neither is nearer.
        """
        self.check_codes(z)
        return torch.cat([self._variance(part) for part in torch.split(z, _AT_ONCE)])

    def shown(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """`decode` and `ambiguity` in one pass, most of which they share."""
        self.check_codes(z)
        parts = [self._shown(part) for part in torch.split(z, _AT_ONCE)]
        contexts, variances = zip(*parts, strict=True)
        return torch.cat(contexts), torch.cat(variances)

    def _shown(self, z: Tensor) -> tuple[Tensor, Tensor]:
        shares, lights = self._shares(z)
        x = self._painted(shares * lights)
        few = (..., slice(None, None, _EVERY), slice(None, None, _EVERY))
        return x, self._variance_of(shares[few], lights[few], x[few])

    def _decode(self, z: Tensor) -> Tensor:
        shares, lights = self._shares(z)
        return self._painted(shares * lights)

    def _variance(self, z: Tensor) -> Tensor:
        shares, lights = self._shares(z, _EVERY)
        return self._variance_of(shares, lights, self._painted(shares * lights, _EVERY))

    def _variance_of(self, shares: Tensor, lights: Tensor, x: Tensor) -> Tensor:
        """The variance of some pixels x, `(B, 3, h, w) -> (B, p)`."""
        squares = self._textures(_EVERY).square().sum(1)
        variance = (shares * lights.square() * squares).sum(1) - x.square().sum(1)
        return _EVERY**2 * variance.clamp(min=0).flatten(1)  # rounding may fall below 0

    def _shares(self, z: Tensor, every: int = 1) -> tuple[Tensor, Tensor]:
        """The shares of textures, and how bright they are, at some pixels: `(B, K, h, w)` each."""
        layers = cast(nn.ModuleDict, self.decoder)
        fields = layers["fields"](z.reshape(-1, *self.grid))
        down, across = self.interpolate_rows[:, ::every], self.interpolate_cols[:, ::every]
        shares, lights = layers["pixels"](down.T @ (fields @ across)).chunk(2, dim=1)
        return shares.softmax(1), lights.sigmoid()

    def _painted(self, weights: Tensor, every: int = 1) -> Tensor:
        """The sum of weighted textures: `(B, K, h, w) -> (B, 3, h, w)`."""
        textures = self._textures(every)
        # One after the other, in the processor's cache, rather than all products at once.
        x: Tensor = weights[:, :1] * textures[0]
        for k in range(1, self.textures):
            x = torch.addcmul(x, weights[:, k : k + 1], textures[k])
        return x

    def _textures(self, every: int) -> Tensor:
        textures: Tensor = (_GAIN * self.texture[..., ::every, ::every]).sigmoid()
        return textures

    def misfit(self, x: Tensor, decoded: Tensor) -> Tensor:
        """`precision (|x - d|_1 + |D(x - d)|_1)` with the differences D of neighbours: `(B,)`."""
        error = x - decoded
        parts = (error, error.diff(dim=2), error.diff(dim=3))
        total = sum(part.abs().flatten(1).sum(1) for part in parts)
        return self.precision * torch.as_tensor(total)


class _Place(nn.Module):
    """Appends learned planes to feature maps, by which a network knows where it is."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.planes = nn.Parameter(0.1 * torch.randn(1, _PLACE, height, width))

    def forward(self, seen: Tensor) -> Tensor:
        return torch.cat([seen, self.planes.expand(len(seen), -1, -1, -1)], dim=1)
