"""Files of trees are looked at before their library reads them: it believes what they say.

A node that does not exist, a circle, or a feature that no context has ends the process, or is read
from someone else's memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cfopt.trees.ubjson import read_ubjson

#: XGBoost's own limit for the numbers of categories.
_CATEGORIES = 2**24


def need(holds: Any, what: str) -> None:
    """Raise ValueError, with what a model needs, unless it holds."""
    if not bool(holds):
        raise ValueError(f"its trees need {what}; save the model again")


def check_trees(sizes: Sequence[int], nodes: Sequence[ArrayLike], features: float) -> None:
    """Raise ValueError unless nodes lead from the root of each tree to its leaves.

    That no node has two parents, and no root one, rules out circles on the way from a root.

    Arguments:
        sizes: how many nodes each tree has, `(T,)`; the first one is its root.
        nodes: of all nodes, what follows on the left, -1 in leaves, and on the right, numbered
            within the tree, and the feature that is compared, `(N,)` each.
        features: how many there are.
    """
    count, total = np.asarray(sizes, dtype=np.int64), int(sum(sizes))
    lists = [np.asarray(one, dtype=np.int64) for one in nodes]
    need((count > 0).all() and {one.shape for one in lists} == {(total,)}, "an entry for each node")
    inner = lists[0] >= 0
    need((lists[0] >= -1).all(), "leaves that are marked by -1")
    followers, compared = np.stack(lists[:2])[:, inner], lists[2][inner]
    first, size = (np.repeat(one, count)[inner] for one in (count.cumsum() - count, count))
    need(((followers >= 0) & (followers < size)).all(), "children that are nodes of their tree")
    parents = np.bincount((followers + first).ravel(), minlength=total)
    parents[count.cumsum() - count] += 1
    need((parents <= 1).all(), "nodes that are reached in one way only")
    need(((compared >= 0) & (compared < features)).all(), f"features from 0 to {features - 1}")


def sound_xgboost(path: Path) -> bytearray:
    """A model file of XGBoost, JSON or UBJ, as JSON in which just what was looked at is said."""
    data = path.read_bytes()
    content = json.loads(data) if path.suffix.lower() == ".json" else read_ubjson(data)
    learner = content["learner"]
    given, booster = learner["learner_model_param"], learner["gradient_booster"]
    features = int(given["num_feature"])
    outputs = max(1, int(given["num_class"]), int(given.get("num_target", 1)))
    if booster["name"] == "gblinear":
        need(len(booster["model"]["weights"]) == (features + 1) * outputs, "a weight each")
    else:
        model = booster.get("gbtree", booster)["model"]
        trees, targets = model["trees"], np.array(model["tree_info"], dtype=np.int64)
        need(
            len(targets) == len(booster.get("weight_drop", targets)) == len(trees), "a target each"
        )
        need(((targets >= 0) & (targets < outputs)).all(), f"targets from 0 to {outputs - 1}")
        for one in model.get("cats", {}).get("enc", ()):
            ends, last = np.array([0, *one.get("offsets", ())]), len(one["values"])
            need((np.diff(ends) >= 0).all() and ends[-1] <= last, "names that are in their list")
        for tree in trees:
            _check_vectors(tree, outputs)
            _check_categories(tree)
        lists = [
            [n for tree in trees for n in tree[name]]
            for name in ("left_children", "right_children", "split_indices")
        ]
        check_trees([len(tree["left_children"]) for tree in trees], lists, features)
    return bytearray(json.dumps(content).encode())


def _check_vectors(tree: Mapping[str, Any], outputs: int) -> None:
    """Raise ValueError unless all leaves of a tree have as many values as it says."""
    size, leaf = int(tree["tree_param"]["size_leaf_vector"]), np.array(tree["left_children"]) < 0
    need(size in (0, 1, outputs), f"leaves with one value, or {outputs}")
    if size > 1:
        need(len(tree["base_weights"]) == size * len(leaf), "values of each node")
        need(len(tree.get("leaf_weights", leaf)) in (size * leaf.sum(), len(leaf)), "leaves")
        numbers = np.array(tree["right_children"])[leaf]
        need(((numbers >= -1) & (numbers < leaf.sum())).all(), "numbers of leaves that are there")


def _check_categories(tree: Mapping[str, Any]) -> None:
    """Raise ValueError unless each node that splits by categories has a list of them."""
    nodes, start, size, values, kinds = (
        np.array(tree.get(name, ()), dtype=np.int64)
        for name in (
            *("categories_nodes", "categories_segments", "categories_sizes"),
            *("categories", "split_type"),
        )
    )
    need(len(nodes) == len(start) == len(size), "a list of categories each")
    need(np.array_equal(nodes, np.flatnonzero(kinds)), "categories of just the nodes that ask")
    need(((start >= 0) & (size > 0) & (start + size <= len(values))).all(), "lists that are there")
    need(((values >= 0) & (values < _CATEGORIES)).all(), "categories that are counted from 0")


def check_sklearn(model: Any, features: float = np.inf, seen: set[int] | None = None) -> None:
    """Raise ValueError unless all trees within what skops has read are trees.

    Arguments:
        model: an estimator, or whatever it holds.
        features: how many there are, if that is known.
        seen: what has been looked at.
    """
    seen = set() if seen is None else seen
    if id(model) in seen:
        return
    seen.add(id(model))
    if isinstance(model, np.ndarray) and model.dtype.hasobject:
        model = model.ravel().tolist()
    if isinstance(model, list | tuple | dict):
        for one in model.values() if isinstance(model, dict) else model:
            check_sklearn(one, features, seen)
    elif type(model).__module__ == "sklearn.tree._tree":
        nodes = model.children_left, model.children_right, model.feature
        check_trees([model.node_count], nodes, features)
    elif isinstance(getattr(model, "__dict__", None), dict):
        own = min(features, getattr(model, "n_features_in_", np.inf))
        # Those that take turns, or columns of their own, have checked how many these are.
        same = () if hasattr(model, "estimators_features_") else ("tree_", "estimators_")
        for name, value in vars(model).items():
            check_sklearn(value, own if name in same else np.inf, seen)
        stages = getattr(model, "estimators_", None)
        if isinstance(stages, np.ndarray):
            need(
                stages.shape[1:] == (model.n_trees_per_iteration_,), "one for each cost in a stage"
            )
        if hasattr(model, "_predictors"):
            _check_histogram(model, int(own))


def _check_histogram(model: Any, features: int) -> None:
    """Raise ValueError unless the trees of histogram boosting are trees, and know categories."""
    mapper = model._bin_mapper
    known = mapper.is_categorical_ != 0
    need(len(known) == len(mapper.bin_thresholds_) == features, "bins of each feature")
    for values in (mapper.bin_thresholds_[f] for f in np.flatnonzero(known)):
        need((~(values < 0) & ~(values >= 256)).all(), "categories from 0 to 255")
    for one in (tree for stage in model._predictors for tree in stage):
        nodes = one.nodes
        leaf, by_set = (nodes[name] != 0 for name in ("is_leaf", "is_categorical"))
        names = ("left", "right", "feature_idx")
        left, right, feature = (nodes[name].astype(np.int64) for name in names)
        check_trees([len(nodes)], (np.where(leaf, -1, left), right, feature), features)
        asks = by_set & ~leaf
        need(known[feature[asks]].all(), "categories where they split by them")
        sets = nodes["bitset_idx"][asks]
        need((sets < len(one.raw_left_cat_bitsets)).all(), "lists of categories that are there")


def check_lightgbm(path: Path) -> None:
    """Raise ValueError unless the text of LightGBM's trees says what its reader relies on."""
    head, *texts = path.read_bytes().split(b"\nTree=")
    texts[-1:] = [one.partition(b"\nend of trees")[0] for one in texts[-1:]]
    general, trees = _entries(head), [_entries(one) for one in texts]
    features, each = int(general["max_feature_idx"]) + 1, int(general["num_tree_per_iteration"])
    need(each == int(general["num_class"]) > 0 and len(trees) % each == 0, "a class each")
    # Where each tree begins is taken from here.
    lengths = [len(one) + len(b"Tree=") + 1 for one in texts]
    said = list(map(int, general.get("tree_sizes", "").split())) or lengths
    need(said == lengths, "texts as long as tree_sizes says")
    sizes: list[int] = []
    lists: list[list[int]] = [[], [], []]
    for tree in trees:
        leaves = int(tree["num_leaves"])
        need(leaves > 0, "at least one leaf")
        _check_lengths(tree, leaves, features)
        sizes.append(2 * leaves - 1)
        for own, name in zip(lists, ("left_child", "right_child", "split_feature"), strict=True):
            given = [int(n) for n in tree.get(name, "").split()] if leaves > 1 else []
            if name != "split_feature":
                # Leaves, which are counted down from -1, become the nodes behind all others.
                given = [n if n >= 0 else leaves - 2 - n for n in given]
            own += given
            own += [-1] * leaves
    check_trees(sizes, lists, features)


