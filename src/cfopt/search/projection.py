"""Back into what is allowed, apart from whole numbers: for searches that take free steps."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cfopt.exact.geometry import Euclidean, System
from cfopt.question.domain import Domain


def project(domain: Domain, x: Tensor) -> Tensor:
    """The nearest contexts within the bounds and the limits on sums: `(B, ...) -> (B, ...)`.

    Whole numbers are left to `Domain.round`. A row for which the solver fails stays within its
    bounds.
    """
    clamped = domain.clamp(x)
    if domain.boxed:
        return clamped
    matrix, least, most = domain.sums()
    target = x.flatten(1).double().cpu().numpy()
    value = target @ matrix.T
    here = clamped.flatten(1).double().cpu().numpy() @ matrix.T
    kept = (here >= least) & (here <= most)
    lower, upper = domain.lower.double().cpu().numpy(), domain.upper.double().cpu().numpy()
    moved = clamped.flatten(1).clone()
    for row in np.flatnonzero(~kept.all(axis=1) & np.isfinite(target).all(axis=1)):
        box = System.box(lower[row] - target[row], upper[row] - target[row])
        system = box.with_rows(matrix, least - value[row], most - value[row])
        found = Euclidean().nearest(system)
        if isinstance(found, tuple):
            moved[row] = torch.from_numpy(target[row] + found[0].values).to(x)
    return domain.clamp(moved.view_as(x))
