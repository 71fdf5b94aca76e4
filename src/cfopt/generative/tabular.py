"""A variational autoencoder of contexts that are vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cfopt import registry
from cfopt.errors import InputError
from cfopt.generative.vae import VAE

#: A feature is constant if it varies by no more than this, relative to its largest value.
_CONSTANT = 1e-6


@registry.generative_models.register
class TabularVAE(VAE):
    """Two hidden layers each way, for contexts that are vectors.

    Contexts are standardised on the way in and out, so that the unit variance of the decoder is
    that of a standardised feature.

    Arguments:
        num_features: the size of a context.
        latent_dim: n_z.
        hidden: the width of hidden layers.
    """

    offset: Tensor
    scale: Tensor

    def __init__(self, num_features: int, latent_dim: int = 4, hidden: int = 64) -> None:
        super().__init__((num_features,), latent_dim, num_features=num_features, hidden=hidden)
        if min(num_features, hidden) < 1:
            raise InputError(
                "TabularVAE needs at least one feature and one hidden unit, got num_features="
                f"{num_features} and hidden={hidden}."
            )
        self.encoder = _layers(num_features, hidden, 2 * latent_dim)
        self.decoder = _layers(latent_dim, hidden, num_features)
        self.register_buffer("offset", torch.zeros(num_features))
        self.register_buffer("scale", torch.ones(num_features))

    def standardise(self, contexts: Tensor) -> TabularVAE:
        """Take offset and scale of each feature from contexts, `(N, p)`; returns the model."""
        if contexts.shape[1:] != self.context_shape or not len(contexts):
            raise InputError(
                f"standardise needs contexts of shape (N, {self.context_shape[0]}) with N >= 1, "
                f"got {tuple(contexts.shape)}."
            )
        values = contexts.detach().double()
        spread = values.std(0, correction=min(1, len(values) - 1))
        # Rounding lets a constant feature vary a little; as a scale that would be ruinous.
        varies = spread > _CONSTANT * values.abs().amax(0)
        self.offset.copy_(values.mean(0))
        self.scale.copy_(torch.where(varies, spread, 1.0))
        return self

    def decode(self, z: Tensor) -> Tensor:
        """The mean context of each code: `(B, n) -> (B, p)`."""
        return self.offset + self.scale * super().decode(z)

    def squared_error(self, x: Tensor, decoded: Tensor) -> Tensor:
        """`|(x - d(z)) / scale|^2` of each row, `(B,)`."""
        return super().squared_error(x / self.scale, decoded / self.scale)

    def _seen(self, x: Tensor) -> Tensor:
        return (x - self.offset) / self.scale


def _layers(first: int, hidden: int, last: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(first, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, last),
    )