def _entries(text: bytes) -> dict[str, str]:
    lines = [line.partition("=") for line in text.decode().splitlines() if "=" in line]
    need(len({name for name, _, _ in lines}) == len(lines), "each entry once")
    return {name: value.strip() for name, _, value in lines}


def _check_lengths(tree: Mapping[str, str], leaves: int, features: int) -> None:
    """Raise ValueError unless a tree of LightGBM has as many numbers as are read."""
    numbers = {
        name: np.array(value.split(), dtype=np.float64)
        for name, value in tree.items()
        if name not in ("", "num_leaves")
    }
    need(len(numbers["leaf_value"]) == leaves, "a value of each leaf")
    if leaves == 1:
        return
    split = ("split_feature", "threshold", "left_child", "right_child", "decision_type")
    more = ("split_gain", "internal_value", "internal_weight", "internal_count")
    own = [numbers[name] for name in split] + [numbers[n] for n in more if n in numbers]
    need(all(len(one) == leaves - 1 for one in own), "an entry for each split")
    names = ("leaf_weight", "leaf_count", "leaf_const", "num_features")
    own = [numbers[name] for name in names if name in numbers]
    need(all(len(one) == leaves for one in own), "an entry for each leaf")
    splits = numbers["threshold"][numbers["decision_type"].astype(np.int64) & 1 == 1]
    ends = numbers.get("cat_boundaries", np.zeros(1))
    need(len(ends) == int(tree["num_cat"]) + 1 and ends[0] == 0, "as many lists as num_cat says")
    need((np.diff(ends) > 0).all(), "lists of categories that follow one another")
    need(len(numbers.get("cat_threshold", ())) == ends[-1], "categories of each list")
    need(((splits >= 0) & (splits < len(ends) - 1)).all(), "lists of categories that are there")
    if int(tree.get("is_linear", "0")):
        read = numbers["leaf_features"]
        need(len(read) == len(numbers["leaf_coeff"]) == numbers["num_features"].sum(), "slopes")
        need(((read >= 0) & (read < features)).all(), f"features from 0 to {features - 1}")
