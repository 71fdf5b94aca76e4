"""Models that stay as they are: their own predictions, without a gradient."""

from __future__ import annotations

from typing import Any

from cfopt import registry
from cfopt.adapters.scikit import inputs_of, own_predict
from cfopt.adapters.structure import name_of
from cfopt.errors import InputError
from cfopt.pipeline import Function


@registry.adapters.register
def untranslated(model: Any) -> Function | None:
    """A fitted model of scikit-learn as a function of what it was fitted on.

    Asked last, after the adapters that know more of a model.
    """
    if not name_of(model):
        return None
    if not hasattr(model, "n_features_in_"):
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        try:
            check_is_fitted(model)
        except NotFittedError:
            name = type(model).__name__
            raise InputError(
                f"Pipeline needs a fitted model; this {name} is not. Call fit first."
            ) from None
        return None
    inputs = inputs_of(model)
    return Function(own_predict(model, inputs), inputs.columns)
