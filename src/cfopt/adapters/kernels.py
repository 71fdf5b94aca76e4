"""Kernel models of scikit-learn by their formulas: sums of kernels at known points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cfopt.adapters.structure import name_of

#: `(B, p), (N, p) -> (B, N)`.
Kernel = Callable[[Tensor, Tensor], Tensor]


class KernelSum(nn.Module):
    """`costs = K(x, points) @ weights + bias`.

    Arguments:
        kernel: `(B, p), (N, p) -> (B, N)`.
        points: the points that the model has kept, `(N, p)`.
        weights: the weights of each point and cost, `(N, n)`.
        bias: `(n,)`, or one for all.
    """

    points: Tensor
    weights: Tensor
    bias: Tensor

    def __init__(self, kernel: Kernel, points: Any, weights: Any, bias: Any = 0.0) -> None:
        super().__init__()
        self.kernel = kernel
        weights = np.asarray(weights, dtype=np.float64).reshape(len(points), -1)
        for name, values in (("points", points), ("weights", weights), ("bias", bias)):
            self.register_buffer(name, torch.tensor(np.asarray(values, dtype=np.float64)))

    def forward(self, x: Tensor) -> Tensor:
        """The costs: `(B, p) -> (B, n)`."""
        return self.kernel(x, self.points) @ self.weights + self.bias


def kernel_sum(model: Any) -> KernelSum | None:
    """A fitted KernelRidge, SVR, NuSVR or GaussianProcessRegressor; None if its kernel is another.

    Arguments:
        model: the regressor.
    """
    name = name_of(model)
    if name == "GaussianProcessRegressor":
        return _gaussian_process(model)
    points = model.X_fit_ if name == "KernelRidge" else model.support_vectors_
    if not isinstance(model.kernel, str) or not isinstance(points, np.ndarray):
        return None
    gamma = model.gamma if name == "KernelRidge" else getattr(model, "_gamma", None)
    if gamma is None and name != "KernelRidge":
        return None
    gamma = 1.0 / points.shape[1] if gamma is None else float(gamma)
    kernel = _named(model.kernel, gamma, float(model.coef0), float(model.degree))
    if kernel is None:
        return None
    if name == "KernelRidge":
        return KernelSum(kernel, points, model.dual_coef_)
    return KernelSum(kernel, points, model.dual_coef_.T, model.intercept_)


def _named(name: str, gamma: float, coef0: float, degree: float) -> Kernel | None:
    kernels: dict[str, Kernel] = {
        "linear": lambda x, y: x @ y.T,
        "poly": lambda x, y: (gamma * (x @ y.T) + coef0) ** degree,
        "rbf": lambda x, y: (-gamma * _squares(x, y)).exp(),
        "sigmoid": lambda x, y: (gamma * (x @ y.T) + coef0).tanh(),
        "laplacian": lambda x, y: (-gamma * (x[:, None] - y).abs().sum(-1)).exp(),
    }
    return kernels.get("poly" if name == "polynomial" else name)


def _gaussian_process(model: Any) -> KernelSum | None:
    """The mean of the posterior."""
    kernel, alpha = _composed(getattr(model, "kernel_", None)), getattr(model, "alpha_", None)
    mean, deviation = (getattr(model, f"_y_train_{part}", None) for part in ("mean", "std"))
    if kernel is None or alpha is None or mean is None or deviation is None:
        return None
    weights = np.asarray(alpha).reshape(len(model.X_train_), -1) * np.atleast_1d(deviation)
    return KernelSum(kernel, model.X_train_, weights, np.atleast_1d(mean))


def _composed(kernel: Any) -> Kernel | None:
    """A kernel object of scikit-learn between different points."""
    name = name_of(kernel)
    if name in ("Sum", "Product"):
        first, second = _composed(kernel.k1), _composed(kernel.k2)
        if first is None or second is None:
            return None
        one, two = first, second  # known not to be None, also within the functions
        if name == "Sum":
            return lambda x, y: one(x, y) + two(x, y)
        return lambda x, y: one(x, y) * two(x, y)
    if name == "Exponentiation":
        inner = _composed(kernel.kernel)
        exponent = kernel.exponent
        return None if inner is None else lambda x, y: inner(x, y) ** exponent
    if name == "ConstantKernel":
        return lambda x, y: torch.full(
            (len(x), len(y)), float(kernel.constant_value), dtype=x.dtype, device=x.device
        )
    if name == "WhiteKernel":
        return lambda x, y: x.new_zeros(len(x), len(y))
    if name == "DotProduct":
        return lambda x, y: x @ y.T + kernel.sigma_0**2
    return _stationary(name, kernel)


def _stationary(name: str, kernel: Any) -> Kernel | None:
    """Kernels of distances in units of a length scale."""
    if name not in ("RBF", "Matern", "RationalQuadratic"):
        return None
    scale = torch.tensor(np.asarray(kernel.length_scale, dtype=np.float64))

    def squares(x: Tensor, y: Tensor) -> Tensor:
        return _squares(x / scale.to(x), y / scale.to(x))

    if name == "RBF" or (name == "Matern" and math.isinf(kernel.nu)):
        return lambda x, y: (-0.5 * squares(x, y)).exp()
    if name == "RationalQuadratic":
        return lambda x, y: (1 + squares(x, y) / (2 * kernel.alpha)) ** -kernel.alpha
    if kernel.nu not in (0.5, 1.5, 2.5):
        return None
    root = math.sqrt(2 * kernel.nu)

    def matern(x: Tensor, y: Tensor) -> Tensor:
        # Away from 0, where the root has no gradient.
        d = root * squares(x, y).clamp(min=1e-30).sqrt()
        factors = {0.5: torch.ones_like(d), 1.5: 1 + d, 2.5: 1 + d + d**2 / 3}
        return factors[kernel.nu] * (-d).exp()

    return matern


def _squares(x: Tensor, y: Tensor) -> Tensor:
    """Squared distances, without a batch of differences: `(B, p), (N, p) -> (B, N)`."""
    middle = y.mean(0)  # so that little is cancelled
    x, y = x - middle, y - middle
    squares = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T
    return squares.clamp(min=0.0)
