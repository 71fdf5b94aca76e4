"""Tree ensembles behind the steps of a scikit-learn model, as ensembles of the raw features.

A step that turns a number into an increasing or decreasing function of it moves thresholds, and
one that encodes a category turns them into questions for one of its values. Where exactly a
threshold is moved to is found with the steps themselves, so that their rounding is the library's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfopt._typing import Array
from cfopt.adapters.linear import Inputs, evaluated, fold
from cfopt.adapters.structure import (
    CHOSEN,
    NotAffineError,
    Structure,
    has_affine_inverse,
    name_of,
)
from cfopt.trees.ensemble import TreeEnsemble
from cfopt.trees.importers import can_read, read_ensemble

#: Steps of a model as a function of features, `(B, p) -> (B, q)`.
_Steps = Callable[[Array], Array]
_Whole = NDArray[np.int64]
#: Features to compare, thresholds, and whether left and right are exchanged, `(K,)` each.
_Questions = tuple[_Whole, Array, NDArray[np.bool_]]

#: How often the interval in which a threshold is looked for may double.
_DOUBLINGS = 60


def ensemble_of(model: Any, inputs: Inputs) -> TreeEnsemble | None:
    """A fitted model as a tree ensemble of its features; None if it is not known to be one.

    InputError if its trees cannot be read.

    Arguments:
        model: a tree ensemble, or a model of scikit-learn that predicts by one.
        inputs: what it is given.
    """
    name = name_of(model)
    if name in CHOSEN:
        return ensemble_of(getattr(model, CHOSEN[name]), inputs)
    if name == "Pipeline":
        return _behind_steps(model, inputs)
    if name == "TransformedTargetRegressor" and has_affine_inverse(model.transformer_):
        return _with_target(model, inputs)
    if name == "MultiOutputRegressor":
        parts = [ensemble_of(one, inputs) for one in model.estimators_]
        known = [part for part in parts if part is not None]
        return TreeEnsemble.stack(known) if len(known) == len(parts) else None
    if not can_read(model) or inputs.groups:
        return None
    found = read_ensemble(model)
    return found if found.num_features == inputs.size else None


def _with_target(model: Any, inputs: Inputs) -> TreeEnsemble | None:
    """A regressor of targets that were scaled."""
    found = ensemble_of(model.regressor_, inputs)
    if found is None or name_of(model.transformer_) == "FunctionTransformer":
        return found
    layer = fold(model.transformer_.inverse_transform, Inputs(found.num_targets))
    if layer is None:
        return None
    return found.scaled(layer.weight.diagonal().numpy(), layer.bias.numpy())


def _behind_steps(model: Any, inputs: Inputs) -> TreeEnsemble | None:
    """A Pipeline that ends with a tree ensemble."""
    steps, last = model[:-1], model.steps[-1][1]
    if not len(steps):
        return ensemble_of(last, inputs)
    structure = Structure(inputs.width)
    try:
        entries = structure.transform(steps, structure.start) or []
    except NotAffineError:
        return None
    found = ensemble_of(last, Inputs(len(entries)))
    layer = None if found is None else fold(steps.transform, inputs)
    if found is None or layer is None or layer.out_features != len(entries):
        return None
    if _makes_sparse(steps, inputs) and not _reads_sparse(last):
        return None
    sources = {int(j): entries[j].source for j in np.unique(found.feature[found.feature >= 0])}
    if None in sources.values():
        return None
    numbers = [j for j, source in sources.items() if source not in structure.categories]
    weight, bias = layer.weight.numpy(), layer.bias.numpy()
    return _moved(found, evaluated(steps.transform, inputs), inputs, numbers, weight, bias)


def _makes_sparse(steps: Any, inputs: Inputs) -> bool:
    return hasattr(steps.transform(inputs(inputs.base[None])), "toarray")


def _reads_sparse(model: Any) -> bool:
    """Whether it compares what a sparse matrix leaves out as 0; for XGBoost that is missing."""
    return type(model).__module__.startswith(("sklearn.tree", "sklearn.ensemble"))


def _moved(
    ensemble: TreeEnsemble,
    steps: _Steps,
    inputs: Inputs,
    numbers: list[int],
    weight: Array,
    bias: Array,
) -> TreeEnsemble | None:
    """Trees that compare features as the given ones compare what steps make of them.

    Arguments:
        ensemble: trees of the q results of the steps.
        steps: each result that is compared is a function of one number, or of one category.
        inputs: what the steps are given.
        numbers: the results that are functions of a number; others are of a category.
        weight, bias: the steps as an affine map, up to rounding, `(q, p)` and `(q,)`.
    """
    nodes = np.flatnonzero((ensemble.feature >= 0) & np.isfinite(ensemble.threshold))
    asked = np.stack([ensemble.feature[nodes], ensemble.threshold[nodes]], axis=1)
    pairs, inverse = np.unique(asked, axis=0, return_inverse=True)
    column, limit = pairs[:, 0].astype(np.int64), pairs[:, 1]
    of_number = np.isin(column, numbers)
    first = _of_numbers(steps, inputs, column[of_number], limit[of_number], weight, bias)
    second = _of_categories(steps, inputs, column[~of_number], limit[~of_number], weight)
    if first is None or second is None:
        return None
    feature, threshold = np.zeros(len(pairs), dtype=np.int32), np.zeros(len(pairs))
    turned = np.zeros(len(pairs), dtype=bool)
    for which, questions in ((of_number, first), (~of_number, second)):
        feature[which], threshold[which], turned[which] = questions
    inverse = inverse.reshape(-1)
    # A threshold that is infinite separates nothing, whatever it is compared with.
    all_features = np.minimum(ensemble.feature, 0)
    all_thresholds = ensemble.threshold.copy()
    all_features[nodes], all_thresholds[nodes] = feature[inverse], threshold[inverse]
    swap = np.zeros(len(ensemble.feature), dtype=bool)
    swap[nodes] = turned[inverse]
    return replace(
        ensemble,
        feature=all_features,
        threshold=all_thresholds,
        left=np.where(swap, ensemble.right, ensemble.left),
        right=np.where(swap, ensemble.left, ensemble.right),
        missing_left=ensemble.missing_left ^ swap,
        num_features=inputs.size,
    )


def _of_numbers(
    steps: _Steps, inputs: Inputs, column: _Whole, limit: Array, weight: Array, bias: Array
) -> _Questions | None:
    """What to ask of numbers in the place of `result[column] <= limit`.

    The last x for which the answer is that of small numbers is found by bisection, from an interval
    around the solution of the affine equation; results are monotone in x, rounding included.
    """
    if not len(column):
        return column, limit, np.zeros(0, dtype=bool)
    if (np.count_nonzero(weight[column], axis=1) != 1).any():
        return None
    feature = np.abs(weight[column]).argmax(axis=1)
    slope = weight[column, feature]
    falling = slope < 0
    # Results depend on one feature each, so that a row can ask one question of each feature.
    row = np.zeros(len(column), dtype=np.int64)
    for f in np.unique(feature):
        row[feature == f] = np.arange((feature == f).sum())
    rows = np.tile(inputs.base, (int(row.max()) + 1, 1))

    def low(x: Array) -> NDArray[np.bool_]:
        """Whether numbers are answered as small ones are."""
        rows[row, feature] = x
        answer: NDArray[np.bool_] = (steps(rows)[row, column] <= limit) ^ falling
        return answer

    middle = (limit - bias[column]) / slope
    gap = 8 * np.finfo(np.float64).eps * (np.abs(limit) + np.abs(bias[column])) / np.abs(slope)
    gap = np.maximum(gap, np.finfo(np.float64).tiny)
    for _ in range(_DOUBLINGS):
        if not np.isfinite([middle - gap, middle + gap]).all():
            return None
        outside = ~low(middle - gap) | low(middle + gap)
        if not outside.any():
            break
        gap = np.where(outside, 2 * gap, gap)
    else:
        return None
    last, after = _order(middle - gap), _order(middle + gap)
    while (after - 1 > last).any():
        between = (last >> 1) + (after >> 1) + (last & after & 1)
        stays = low(_number(between))
        last, after = np.where(stays, between, last), np.where(stays, after, between)
    return feature, _number(last), falling


def _order(x: Array) -> _Whole:
    """The place of numbers among all of float64, so that the next one is 1 more."""
    bits = np.ascontiguousarray(x).view(np.int64)
    order: _Whole = np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)
    return order


def _number(order: _Whole) -> Array:
    """The number at a place: what `_order` gave it to."""
    bits: _Whole = np.where(order < 0, np.iinfo(np.int64).min - order, order)
    return bits.view(np.float64)


def _of_categories(
    steps: _Steps, inputs: Inputs, column: _Whole, limit: Array, weight: Array
) -> _Questions | None:
    """What to ask of categories in the place of `result[column] <= limit`.

    That is for one value of it; None where a threshold has several values on either side.
    """
    if not len(column):
        return column, limit, np.zeros(0, dtype=bool)
    members = np.array([f for group in inputs.groups for f in group], dtype=np.int64)
    rows = np.tile(inputs.base, (len(members), 1))
    for group in inputs.groups:
        own, places = np.flatnonzero(np.isin(members, group)), np.array(group)
        rows[own[:, None], places] = np.eye(len(group))
    results = steps(rows)
    feature, threshold = np.zeros(len(column), dtype=np.int64), np.full(len(column), 0.5)
    turned = np.zeros(len(column), dtype=bool)
    for k, (j, t) in enumerate(zip(column.tolist(), limit.tolist(), strict=True)):
        group = next((g for g in inputs.groups if weight[j, list(g)].any()), inputs.groups[0])
        if np.delete(weight[j], list(group)).any():
            return None
        below = results[np.isin(members, group), j] <= t
        count = int(below.sum())
        if count in (0, len(group)):
            threshold[k] = np.inf if count else -np.inf
        elif count == 1:
            feature[k], turned[k] = group[int(below.argmax())], True
        elif count == len(group) - 1:
            feature[k] = group[int(below.argmin())]
        else:
            return None
    return feature, threshold, turned
