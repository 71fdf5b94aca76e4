"""What answers should be like; of codes, how plausible they are under the prior N(0, I)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import pandas as pd
import torch
from scipy.special import gammainc
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array
from cfopt.errors import InputError

#: Half the thickness of the sphere by default.
KAPPA = 2.0
#: A latent is active where the variance of its mean code over the data exceeds this.
_ACTIVE = 0.01
#: Mean codes lie inside the sphere where their average norm is this far below its radius.
_INSIDE = 1.0


def mean_norm(n: int) -> float:
    """The mean norm of a code under N(0, I_n), n >= 1: the radius of the sphere.
    `C_n = sqrt(2) Gamma((n + 1) / 2) / Gamma(n / 2)`, Appendix A.2: about sqrt(n), 7.97 for 64.
    """
    if not isinstance(n, Integral) or n < 1:
        raise InputError(f"The number of latents needs to be an integer of at least 1, got {n!r}.")
    return math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))


def _norm(z: Tensor) -> Tensor:
    if z.ndim != 2 or z.shape[1] == 0 or not z.is_floating_point():
        raise InputError(
            f"Latent codes need to be real and of shape (B, n), got {z.dtype} of {tuple(z.shape)}. "
            f"Pass one row per code."
        )
    norm: Tensor = torch.linalg.vector_norm(z, dim=1)
    return norm


class Plausibility(ABC):  # noqa: B024 - what is asked of codes and of contexts differs
    """What answers should be like: their codes (`CodePenalty`), or they themselves."""


@dataclass(frozen=True)
class CodePenalty(Plausibility):
    """A penalty on implausible latent codes, with its gradient and a convex model of it.

    Arguments:
        beta: the weight of the penalty relative to the proximity, finite and >= 0.
    """

    beta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.beta) and self.beta >= 0):
            raise InputError(f"beta needs to be a finite number >= 0, got {self.beta}.")

    def __call__(self, z: Tensor) -> Tensor:
        """The penalty of each code: `(B, n) -> (B,)`."""
        return self.evaluate(z)[0]

    @abstractmethod
    def evaluate(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The penalty of each code, `(B,)`, and its gradient, `(B, n)`."""

    @abstractmethod
    def curvature(self, z: Tensor) -> Tensor:
        """A positive semidefinite model of each code's Hessian: `(B, n) -> (B, n, n)`."""


