"""Variational autoencoders: an encoder to a Gaussian over codes, and a decoder to its mean."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cfopt import registry
from cfopt.errors import InputError
from cfopt.generative.coded_module import CodedModule
from cfopt.storage.weights import read

#: What a layer is called in the authors' network, and here; others have the same name.
_RENAMED = {
    "encoder.fc21": "encoder.heads.fc21",
    "encoder.fc22": "encoder.heads.fc22",
    "decoder.fc1": "decoder.fc10",
    "decoder.fc2": "decoder.fc20",
    **{f"decoder.conv{k}": f"decoder.deconv{k}" for k in (1, 2, 3, 4)},
}


class Gaussian(NamedTuple):
    """A normal distribution over codes with independent entries, `(B, n)` each."""

    mean: Tensor
    log_variance: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """One code for each row: `mean + sigma * noise`."""
        # Where the generator lives, so that one seed gives the same sample on every device.
        device = self.mean.device if generator is None else generator.device
        noise = torch.randn(
            self.mean.shape, generator=generator, device=device, dtype=self.mean.dtype
        )
        return self.mean + (0.5 * self.log_variance).exp() * noise.to(self.mean.device)


class VAE(CodedModule):
    """A generative model with prior N(0, I) and a decoder of unit variance."""

    encoder: nn.Module
    decoder: nn.Module

    def __init__(self, shape: tuple[int, ...], latent_dim: int, **settings: Any) -> None:
        super().__init__(shape, latent_dim, **settings)
        if not isinstance(latent_dim, int) or latent_dim < 1:
            raise InputError(f"A VAE needs a whole latent_dim of at least 1, got {latent_dim}.")

    def distribution(self, x: Tensor) -> Gaussian:
        """The codes that a context may have: `(B, ...) -> (B, n), (B, n)`."""
        self.check_contexts(x)
        mean, log_variance = self.encoder(self._seen(x)).chunk(2, dim=1)
        return Gaussian(mean, log_variance)

    def encode(self, x: Tensor) -> Tensor:
        """The mean code of each context: `(B, ...) -> (B, n)`."""
        return self.distribution(x).mean

    def decode(self, z: Tensor) -> Tensor:
        """The mean context of each code: `(B, n) -> (B, ...)`."""
        self.check_codes(z)
        x: Tensor = self.decoder(z)
        return x

    def squared_error(self, x: Tensor, decoded: Tensor) -> Tensor:
        """`|x - d(z)|^2` of each row, `(B,)`."""
        return (x - decoded).square().flatten(1).sum(1)

    def misfit(self, x: Tensor, decoded: Tensor) -> Tensor:
        """`-log p(x | z)` but for a constant, `1/2 |x - d(z)|^2` here: `(B,)`."""
        return 0.5 * self.squared_error(x, decoded)

    def _seen(self, x: Tensor) -> Tensor:
        """Contexts as the encoder sees them."""
        return x


@registry.generative_models.register
class ConvolutionalVAE(VAE):
    """The paper's network: four convolutions, and four transposed ones (Appendix B.1).

    Weights of the authors' own network have other names; `load_published` reads them.

    Arguments:
        latent_dim: n_z.
        height, width: the size of the images, multiples of 16.
    """

    value_range = (0.0, 1.0)

    def __init__(self, latent_dim: int = 64, height: int = 96, width: int = 96) -> None:
        super().__init__((3, height, width), latent_dim, height=height, width=width)
        if height % 16 or width % 16 or min(height, width) < 16:
            raise InputError(
                "ConvolutionalVAE halves images four times and needs sides that are multiples of "
                f"16, got {height} x {width}. Pad or resize the images."
            )
        rows, cols = height // 16, width // 16
        self.encoder = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 32, 4, 2, 1),
                relu1=nn.ReLU(),
                conv2=nn.Conv2d(32, 64, 4, 2, 1),
                relu2=nn.ReLU(),
                conv3=nn.Conv2d(64, 128, 4, 2, 1),
                relu3=nn.ReLU(),
                conv4=nn.Conv2d(128, 256, 4, 2, 1),
                relu4=nn.ReLU(),
                flatten=nn.Flatten(),
                fc1=nn.Linear(256 * rows * cols, 512),
                relu5=nn.ReLU(),
                heads=_Heads(512, latent_dim),
            )
        )
        self.decoder = nn.Sequential(
            OrderedDict(
                fc10=nn.Linear(latent_dim, 512),
                relu1=nn.ReLU(),
                fc20=nn.Linear(512, 256 * rows * cols),
                relu2=nn.ReLU(),
                unflatten=nn.Unflatten(1, (256, rows, cols)),
                deconv1=nn.ConvTranspose2d(256, 128, 4, 2, 1),
                relu3=nn.ReLU(),
                deconv2=nn.ConvTranspose2d(128, 64, 4, 2, 1),
                relu4=nn.ReLU(),
                deconv3=nn.ConvTranspose2d(64, 32, 4, 2, 1),
                relu5=nn.ReLU(),
                deconv4=nn.ConvTranspose2d(32, 3, 4, 2, 1),
                sigmoid=nn.Sigmoid(),
            )
        )


@registry.generative_models.register
class CompactVAE(VAE):
    """A network at the resolution of cells: many times cheaper than one that works on pixels.

    The pixels of a cell become the channels of one position, and on the way back the channels of
    one position become the pixels of a cell.

    Arguments:
        latent_dim: n_z.
        rows, cols: the cells of a map.
        cell: pixels along the side of a cell.
        channels: the channels of the encoder; the decoder has twice as many.
    """

    value_range = (0.0, 1.0)

    def __init__(
        self,
        latent_dim: int = 64,
        rows: int = 12,
        cols: int = 12,
        cell: int = 8,
        channels: int = 48,
    ) -> None:
        size = {"rows": rows, "cols": cols, "cell": cell, "channels": channels}
        super().__init__((3, rows * cell, cols * cell), latent_dim, **size)
        if min(rows, cols, cell, channels) < 1:
            raise InputError(
                "CompactVAE needs rows, cols, cell and channels of at least 1, got "
                f"{rows}, {cols}, {cell} and {channels}."
            )
        pixels, wide = 3 * cell * cell, 2 * channels
        self.encoder = nn.Sequential(
            nn.PixelUnshuffle(cell),
            nn.Conv2d(pixels, channels, 1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(rows * cols * channels, 2 * latent_dim),
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent_dim, rows * cols * channels),
            nn.Unflatten(1, (channels, rows, cols)),
            nn.ReLU(),
            nn.Conv2d(channels, wide, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(wide, wide, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(wide, pixels, 1),
            nn.PixelShuffle(cell),
            nn.Sigmoid(),
        )


class _Heads(nn.Module):
    """The two last layers of the paper's encoder: mean and logarithm of the variance."""

    def __init__(self, width: int, latent_dim: int) -> None:
        super().__init__()
        self.fc21 = nn.Linear(width, latent_dim)
        self.fc22 = nn.Linear(width, latent_dim)

    def forward(self, seen: Tensor) -> Tensor:
        return torch.cat([self.fc21(seen), self.fc22(seen)], dim=1)


