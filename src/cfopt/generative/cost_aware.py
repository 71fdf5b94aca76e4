"""What is trained for: the evidence lower bound, costs that survive reconstruction, likelihood."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cfopt.errors import InputError
from cfopt.generative.flow import Flow
from cfopt.generative.vae import VAE, Gaussian
from cfopt.pipeline import Predictor


class Terms(NamedTuple):
    """The terms of the cost-aware bound for each row, all to be kept small, `(B,)` each.

    Arguments:
        reconstruction: `|x - d(z)|^2`.
        divergence: `KL(e(x) || N(0, I))`.
        costs: `|phi(x) - phi(d(z))|^2`.
        misfit: what is to be kept small instead of the reconstruction error: half of it, unless
            the VAE says otherwise.
    """

    reconstruction: Tensor
    divergence: Tensor
    costs: Tensor
    misfit: Tensor

    def loss(self, alpha: float, weight: float = 1.0) -> Tensor:
        """The negative of the bound (Eqs. 5 and 8): `(B,)`.

            misfit + weight KL + alpha |phi(x) - phi(d(z))|^2

        Arguments:
            alpha: the weight of costs; 0 is the plain VAE.
            weight: the weight of the divergence, below 1 while training warms up.
        """
        return self.misfit + weight * self.divergence + alpha * self.costs


def divergence(codes: Gaussian) -> Tensor:
    """`KL(N(mean, sigma^2) || N(0, I))` of each row: `(B, n) -> (B,)`."""
    mean, log_variance = codes
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)


def terms(
    vae: VAE | Flow,
    x: Tensor,
    predictor: Predictor | None = None,
    costs: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Terms:
    """The terms for a batch of contexts, by one sample of the code that all of them share.

    A flow has no reconstruction error, and its likelihood is known: its negative logarithm is the
    misfit.

    Arguments:
        vae: what is trained.
        predictor: phi, if costs count.
        costs: `phi(x)` where it is known already, `(B, n)`.
        generator: the random numbers of the sample.
    """
    if isinstance(vae, Flow):
        if predictor is not None:
            raise InputError(
                "A flow loses nothing of a context, so that no costs can get lost: train it with "
                "alpha=0."
            )
        none = torch.zeros_like(x[:, 0])
        return Terms(none, none, none, -vae.log_density(x))
    codes = vae.distribution(x)
    decoded = vae.decode(codes.sample(generator))
    moved = torch.zeros_like(x.flatten(1)[:, 0])
    if predictor is not None:
        if costs is None:
            with torch.no_grad():
                costs = predictor(x)
        moved = (predictor(decoded) - costs).square().sum(1)
    return Terms(vae.squared_error(x, decoded), divergence(codes), moved, vae.misfit(x, decoded))
