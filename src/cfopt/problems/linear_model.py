"""A linear model as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import highspy
import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from cfopt._typing import Array
from cfopt.errors import InputError
from cfopt.problems.arrays import as_array
from cfopt.problems.conditions import Conditions
from cfopt.problems.solved import FEASIBILITY_TOLERANCE


@dataclass(frozen=True)
class LinearModel:
    """`row_lower <= matrix @ y <= row_upper`, `lower <= y <= upper`, some of y integer."""

    matrix: Any  # scipy.sparse.csc_array, which has no type arguments to name
    row_lower: Array
    row_upper: Array
    lower: Array
    upper: Array
    integer: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        matrix: ArrayLike | Any,
        row_lower: ArrayLike,
        row_upper: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        integer: ArrayLike,
    ) -> LinearModel:
        """Check and broadcast what a user gives."""
        dense: Any = matrix
        if not scipy.sparse.issparse(matrix):
            dense = as_array("matrix", matrix)
        if dense.ndim != 2 or dense.shape[1] == 0:
            raise InputError(
                "A linear model needs a constraint matrix of shape (rows, columns), with at least "
                f"one column; got shape {dense.shape}."
            )
        sparse = scipy.sparse.csc_array(dense, dtype=np.float64)
        rows, columns = sparse.shape

        def spread(name: str, values: ArrayLike, size: int) -> Array:
            array = as_array(name, values)
            if array.ndim > 1 or (array.ndim == 1 and len(array) != size) or np.isnan(array).any():
                raise InputError(
                    f"{name} needs one number or {size} of them, none NaN; got shape {array.shape}."
                )
            return np.broadcast_to(array, (size,)).copy()

        if not np.isfinite(sparse.data).all():
            raise InputError("The constraint matrix has entries that are not finite.")
        return cls(
            sparse,
            spread("row_lower", row_lower, rows),
            spread("row_upper", row_upper, rows),
            spread("lower", lower, columns),
            spread("upper", upper, columns),
            spread("integer", integer, columns) != 0,
        )

    @classmethod
    def from_highs(cls, lp: highspy.HighsLp) -> LinearModel:
        """The arrays of a model that HiGHS has read."""
        shape = (lp.num_row_, lp.num_col_)
        parts = (lp.a_matrix_.value_, lp.a_matrix_.index_, lp.a_matrix_.start_)
        by_column = lp.a_matrix_.format_ == highspy.MatrixFormat.kColwise
        build = scipy.sparse.csc_array if by_column else scipy.sparse.csr_array
        kinds = lp.integrality_ or [highspy.HighsVarType.kContinuous] * lp.num_col_
        plain = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        if any(kind not in plain for kind in kinds):
            raise InputError("The model has semi-continuous columns, which cfopt does not support.")
        integer = [kind == highspy.HighsVarType.kInteger for kind in kinds]
        matrix = build(parts, shape=shape)
        return cls.of(matrix, lp.row_lower_, lp.row_upper_, lp.col_lower_, lp.col_upper_, integer)

    @property
    def num_columns(self) -> int:
        """How many columns the model has."""
        return len(self.lower)

    def rest(self, columns: NDArray[np.int32], values: Array) -> LinearModel:
        """What is left for the other columns when some have given values, up to the tolerance."""
        others = np.setdiff1d(np.arange(self.num_columns), columns)
        taken = self.matrix[:, columns] @ values
        slack = FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(taken))
        return LinearModel(
            self.matrix[:, others],
            self.row_lower - taken - slack,
            self.row_upper - taken + slack,
            self.lower[others],
            self.upper[others],
            self.integer[others],
        )

    def with_rows(self, columns: NDArray[np.int32], conditions: Conditions) -> LinearModel:
        """The model with further limits on sums of some columns."""
        rows = scipy.sparse.lil_array((len(conditions), self.num_columns))
        rows[:, columns] = conditions.matrix
        return replace(
            self,
            matrix=scipy.sparse.csc_array(scipy.sparse.vstack([self.matrix, rows])),
            row_lower=np.concatenate([self.row_lower, conditions.lower]),
            row_upper=np.concatenate([self.row_upper, conditions.upper]),
        )

    def cone(self) -> LinearModel:
        """The directions in which one can move for ever: each finite limit becomes 0."""
        row_lower, row_upper, lower, upper = (
            np.where(np.isfinite(limit), 0.0, limit)
            for limit in (self.row_lower, self.row_upper, self.lower, self.upper)
        )
        whole = np.zeros_like(self.integer)
        return LinearModel(self.matrix, row_lower, row_upper, lower, upper, whole)

    def broken_bounds(self, columns: NDArray[np.int32], values: Array) -> str:
        """Which bounds and integrality some columns break with given values, in words, or ""."""
        over = np.maximum(self.lower[columns] - values, values - self.upper[columns])
        broken = over > FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(values))
        if broken.any():
            return f"breaks {broken.sum()} bounds (largest: {over.max():.3g} over)"
        off = np.abs(values - values.round())[self.integer[columns]] > FEASIBILITY_TOLERANCE
        return f"has {off.sum()} fractional values in integer columns" if off.any() else ""

    def broken_rows(self, values: Array) -> str:
        """Which constraints a full solution breaks, in words, or ""."""
        activity = self.matrix @ values
        over = np.maximum(self.row_lower - activity, activity - self.row_upper)
        broken = over > FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(activity))
        if not broken.any():
            return ""
        return f"breaks {broken.sum()} constraints (largest: {over.max():.3g} over)"
