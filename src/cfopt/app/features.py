"""The table of features in a configuration."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from pydantic import ValidationInfo, create_model

from cfopt.app.schema import Table, TableError
from cfopt.errors import InputError
from cfopt.question.features import Features, LinearLimit


def read_features(given: Any, info: ValidationInfo) -> Features:
    """Names, scales and limits, as the arguments of `Features`.

    In `lower`, `upper` and coefficients, features without a name go by their number: "0", "1".
    """
    values = _TABLE.read(given, info.context).given()
    for key in {"lower", "upper"} & set(values):
        value = values[key] = _by_feature(values[key])
        every = value.values() if isinstance(value, dict) else value
        if any(isinstance(one, bool) for one in (every if np.iterable(every) else [every])):
            raise TableError(f"{key} needs numbers, got true or false.")
    limits = values.get("linear", [])
    try:
        values["linear"] = [
            LinearLimit(_by_feature(one.coefficients), one.lower, one.upper) for one in limits
        ]
        return Features(**values)
    except (InputError, TypeError) as error:
        raise TableError(str(error)) from error


class _Limit(Table):
    coefficients: Any
    lower: float = -np.inf
    upper: float = np.inf


#: All but what is learned from the reference.
_ENTRIES: dict[str, Any] = {
    one.name: (Any, None) for one in fields(Features) if one.name != "usual"
}
_TABLE = create_model("_Features", __base__=Table, **_ENTRIES | {"linear": (list[_Limit], [])})


def _by_feature(values: Any) -> Any:
    """TOML has only text for keys: digits are the number of a feature."""
    if not isinstance(values, dict):
        return values
    return {int(key) if key.isdigit() else key: value for key, value in values.items()}
