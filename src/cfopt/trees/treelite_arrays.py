"""A model that treelite has read, as the arrays of an ensemble."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.trees.categories import Outcome, Reading, opposite, with_comparisons
from cfopt.trees.ensemble import TreeEnsemble
from cfopt.trees.sound import check_trees, need

#: How treelite writes down `<` and `<=`, and nodes that split by categories.
_LESS, _LESS_OR_EQUAL, _CATEGORICAL = 2, 3, 2


def ensemble_of_treelite(
    found: Any, rounded: Callable[[Array], Array], reading: Reading | None = None
) -> TreeEnsemble:
    """The arrays of a model.

    Arguments:
        found: what treelite has read.
        rounded: thresholds as the library compares them, in float64.
        reading: how categories are read from contexts, if trees may split by them.
    """
    header = found.get_header_accessor()
    postprocessor = header.get_field("postprocessor")
    if postprocessor not in ("identity", "identity_multiclass") or found.num_tree == 0:
        what = "has no trees" if found.num_tree == 0 else f"applies {postprocessor} to its sums"
        raise InputError(
            f"Trees need to add up to the costs themselves, but this model {what}. Use a "
            "regressor with squared or absolute error."
        )
    if int(header.get_field("num_class").max()) > 1:
        raise InputError("Trees need to predict costs; this model is a classifier.")
    base = header.get_field("base_scores").astype(np.float64)
    trees = [found.get_tree_accessor(k) for k in range(found.num_tree)]
    if reading is None and any(tree.get_field("has_categorical_split")[0] for tree in trees):
        raise InputError(
            "Trees that split by categories can be read from the library's own model or file, got "
            "a file of treelite, which does not say how categories are read from contexts."
        )
    names = ("cleft", "cright", "split_index")
    lists = [np.concatenate([tree.get_field(name) for tree in trees]) for name in names]
    check_trees([len(tree.get_field("cleft")) for tree in trees], lists, found.num_feature)
    vector = header.get_field("leaf_vector_shape")[0] > 1
    shrink = 1.0 / found.num_tree if header.get_field("average_tree_output")[0] else 1.0
    parts = [_tree(tree, rounded, vector, reading) for tree in trees]
    targets = header.get_field("target_id").astype(np.int32)
    if not vector and len(base) == 1:
        targets = np.zeros_like(targets)
    need(vector or ((targets >= 0) & (targets < len(base))).all(), "a cost each")
    nodes = np.cumsum([0] + [len(part["feature"]) for part in parts])
    leaves = np.cumsum([0] + [len(part["values"]) for part in parts])
    for part, node, leaf in zip(parts, nodes, leaves, strict=False):
        part["left"] += np.where(part["feature"] >= 0, node, leaf)
        part["right"] += np.where(part["feature"] >= 0, node, 0)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    values = joined.pop("values").astype(np.float64) * shrink
    return TreeEnsemble(
        **{name: joined[name].astype(kind) for name, kind in _KINDS.items()},
        roots=nodes[:-1].astype(np.int32),
        values=values,
        targets=np.full(len(trees), -1, dtype=np.int32) if vector else targets,
        base=base,
        num_features=found.num_feature if reading is None else reading.size(found.num_feature),
        precision=float(np.finfo(np.float32).eps) if found.output_type == "float32" else 0.0,
    )


_KINDS: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
}


def _tree(
    tree: Any, rounded: Callable[[Array], Array], vector: bool, reading: Reading | None
) -> dict[str, Any]:
    """One tree, its nodes and leaves numbered from 0."""
    left, feature = tree.get_field("cleft").astype(np.int64), tree.get_field("split_index")
    inner = left >= 0
    by_category = tree.get_field("node_type") == _CATEGORICAL
    comparison = tree.get_field("cmp")
    given = tree.get_field("threshold")
    strict = inner & (comparison == _LESS)
    if (inner & ~by_category & ~strict & (comparison != _LESS_OR_EQUAL)).any():
        raise InputError("Trees need to compare features by < or <=; this model does not.")
    # Below a number is at or below the one before it, in the precision of the model.
    threshold: Array = np.where(strict, np.nextafter(given, -np.inf, dtype=given.dtype), given)
    threshold = np.where(inner, rounded(threshold.astype(np.float64)), 0.0)
    number = np.cumsum(~inner) - 1
    if vector:
        begin = tree.get_field("leaf_vector_begin")[~inner].astype(np.int64)
        end = tree.get_field("leaf_vector_end")[~inner].astype(np.int64)
        width = int((end - begin).max())
        values = tree.get_field("leaf_vector")[begin[:, None] + np.arange(width)]
    else:
        values = tree.get_field("leaf_value")[~inner][:, None]
    if reading is not None:
        feature = np.array([reading.feature(int(f)) if f >= 0 else -1 for f in feature])
    nodes = {
        "feature": np.where(inner, feature, -1).astype(np.int64),
        "threshold": threshold,
        "left": np.where(inner, left, number),
        "right": np.where(inner, tree.get_field("cright").astype(np.int64), -1),
        "missing_left": tree.get_field("default_left").astype(bool),
        "values": values,
    }
    if reading is None or not by_category.any():
        return nodes
    asks = {int(n): _asks(tree, int(n), reading) for n in np.flatnonzero(by_category)}
    return with_comparisons(nodes, asks)


def _asks(tree: Any, node: int, reading: Reading) -> Outcome:
    """What leads to the left of a node that splits by categories."""
    begin, end = (int(tree.get_field(f"category_list_{name}")[node]) for name in ("begin", "end"))
    values = tree.get_field("category_list")[begin:end].tolist()
    missing_left = bool(tree.get_field("default_left")[node])
    listed_right = bool(tree.get_field("category_list_right_child")[node])
    f = int(tree.get_field("split_index")[node])
    found = reading.asks(f, values, missing_left ^ listed_right)
    return opposite(found) if listed_right else found
