"""Principal components: the simplest generative model, linear and without training."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from cfopt import registry
from cfopt.errors import InputError
from cfopt.generative.coded_module import CodedModule
from cfopt.pipeline.images import as_floats

#: Up to this many rows or features, the components are exact.
_EXACT = 2000
#: Contexts that are turned into float64 at once.
_AT_ONCE = 512
#: Directions in which the data vary less than this do not count: relative to the first, to the
#: mean.
_RANK, _ROUNDING = 1e-6, 1e-12
#: Of the iteration for larger data: directions beyond those wanted, and passes over the data.
_SPARE, _PASSES = 16, 8


@registry.generative_models.register
class PCA(CodedModule):
    """Codes along the principal components, scaled so that each has variance 1, as in the prior.

        encode(x) = components (x - mean) / spread,  decode(z) = mean + components' (spread z)

    Make one with `PCA.fit`. Decoded images may leave [0, 1] a little: the model is linear.

    Arguments:
        context_shape: the shape of one context.
        latent_dim: the size of a code.
    """

    mean: Tensor
    components: Tensor
    spread: Tensor

    def __init__(self, context_shape: tuple[int, ...], latent_dim: int) -> None:
        super().__init__(context_shape, latent_dim, context_shape=list(context_shape))
        size = torch.Size(self.context_shape).numel()
        if not isinstance(latent_dim, int) or not 1 <= latent_dim <= size:
            raise InputError(
                f"PCA of contexts of shape {self.context_shape} needs a whole latent_dim from 1 to "
                f"{size}, got {latent_dim}."
            )
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("components", torch.eye(latent_dim, size))
        self.register_buffer("spread", torch.ones(latent_dim))

    @classmethod
    def fit(cls, contexts: Tensor, latent_dim: int) -> PCA:
        """The principal components of contexts, the same ones each time.

        Exact, by the eigenvectors of the covariance or of the Gram matrix, whichever is smaller.
        Where both have more than 2000 rows, time and memory forbid that: a subspace iteration over
        the data gives components that keep nearly as much variance (99.99% on terrain maps).

        Arguments:
            contexts: the data, `(N, ...)`; uint8 images count from 0 to 1.
            latent_dim: how many components, at most as many as the data vary in.
        """
        if contexts.ndim < 2 or len(contexts) < 2:
            raise InputError(
                "PCA needs contexts of shape (N, ...) with N >= 2, got shape "
                f"{tuple(contexts.shape)}. Pass more rows."
            )
        model = cls(tuple(contexts.shape[1:]), latent_dim)
        data = _Centred(contexts)
        exact = min(data.rows, data.size) <= _EXACT
        components, variances = _exact(data, latent_dim) if exact else _iterated(data, latent_dim)
        spread = variances.clamp(min=0).sqrt()
        # Beside the first direction also the mean: it makes equal rows differ by rounding.
        least = max(_RANK * float(spread[0]), _ROUNDING * float(data.mean.abs().max()))
        rank = int((spread > least).sum())
        if rank < latent_dim:
            raise InputError(
                f"{latent_dim} components need data that vary in as many directions; these "
                f"{len(contexts)} contexts vary in {rank}. Use latent_dim={rank} or less."
                if rank
                else "PCA needs contexts that differ; these are all the same."
            )
        # Eigenvectors have no sign of their own: let the largest entry be positive.
        largest = components.gather(1, components.abs().argmax(1, keepdim=True))
        model.to(contexts.dtype if contexts.is_floating_point() else model.mean.dtype)
        model.mean.copy_(data.mean)
        model.components.copy_(components * largest.sign())
        model.spread.copy_(spread)
        return model.to(contexts.device).eval()

    def encode(self, x: Tensor) -> Tensor:
        """The code of each context: `(B, ...) -> (B, n)`."""
        self.check_contexts(x)
        return (x.flatten(1) - self.mean) @ self.components.T / self.spread

    def decode(self, z: Tensor) -> Tensor:
        """The context of each code: `(B, n) -> (B, ...)`."""
        self.check_codes(z)
        x = self.mean + (z * self.spread) @ self.components
        return x.reshape(len(z), *self.context_shape)


class _Centred:
    """Data less their mean, in float64, a part at a time: images need not fit in memory twice."""

    def __init__(self, contexts: Tensor) -> None:
        self._contexts = contexts.detach()
        self.rows, self.size = len(contexts), contexts[0].numel()
        self.mean = torch.zeros(self.size, dtype=torch.float64)
        self.mean = torch.stack([part.sum(0) for part in self.parts()]).sum(0) / self.rows
        if not self.mean.isfinite().all():
            raise InputError("PCA needs finite contexts, got NaN or infinity. Leave such rows out.")

    def parts(self) -> Iterator[Tensor]:
        for part in torch.split(self._contexts, _AT_ONCE):
            yield as_floats(part).flatten(1).to("cpu", torch.float64) - self.mean

    def covary(self, directions: Tensor) -> Tensor:
        """The covariance matrix times directions: `(p, k) -> (p, k)`."""
        found = torch.zeros_like(directions)
        for part in self.parts():
            found += part.T @ (part @ directions)
        return found / (self.rows - 1)


def _exact(data: _Centred, count: int) -> tuple[Tensor, Tensor]:
    """The first components, `(k, p)`, and the variances along them, `(k,)`."""
    if data.size <= data.rows:
        covariance = data.covary(torch.eye(data.size, dtype=torch.float64))
        variances, vectors = torch.linalg.eigh(covariance)
        return vectors.flip(1).T[:count], variances.flip(0)[:count]
    centred = torch.cat(list(data.parts()))
    variances, vectors = torch.linalg.eigh(centred @ centred.T / (data.rows - 1))
    variances, vectors = variances.flip(0)[:count], vectors.flip(1)[:, :count]
    # Where nothing varies there is no direction; the variance shows that to the caller.
    return nn.functional.normalize(vectors.T @ centred, dim=1, eps=1e-300), variances


def _iterated(data: _Centred, count: int) -> tuple[Tensor, Tensor]:
    """The same, nearly, by a subspace iteration (Halko et al., 2011)."""
    width = min(count + _SPARE, data.size, data.rows)
    start = torch.Generator().manual_seed(0)
    basis = torch.randn((data.size, width), generator=start, dtype=torch.float64)
    for _ in range(_PASSES):
        basis = torch.linalg.qr(data.covary(basis)).Q
    variances, vectors = torch.linalg.eigh(basis.T @ data.covary(basis))
    return (basis @ vectors.flip(1)[:, :count]).T, variances.flip(0)[:count]
