"""Densities with ellipsoids for contours, mapped to N(0, I) and back in closed form."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cfopt import registry
from cfopt.errors import InputError
from cfopt.generative.coded_module import CodedModule

#: Below this fraction of the largest standard deviation, a direction counts as one without any.
_FLAT = 1e-6


@registry.generative_models.register
class Elliptical(CodedModule):
    """The simplest flow: contexts are whitened, and their norms are brought to those of N(0, I).

    With the symmetric root of the data's covariance, `w = (x - mean) / root` has covariance I, and
    entries stay as near as they can be to where they were. But norms of w mostly vary more than
    those of N(0, I) would, and what is typical by a Gaussian would then be typical of no context.
    So w keeps its direction, and the logarithm of its norm is shifted and scaled to the mean and
    the standard deviation that N(0, I) has (radial Gaussianisation, Lyu and Simoncelli, 2009):

        z = w |z| / |w|,   log |z| = a + (log |w| - b) c.

    A `Flow` also bends what is left, so that its samples look real. A search needs no samples: it
    begins at a real context, and this map takes two products of matrices where a flow takes dozens
    of layers; nearly straight lines lead to nearer answers, too.

    Arguments:
        latent_dim: the size of a context.
    """

    mean: Tensor
    root: Tensor
    inverse: Tensor
    norms: Tensor

    def __init__(self, latent_dim: int) -> None:
        if isinstance(latent_dim, bool) or not isinstance(latent_dim, int) or latent_dim < 2:
            raise InputError(
                f"Elliptical needs a whole latent_dim of at least 2, got {latent_dim}."
            )
        super().__init__((latent_dim,), latent_dim)
        self.register_buffer("mean", torch.zeros(latent_dim))
        self.register_buffer("root", torch.eye(latent_dim))
        self.register_buffer("inverse", torch.eye(latent_dim))
        #: Mean and standard deviation of the logarithm of the norm of whitened contexts.
        self.register_buffer("norms", torch.tensor(_normal_norms(latent_dim)))

    def standardise(self, contexts: Tensor) -> Elliptical:
        """Take mean, covariance and norms from contexts, `(N, n)` with N > n; returns the model."""
        size = self.latent_dim
        if contexts.ndim != 2 or contexts.shape[1] != size or len(contexts) <= size:
            raise InputError(
                f"standardise needs contexts of shape (N, {size}) with N > {size}, got "
                f"{tuple(contexts.shape)}."
            )
        values = contexts.detach().double().cpu()
        centred = values - values.mean(0)
        variances, vectors = torch.linalg.eigh(torch.cov(values.T))
        spreads = variances.clamp(min=0).sqrt()
        if not bool(spreads[0] > _FLAT * spreads[-1]):  # NaN is not above anything
            raise InputError(
                f"standardise needs contexts that vary in all {size} directions; their standard "
                f"deviations are {float(spreads[0]):.3g} to {float(spreads[-1]):.3g}. Leave out "
                "entries that follow from others."
            )
        inverse = (vectors / spreads) @ vectors.T
        lengths = (centred @ inverse).norm(dim=1).log()
        if not bool(lengths.isfinite().all() and lengths.std() > _FLAT):
            least, most = lengths.min().exp(), lengths.max().exp()
            raise InputError(
                "standardise needs contexts at several distances from their mean, and none at it; "
                f"whitened, these are at {float(least):.3g} to {float(most):.3g}. Pass more, or "
                "leave out those at the mean."
            )
        self.mean.copy_(values.mean(0))
        self.root.copy_((vectors * spreads) @ vectors.T)
        self.inverse.copy_(inverse)
        self.norms.copy_(torch.stack([lengths.mean(), lengths.std()]))
        return self

    def broad_directions(self, count: int) -> Tensor:
        """Of codes, those in which contexts vary most: `(n, count)`, orthonormal columns."""
        _, vectors = torch.linalg.eigh(self.root.double().cpu())
        broadest: Tensor = vectors.flip(1)[:, :count]
        return broadest.to(self.root)

    def encode(self, x: Tensor) -> Tensor:
        """The code of each context: `(B, n) -> (B, n)`."""
        white, growth = self._white(x)
        return white * growth.exp()

    def decode(self, z: Tensor) -> Tensor:
        """The context of each code: `(B, n) -> (B, n)`."""
        self.check_codes(z)
        own, usual = self.norms, self._usual()
        length = _log_norm(z)
        white = z * (own[0] + (length - usual[0]) * own[1] / usual[1] - length).exp()
        return self.mean + white @ self.root

    def log_density(self, x: Tensor) -> Tensor:
        """The logarithm of the density at contexts: `(B, n) -> (B,)`.

        Of directions across w, volumes grow as the norm does, along it c times as much.
        """
        white, growth = self._white(x)
        own, usual = self.norms, self._usual()
        volume = self.latent_dim * growth[:, 0] + (usual[1] / own[1]).log()
        volume = volume + torch.linalg.slogdet(self.inverse).logabsdet
        z = white * growth.exp()
        density: Tensor = volume - 0.5 * (z.square() + math.log(2 * math.pi)).sum(1)
        return density

    def _white(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Whitened contexts w `(B, n)`, and `log |z| - log |w|`, `(B, 1)`."""
        self.check_contexts(x)
        white = (x - self.mean) @ self.inverse
        own, usual = self.norms, self._usual()
        length = _log_norm(white)
        return white, usual[0] + (length - own[0]) * usual[1] / own[1] - length

    def _usual(self) -> Tensor:
        """Mean and standard deviation of `log |z|` for z from N(0, I)."""
        return torch.tensor(_normal_norms(self.latent_dim)).to(self.norms)


def _log_norm(values: Tensor) -> Tensor:
    """The logarithm of the norm of each row, finite at 0: `(B, n) -> (B, 1)`."""
    squares = values.square().sum(1, keepdim=True)
    return 0.5 * squares.clamp(min=torch.finfo(values.dtype).tiny).log()


def _normal_norms(size: int) -> tuple[float, float]:
    """Mean and standard deviation of `log |z|` for z from N(0, I) in so many dimensions.

    Half those of the logarithm of a chi-squared variable.
    """
    half = torch.tensor(size / 2, dtype=torch.float64)
    mean = (torch.digamma(half) + math.log(2)) / 2
    spread = torch.polygamma(1, half).sqrt() / 2
    return float(mean), float(spread)
