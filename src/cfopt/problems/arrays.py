"""Numbers that a user gives, in whatever form, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from cfopt._typing import Array
from cfopt.errors import InputError


def as_array(name: str, values: Any) -> Array:
    """A float64 copy of what a user gives as numbers."""
    given = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} needs to be an array of numbers: {error}.") from error
