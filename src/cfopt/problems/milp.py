"""Any linear or mixed-integer linear model, through HiGHS."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cfopt import registry
from cfopt._typing import Array, Indices
from cfopt.errors import InputError, SolverError
from cfopt.problems.arrays import as_array
from cfopt.problems.base import Problem
from cfopt.problems.conditions import Conditions
from cfopt.problems.highs import SOLVER_TOLERANCE, HighsModel
from cfopt.problems.linear_model import LinearModel
from cfopt.problems.partial_costs import PartialCosts
from cfopt.problems.sense import Sense
from cfopt.problems.solved import FEASIBILITY_TOLERANCE

Columns = Sequence[int] | Sequence[str]
#: Predicted costs smaller than this fraction of the fixed ones drown in HiGHS's tolerances.
_RESOLUTION = 1e-5


@registry.problems.register
class MILP(Problem):
    """`min or max <costs, y>` over linear constraints, bounds and integrality.

    The model is built once; only costs change from solve to solve. Predicted costs may cover some
    columns only. A column with a fixed cost is part of the decision all the same, since its cost
    counts; a column without any cost serves the constraints and is left out of the decision.

    Arguments:
        matrix: constraint matrix, dense or `scipy.sparse`, `(rows, columns)`.
        row_lower, row_upper: limits of `matrix @ y`, a number or `(rows,)`; -inf, inf for none.
        lower, upper: bounds of each column, a number or `(columns,)`.
        integer: whether columns are integer, one flag for all or `(columns,)`.
        sense: "min" or "max".
        cost_columns: indices or names of the columns whose costs are predicted; all by default.
        fixed_costs: the costs of columns that are not predicted, `(columns,)`; predicted costs take
            the place of those given here for `cost_columns`.
        names: a name for each column.
        gap: relative gap to which mixed-integer models are solved; 0 is a proven optimum. With
            another gap searches go faster, and answers are still verified with a gap of 0.
        time_limit: seconds for one solve.
    """

    rowwise = True
    _exact: Self | None = None

    def __init__(
        self,
        matrix: ArrayLike | Any,
        row_lower: ArrayLike,
        row_upper: ArrayLike,
        *,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        integer: ArrayLike = False,
        sense: Sense | str = Sense.MIN,
        cost_columns: Columns | None = None,
        fixed_costs: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        gap: float = 0.0,
        time_limit: float | None = None,
    ) -> None:
        self._model = LinearModel.of(matrix, row_lower, row_upper, lower, upper, integer)
        count = self._model.num_columns
        if names is not None and len(names) != count:
            raise InputError(f"MILP needs {count} names, one for each column; got {len(names)}.")
        self.sense = Sense(sense)
        self.names = tuple(names) if names is not None else None
        if not gap >= 0 or (time_limit is not None and not time_limit > 0):
            raise InputError(
                f"MILP needs gap >= 0 and time_limit > 0 (or None), got {gap!r} and {time_limit!r}."
            )
        self.gap = gap
        self.time_limit = time_limit

        predicted = self._find(cost_columns) if cost_columns is not None else np.arange(count)
        fixed = np.zeros(count) if fixed_costs is None else as_array("fixed_costs", fixed_costs)
        if fixed.shape != (count,) or not np.isfinite(fixed).all():
            raise InputError(
                f"fixed_costs needs {count} finite numbers, one for each column; got shape "
                f"{fixed.shape}."
            )
        self.objective = None if fixed_costs is None else fixed[predicted].copy()
        fixed[predicted] = 0.0
        self._priced = np.concatenate([predicted, np.flatnonzero(fixed)]).astype(np.int32)
        self._partial = PartialCosts(np.arange(len(predicted)), fixed[self._priced])
        self.num_costs = len(predicted)
        within = (self._model.lower >= 0) & (self._model.upper <= 1) & self._model.integer
        self.binary = bool(within[self._priced].all())
        self._highs: HighsModel | None = None

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        cost_columns: Columns | None = None,
        gap: float = 0.0,
        time_limit: float | None = None,
    ) -> MILP:
        """Read an MPS or LP file, as HiGHS does; its objective says sense and fixed costs.

        Arguments:
            path: a `.mps` or `.lp` file, not compressed.
            cost_columns: indices or names of the columns whose costs are predicted; by default
                those that have a cost in the file. The other costs of the file stay as they are;
                a constant in the objective is left out.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"MILP.from_file needs an MPS or LP file; there is none at {path}.")
        reader = highspy.Highs()
        reader.setOptionValue("output_flag", False)
        if reader.readModel(str(path)) == highspy.HighsStatus.kError:
            raise InputError(f"HiGHS cannot read {path}; it needs a valid .mps or .lp file.")
        lp = reader.getLp()
        if reader.getModel().hessian_.dim_:
            raise InputError(f"{path} has a quadratic objective; cfopt explains linear ones.")
        costs = np.asarray(lp.col_cost_, np.float64)
        if cost_columns is None:
            cost_columns = [int(j) for j in np.flatnonzero(costs)] or None
        model = LinearModel.from_highs(lp)
        return cls(
            model.matrix,
            model.row_lower,
            model.row_upper,
            lower=model.lower,
            upper=model.upper,
            integer=model.integer,
            sense=Sense.MAX if lp.sense_ == highspy.ObjSense.kMaximize else Sense.MIN,
            cost_columns=cost_columns,
            fixed_costs=costs,
            names=list(lp.col_names_) or None,
            gap=gap,
            time_limit=time_limit,
        )

    @property
    def num_columns(self) -> int:
        """Predicted columns first, then those with a fixed cost."""
        return len(self._priced)

    def column_bounds(self) -> tuple[Array, Array]:
        return self._model.lower[self._priced], self._model.upper[self._priced]

    def integer_columns(self) -> NDArray[np.bool_]:
        return np.asarray(self._model.integer[self._priced])

    @property
    def cost_names(self) -> tuple[str, ...] | None:
        return self.decision_names[: self.num_costs]

    def exact(self) -> Self:
        if self.gap == 0:
            return self
        if self._exact is None:
            self._exact = copy(self)
            self._exact.gap, self._exact._highs = 0.0, None
        return self._exact

    @property
    def decision_names(self) -> tuple[str, ...]:
        if self._decision_names is not None:
            return self._decision_names
        names = self.names or [f"y{j}" for j in range(self._model.num_columns)]
        return tuple(names[j] for j in self._priced)

    def narrowed(self, conditions: Conditions) -> MILP | None:
        """The same model with more rows."""
        other = copy(self)
        other._model = self._model.with_rows(self._priced, conditions)
        other._highs, other._exact = None, None
        other.__dict__.pop("_listed", None)
        why = HighsModel(other._model, self.sense, self.gap, self.time_limit).infeasibility()
        return None if "infeasible" in why else other  # or time ran out: then it is not known

    def ray(self, prices: Array) -> Array | None:
        """The direction in which HiGHS finds the model unbounded, if it is one of recession.

        With whole numbers it is that of the model without them: they allow the same directions.
        """
        relaxed = replace(self._model, integer=np.zeros_like(self._model.integer))
        solver = HighsModel(relaxed, self.sense, time_limit=self.time_limit)
        found = solver.ray(self._priced, prices)
        if found is None:
            return None
        ray: Array = found[self._priced]
        better = self.sense.sign * float(prices @ ray) < 0
        return ray if better and self.recedes(ray) else None

    def recedes(self, ray: Array) -> bool:
        """Whether the model has a direction of recession whose priced entries are these."""
        return not self._fault(self._model.cone(), ray)

    def audit(self, decisions: Array) -> dict[int, str]:
        """Whether HiGHS's answers are feasible, where all columns are part of the decision."""
        if len(self._priced) < self._model.num_columns:
            return {}
        known = np.flatnonzero(np.isfinite(decisions).all(axis=1))
        faults = zip(known.tolist(), self.faults(decisions[known]), strict=True)
        return {row: f"the solver's answer {fault}" for row, fault in faults if fault}

    def prices(self, costs: Tensor) -> Tensor:
        return costs if self.prices_are_costs else self._partial(costs)

    @property
    def prices_are_costs(self) -> bool:
        return self.num_columns == self.num_costs

    def optimise(self, prices: Array) -> Array:
        """One HiGHS solve a row; LPs restart from the last basis."""
        return self.optimise_within(prices)[0]

    def optimise_within(self, prices: Array) -> tuple[Array, Array]:
        """The same, with what HiGHS leaves open: where it stops at a gap, by its bound.

        Predicted costs may drown beside fixed ones in its tolerances. On the boundary where they
        vanish the answer is as good as the fixed ones say; where nothing but the drowned ones
        decides, there is none.
        """
        if self._highs is None:
            self._highs = HighsModel(self._model, self.sense, self.gap, self.time_limit)
        fixed = self._model.lower[self._priced] == self._model.upper[self._priced]
        varying = np.where(fixed, 0.0, prices)  # what cannot vary decides nothing
        decisions, shortfall = np.empty(prices.shape), np.zeros(len(prices))
        for row, costs in enumerate(varying):
            decisions[row] = self._highs.solve(self._priced, costs)[self._priced]
            if self.gap > 0 and self._model.integer.any():
                value = float(costs @ decisions[row])
                shortfall[row] = max(0.0, self.sense.sign * (value - self._highs.bound))
        return decisions, shortfall + self._indistinct(varying, decisions)

    def _indistinct(self, prices: Array, decisions: Array) -> Array:
        """What HiGHS cannot distinguish where predicted costs are tiny: `(B, m) -> (B,)`."""
        largest = np.abs(prices).max(axis=1)
        predicted = np.abs(prices[:, : self.num_costs]).max(axis=1)
        # Below rounding they are 0.
        drowned = (predicted > 1e-12 * largest) & (predicted < _RESOLUTION * largest)
        span = self._model.upper[self._priced] - self._model.lower[self._priced]
        spans = np.where(np.isfinite(span), span, np.abs(decisions)).sum(axis=1)
        missed: Array = np.where(drowned, SOLVER_TOLERANCE * largest * spans, 0.0)
        if (missed > FEASIBILITY_TOLERANCE * np.abs(prices * decisions).sum(axis=1)).any():
            raise SolverError(
                f"the predicted costs (up to {predicted.min():.3g}) are too small beside the fixed "
                f"ones (up to {largest.max():.3g}) for HiGHS to distinguish decisions; rescale them"
            )
        return missed

    def faults(self, decisions: Array) -> list[str]:
        """What a decision breaks; columns without a price may take any fitting value."""
        return [self._fault(self._model, row) for row in decisions]

    def _fault(self, model: LinearModel, decision: Array) -> str:
        fault = model.broken_bounds(self._priced, decision)
        if fault:
            return fault
        if len(self._priced) == model.num_columns:
            values = np.empty(len(decision))
            values[self._priced] = decision
            return model.broken_rows(values)
        rest = model.rest(self._priced, decision)
        why = HighsModel(rest, self.sense, self.gap, self.time_limit).infeasibility()
        return f"cannot be completed to a solution ({why})" if why else ""

    def _find(self, columns: Columns) -> Indices:
        """Column indices, from indices or names."""
        known = {name: j for j, name in enumerate(self.names or ())}
        found = []
        for column in columns:
            index = known.get(column) if isinstance(column, str) else int(column)
            if index is None or not 0 <= index < self._model.num_columns:
                raise InputError(
                    f"cost_columns names {column!r}, which is not a column of the model "
                    f"({self._model.num_columns} columns)."
                )
            found.append(index)
        if len(set(found)) < len(found) or not found:
            raise InputError("cost_columns needs at least one column, and each only once.")
        return np.asarray(found, dtype=np.intp)

    def renew(self) -> None:
        self._highs, self._exact = None, None

    def __getstate__(self) -> dict[str, Any]:
        # A HiGHS instance cannot be pickled; it is rebuilt where it is needed.
        return self.__dict__ | {"_highs": None, "_exact": None}