@registry.plausibilities.register
@dataclass(frozen=True)
class Sphere(CodePenalty):
    """The squared distance to the sphere of typical codes, `beta (|z| - C_n)^2`: the paper's."""

    def evaluate(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """`beta (|z| - C)^2` and `2 beta (|z| - C) z / |z|`, which is 0 at the centre."""
        norm = _norm(z)
        excess = norm - mean_norm(z.shape[1])
        slope = 2 * self.beta * excess[:, None]
        return self.beta * excess.square(), slope * _direction(z, norm)

    def curvature(self, z: Tensor) -> Tensor:
        """`2 beta z z' / |z|^2`, as the Hessian itself is indefinite inside the sphere."""
        direction = _direction(z, _norm(z))
        return 2 * self.beta * direction[:, :, None] * direction[:, None, :]


@registry.plausibilities.register
@dataclass(frozen=True)
class LogLikelihood(CodePenalty):
    """The prior's negative log-likelihood up to scale and constant, `beta |z|^2`."""

    def evaluate(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """`beta |z|^2` and `2 beta z`."""
        return self.beta * _norm(z).square(), 2 * self.beta * z

    def curvature(self, z: Tensor) -> Tensor:
        """`2 beta I`, the Hessian itself."""
        batch, n = z.shape
        identity = torch.eye(n, dtype=z.dtype, device=z.device)
        return (2 * self.beta * identity).repeat(batch, 1, 1)


def _direction(z: Tensor, norm: Tensor) -> Tensor:
    # the centre has no direction: dividing by infinity makes it 0 instead of NaN
    return z / torch.where(norm > 0, norm, math.inf)[:, None]


def _check_thickness(kappa: float) -> None:
    if not kappa >= 0:
        raise InputError(f"The thickness kappa needs to be a number >= 0, got {kappa}.")


def in_thick_sphere(z: Tensor, kappa: float) -> Tensor:
    """Which codes lie in the thickened sphere, `| |z| - C_n | <= kappa`: `(B, n) -> (B,)`."""
    _check_thickness(kappa)
    return (_norm(z) - mean_norm(z.shape[-1])).abs() <= kappa


def prior_mass(n: int, kappa: float) -> float:
    """The mass that N(0, I_n) gives to the thickened sphere, `P(| |z| - C_n | <= kappa)`."""
    _check_thickness(kappa)
    radius = mean_norm(n)
    ends = np.array([max(radius - kappa, 0.0), radius + kappa])
    inner, outer = gammainc(n / 2, ends**2 / 2)
    return float(outer - inner)


@dataclass(frozen=True, eq=False)
class MassTable:
    """How much of the data is encoded in the thickened sphere, beside the prior's mass of it.

    Arguments:
        kappas: half the thickness of each sphere, `(k,)`, as are the three shares.
        prior: the mass under the prior.
        mean_codes: the share of mean codes inside.
        sampled_codes: the share of sampled codes inside; NaN where no variances were given.
        active: how many latents are active: `Var_x(mean_j) > 0.01` (Burda et al., 2016).
        latent_dim: the number of latents n.
        mean_norm_of_means: the average norm of the mean codes, to compare with C_n.
    """

    kappas: Array
    prior: Array
    mean_codes: Array
    sampled_codes: Array
    active: int
    latent_dim: int
    mean_norm_of_means: float

    def to_dataframe(self) -> pd.DataFrame:
        """One line for each thickness, shares between 0 and 1."""
        return pd.DataFrame(
            {
                "kappa": self.kappas,
                "prior": self.prior,
                "mean codes": self.mean_codes,
                "sampled codes": self.sampled_codes,
            }
        )

    def summary(self) -> str:
        """A few lines for the terminal: the shares in percent, and how to read them."""
        sampled = not np.isnan(self.sampled_codes).any()
        rows = [("prior", self.prior), ("mean codes", self.mean_codes)]
        rows += [("sampled codes", self.sampled_codes)] if sampled else []
        lines = [f"{'kappa':<17}" + "".join(f"{kappa:>7g}" for kappa in self.kappas)]
        for name, shares in rows:
            lines.append(f"{name + ' (%)':<17}" + "".join(f"{100 * s:>7.1f}" for s in shares))
        lines.append(self._reading())
        if sampled:
            gaps = 100 * np.abs(self.sampled_codes - self.prior)
            worst = int(gaps.argmax())
            lines.append(
                f"The sampled codes, which the prior describes, are within {gaps[worst]:.1f} "
                f"points of it (worst at kappa = {self.kappas[worst]:g})."
            )
        else:
            lines.append(
                "The prior describes sampled codes, not their means: pass log_variances to compare."
            )
        return "\n".join(lines)

    def _reading(self) -> str:
        radius = mean_norm(self.latent_dim)
        inside = radius - self.mean_norm_of_means
        active = f"{self.active} of {self.latent_dim} latents are active"
        where = f"the mean codes' average norm is {self.mean_norm_of_means:.2f}"
        if inside > _INSIDE:
            return (
                f"{active}, and the mean codes lie inside the sphere: their average norm is "
                f"{self.mean_norm_of_means:.2f}, {inside:.2f} less than the radius {radius:.2f}."
            )
        return f"{active}; {where}, the sphere's radius {radius:.2f}."


def encoded_mass(
    means: Tensor,
    log_variances: Tensor | None,
    kappas: Sequence[float],
    generator: torch.Generator | None = None,
) -> MassTable:
    """Compare encoded data with the prior on thickened spheres, as the paper does in Appendix A.1.
    Sampled codes are `mean + exp(log_variance / 2) * noise`, one for each row.

    Arguments:
        means: the encoder's means, `(N, n)`, of at least 2 rows.
        log_variances: the encoder's log-variances, `(N, n)`; None for an encoder without.
        kappas: half the thickness of each sphere, >= 0.
        generator: the source of the noise; a new one of seed 0 by default.
    """
    if len(kappas) == 0:
        raise InputError("encoded_mass needs at least one kappa, got none. Pass e.g. [0.5, 1.0].")
    means = means.detach().double()
    norms = _norm(means)
    if len(means) < 2:
        raise InputError(f"encoded_mass needs at least 2 codes, got {len(means)}. Pass more rows.")
    sampled = None if log_variances is None else _sampled(means, log_variances, generator)
    if not all(torch.isfinite(codes).all() for codes in (means, sampled) if codes is not None):
        raise InputError(
            "encoded_mass needs finite means and variances, got NaN or infinity. "
            "Check the encoder's training and inputs."
        )
    return MassTable(
        kappas=np.array(kappas, dtype=np.float64),
        prior=np.array([prior_mass(means.shape[1], kappa) for kappa in kappas]),
        mean_codes=_shares(means, kappas),
        sampled_codes=np.full(len(kappas), math.nan)
        if sampled is None
        else _shares(sampled, kappas),
        active=int((means.var(0) > _ACTIVE).sum()),
        latent_dim=means.shape[1],
        mean_norm_of_means=float(norms.mean()),
    )


def _sampled(means: Tensor, log_variances: Tensor, generator: torch.Generator | None) -> Tensor:
    if log_variances.shape != means.shape:
        raise InputError(
            f"The log-variances need the shape of the means, {tuple(means.shape)}, "
            f"got {tuple(log_variances.shape)}."
        )
    if generator is None:
        generator = torch.Generator(means.device).manual_seed(0)
    noise = torch.randn(
        means.shape, generator=generator, dtype=means.dtype, device=generator.device
    )
    spread = (log_variances.detach().to(means) / 2).exp()
    return means + spread * noise.to(means.device)


def _shares(codes: Tensor, kappas: Sequence[float]) -> Array:
    return np.array([float(in_thick_sphere(codes, kappa).double().mean()) for kappa in kappas])