def load_published(path: str | Path, height: int = 96, width: int = 96) -> ConvolutionalVAE:
    """The paper's VAE with weights of the authors' own network, in eval mode.

    The authors' file is a PyTorch one. cfopt reads safetensors only; convert it once with

        state = torch.load("vae.pth", weights_only=True)
        safetensors.torch.save_file(state, "vae.safetensors")

    Arguments:
        path: the converted file.
        height, width: the size of the images; the authors' are 96 x 96.
    """
    stored, _ = read(path)
    tensors = {}
    for name, value in stored.items():
        layer, _, kind = name.rpartition(".")
        tensors[f"{_RENAMED.get(layer, layer)}.{kind}"] = value
    mean = tensors.get("encoder.heads.fc21.weight")
    if mean is None or mean.ndim != 2:
        raise InputError(
            f"{path} needs the weights of the paper's VAE, with encoder.fc21.weight among them; "
            f"got {', '.join(sorted(stored)[:6]) or 'nothing'}. Save the state dict of the whole "
            "network."
        )
    # Forked: first weights are drawn at random, and the caller's random numbers stay as they are.
    with torch.random.fork_rng(devices=[]):
        model = ConvolutionalVAE(len(mean), height, width)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise InputError(
            f"The weights in {path} do not fit the paper's VAE for images of {height} x {width}: "
            f"{error}"
        ) from error
    return model.eval()
