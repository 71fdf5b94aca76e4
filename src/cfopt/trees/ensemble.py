"""A tree ensemble as plain arrays: sums of leaves that are found by comparing features."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cfopt._typing import Array
from cfopt.errors import InputError

#: How many visits of trees by contexts are made at once.
_AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """Trees whose leaves add up: `theta(x) = base + sum_t leaf_t(x)`, exactly as it is deployed.

    A context goes left where `x[feature] <= threshold`, both in float64. Libraries that round
    contexts or compare with `<` are served by thresholds that say the same of every number (see
    `at_single_precision`). The nodes of all trees are numbered through.

    Arguments:
        roots: the first node of each tree, `(T,)`.
        feature: the feature that each node compares, -1 in leaves, `(N,)`.
        threshold: what it is compared with, `(N,)`.
        left, right: the nodes that follow, `(N,)`; in leaves `left` is the number of the leaf.
        missing_left: whether NaN goes left, `(N,)`.
        values: what each leaf adds, `(L, n)`; or `(L, 1)`, to the target of its tree only.
        targets: the target of each tree, `(T,)`, -1 where leaves have a value for every target.
        base: what is added in any case, `(n,)`.
        num_features: the length p of a context.
        precision: the relative precision of the library's own sums, if not that of float64.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: Array
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    values: Array
    targets: NDArray[np.int32]
    base: Array
    num_features: int
    precision: float = 0.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                value = np.ascontiguousarray(value)
                value.setflags(write=False)
                object.__setattr__(self, one.name, value)
        if not self.single and self.values.shape[1] != self.num_targets:
            raise InputError(
                f"TreeEnsemble needs leaves with {self.num_targets} values, got "
                f"{self.values.shape[1]}."
            )
        if not (np.isfinite(self.values).all() and np.isfinite(self.base).all()):
            raise InputError("TreeEnsemble needs finite leaves, but some are infinite or NaN.")

    @property
    def num_targets(self) -> int:
        """How many costs n are predicted."""
        return len(self.base)

    @property
    def num_trees(self) -> int:
        """How many trees T there are."""
        return len(self.roots)

    def leaves(self, x: ArrayLike) -> NDArray[np.int32]:
        """The number of the leaf that contexts reach in each tree: `(B, p) -> (B, T)`."""
        contexts = np.asarray(x, dtype=np.float64)
        if contexts.ndim != 2 or contexts.shape[1] != self.num_features:
            raise InputError(
                f"The trees need contexts of shape (rows, {self.num_features}), got "
                f"{contexts.shape}."
            )
        node = np.broadcast_to(self.roots, (len(contexts), self.num_trees)).copy()
        rows = np.arange(len(contexts))[:, None]
        while True:
            feature = self.feature[node]
            inner = feature >= 0
            if not inner.any():
                return self.left[node]
            value = contexts[rows, np.maximum(feature, 0)]
            lower = value <= self.threshold[node]
            lower |= np.isnan(value) & self.missing_left[node]
            following = np.where(lower, self.left[node], self.right[node])
            node = np.where(inner, following, node)

    def predict(self, x: ArrayLike) -> Array:
        """The costs of contexts, in float64: `(B, p) -> (B, n)`."""
        contexts = np.asarray(x, dtype=np.float64)
        step = max(1, _AT_ONCE // max(1, self.num_trees))
        parts = [self._predict(contexts[k : k + step]) for k in range(0, len(contexts), step)]
        return np.concatenate(parts) if parts else np.empty((0, self.num_targets))

    def _predict(self, contexts: Array) -> Array:
        leaves = self.leaves(contexts)
        costs = np.tile(self.base, (len(contexts), 1))
        if self.single:
            np.add.at(costs.T, self.targets, self.values[leaves.T, 0])
        elif len(contexts) < self.num_trees:
            for row, own in zip(costs, leaves, strict=True):
                row += self.values[own].sum(axis=0)
        else:
            for tree in range(self.num_trees):
                costs += self.values[leaves[:, tree]]
        return costs

    @property
    def single(self) -> bool:
        """Whether each tree has one target."""
        return bool((self.targets >= 0).all())

    @cached_property
    def ranges(self) -> tuple[Array, Array]:
        """The least and the greatest that each cost could be, trees taken one by one: `(n,)`."""
        low, high = self.base.copy(), self.base.copy()
        for tree, root in enumerate(self.roots):
            end = self.roots[tree + 1] if tree + 1 < self.num_trees else len(self.feature)
            own = self.left[root:end][self.feature[root:end] < 0]
            where = slice(None) if self.targets[tree] < 0 else self.targets[tree]
            low[where] += self.values[own].min(axis=0).squeeze()
            high[where] += self.values[own].max(axis=0).squeeze()
        return low, high

    @cached_property
    def thresholds(self) -> tuple[Array, ...]:
        """The thresholds of each feature in increasing order, those that separate nothing apart."""
        return tuple(
            np.unique(self.threshold[(self.feature == f) & np.isfinite(self.threshold)])
            for f in range(self.num_features)
        )

    @cached_property
    def _leaf_targets(self) -> NDArray[np.int32]:
        """The target of each leaf's tree, `(L,)`."""
        found = np.zeros(len(self.values), dtype=np.int32)
        leaf = self.feature < 0
        tree = np.searchsorted(self.roots, np.flatnonzero(leaf), side="right") - 1
        found[self.left[leaf]] = self.targets[tree]
        return found

    def with_all_targets(self) -> TreeEnsemble:
        """The same trees, whose leaves have a value for every target."""
        if not self.single:
            return self
        values = np.zeros((len(self.values), self.num_targets))
        values[np.arange(len(values)), self._leaf_targets] = self.values[:, 0]
        return replace(self, values=values, targets=np.full_like(self.targets, -1))

    def scaled(self, factor: Array, shift: Array) -> TreeEnsemble:
        """The same trees, costs times a factor plus a shift, `(n,)` each."""
        by_leaf = factor[self._leaf_targets][:, None] if self.single else factor
        found = replace(self, values=self.values * by_leaf, base=self.base * factor + shift)
        # Where the shift takes off most of a cost, what is left is rounded by more of its size.
        before, after = (np.abs(one.ranges).max(axis=0) for one in (self, found))
        terms = before * np.abs(factor) + np.abs(shift)
        terms /= np.maximum(after, np.finfo(np.float64).tiny)
        return replace(found, precision=self.precision * max(1.0, float(terms.max())))

    @staticmethod
    def stack(ensembles: list[TreeEnsemble]) -> TreeEnsemble:
        """One ensemble of several, their targets side by side: `(B, n_1 + n_2 + ...)`."""
        count = [one.num_targets for one in ensembles]
        nodes, first, offset = (
            np.cumsum([0, *sizes[:-1]])
            for sizes in (
                [len(one.feature) for one in ensembles],
                [len(one.values) for one in ensembles],
                count,
            )
        )
        inner = [one.feature >= 0 for one in ensembles]
        shifted = list(zip(ensembles, nodes, first, inner, strict=True))
        single = all(one.single for one in ensembles)
        each = [one if single else one.with_all_targets() for one in ensembles]
        return TreeEnsemble(
            roots=np.concatenate([one.roots + n for one, n, _, _ in shifted]).astype(np.int32),
            feature=np.concatenate([one.feature for one in ensembles]),
            threshold=np.concatenate([one.threshold for one in ensembles]),
            left=np.concatenate(
                [one.left + np.where(split, n, leaf) for one, n, leaf, split in shifted]
            ).astype(np.int32),
            right=np.concatenate(
                [one.right + np.where(split, n, 0) for one, n, _, split in shifted]
            ).astype(np.int32),
            missing_left=np.concatenate([one.missing_left for one in ensembles]),
            values=np.concatenate(
                [
                    one.values if single else np.pad(one.values, ((0, 0), (k, sum(count) - k - n)))
                    for one, k, n in zip(each, offset, count, strict=True)
                ]
            ),
            targets=np.concatenate(
                [
                    np.where(one.targets < 0, -1, one.targets + k).astype(np.int32)
                    for one, k in zip(each, offset, strict=True)
                ]
            ),
            base=np.concatenate([one.base for one in ensembles]),
            num_features=max(one.num_features for one in ensembles),
            precision=max(one.precision for one in ensembles),
        )


def at_single_precision(threshold: Array) -> Array:
    """Thresholds t' with `x <= t'` just where `float32(x) <= t`, for every x in float64.

    A number is rounded to the nearest float32, so that the boundary is in the middle between the
    last one that is not above t and the next.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        last = threshold.astype(np.float32)
        above = last.astype(np.float64) > threshold
        last = np.where(above, np.nextafter(last, np.float32(-np.inf)), last)
        step = np.nextafter(last, np.float32(np.inf)).astype(np.float64) - last
        # Beyond the largest float32 numbers become infinite where the next one would be.
        step = np.where(np.isfinite(step), step, 2.0**104)
        middle = last.astype(np.float64) + step / 2
        rounded_up = middle.astype(np.float32) > last
    middle = np.where(rounded_up, np.nextafter(middle, -np.inf), middle)
    return np.where(np.isfinite(threshold), middle, threshold)
