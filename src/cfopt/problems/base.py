"""The one contract of an optimisation problem: costs in, best decisions out, a batch at a time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from inspect import isfunction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from cfopt import clock
from cfopt._guard import Guard, guarded
from cfopt._rows import row_keys
from cfopt._typing import Array
from cfopt.clock import is_over
from cfopt.errors import InputError, SolverError
from cfopt.problems.conditions import Conditions
from cfopt.problems.decision_space import DecisionSpace
from cfopt.problems.sense import Sense
from cfopt.problems.solved import NO_OTHER, ROUNDING, TIME_IS_UP, Solved, same_decision

if TYPE_CHECKING:
    from cfopt.problems.foil import Foil

#: Methods that may use a problem's solver, or what it remembers.
_BY_SOLVER = {
    "optimise", "optimise_within", "runner_up", "has_equal", "faults", "audit", "ray", "recedes",
    "remember", "renew", "list_decisions", "exact", "narrowed",
}  # fmt: skip
#: How many rows are solved at once where time is limited, at first; twice as many after each time
#: that took no longer than so many seconds.
_AT_FIRST, _MOMENT = 8, 0.1


class Problem(DecisionSpace, ABC):
    """Decisions `y` in a feasible set Y, the best of which is wanted for given costs.

    A new problem sets `num_costs` (and `sense`, where it maximises) and implements `optimise` and
    `faults`; `list_decisions` where its decisions can be listed, and `scene` where they are more
    than bars. `cfopt.testing.ProblemContract` tests the result.

    A decision has one entry for each priced column. Usually every price is predicted; where only
    some are, `prices` says how the predicted costs become prices.

    Solvers keep a state, and searches may ask from several threads: a problem and its copies are
    asked by one at a time. No subclass or caller needs to see to that.
    """

    sense: Sense = Sense.MIN
    #: Whether `optimise` solves row by row anyway, so that a failing row can be reported at once.
    rowwise: bool = False
    #: By what fraction of its value an answer of `optimise` may fall short of the best one.
    tolerance: float = 0.0
    #: The costs that the problem came with, where others are not predicted, `(num_costs,)`.
    objective: Array | None = None
    #: Held while the solver is asked.
    guard: Guard
    #: After this moment, rows fail instead of being solved.
    deadline: float = math.inf

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _BY_SOLVER & vars(cls).keys():
            if isfunction(method := vars(cls)[name]):  # a static method has no state to guard
                setattr(cls, name, guarded(method))

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        problem = super().__new__(cls)
        problem.guard = Guard()
        return problem

    @property
    def ranks_decisions(self) -> bool:
        """Whether `runner_up` can be asked for."""
        return self.binary

    def until(self, deadline: float) -> Self:
        """The same problem until a deadline; rows asked later fail.

        A solve that has begun is not stopped.
        """
        if deadline >= self.deadline:
            return self
        _ = self._listed  # made now, so that both share what either lists
        other = copy(self)
        other.deadline = deadline
        other.__dict__.pop("_exact", None)  # which may have been made with another deadline
        return other

    def prices(self, costs: Tensor) -> Tensor:
        """The objective coefficient of each decision column: `(B, num_costs) -> (B, m)`."""
        return costs

    @property
    def prices_are_costs(self) -> bool:
        """Whether `prices` hands costs on as they are, one for each column."""
        return type(self).prices is Problem.prices

    @abstractmethod
    def optimise(self, prices: Array) -> Array:
        """The best decision of each row for finite prices: `(B, m) -> (B, m)`, ties settled alike.

        Raises SolverError where a row has no optimum.
        """

    def optimise_within(self, prices: Array) -> tuple[Array, Array]:
        """The decisions of `optimise`, and by how much each may fall short of the best value.

        `(B, m) -> (B, m), (B,)`. By default what `tolerance` says of them; a solver that proves a
        bound of its own says it here.
        """
        decisions = self.optimise(prices)
        if self.tolerance == 0:
            return decisions, np.zeros(len(prices))
        return decisions, self.tolerance * np.abs((prices * decisions).sum(axis=1))

    @abstractmethod
    def faults(self, decisions: Array) -> list[str]:
        """For each row of `(B, m)` what keeps it out of Y, in words, or "" if it is in Y."""

    def remember(self, decisions: Array) -> None:
        """Note decisions that callers are given, `(B, m)`, to recognise them when they come back.

        For problems that cannot test every decision; rows that are not finite have none.
        """

    def renew(self) -> None:
        """Forget what earlier calls left behind, such as a solver's last basis.

        Then what follows is the same to the last digit, whatever went before.
        """

    def list_decisions(self, limit: int) -> Array | None:
        """Every decision, `(D, m)`; None if they are more than `limit` or cannot be listed."""
        return None

    def audit(self, decisions: Array) -> dict[int, str]:
        """What is wrong with answers of `optimise`, by row; for solvers that are not our own."""
        return {}

    def ray(self, prices: Array) -> Array | None:
        """A direction in which feasible decisions get better without end: `(m,) -> (m,)`.

        None if the problem has an optimum, or cannot say.
        """
        return None

    def recedes(self, ray: Array) -> bool:
        """Whether feasible decisions extend along a ray for ever: `(m,) -> bool`."""
        return False

    def exact(self) -> Problem:
        """The problem whose optima are proven, where `optimise` may stop short of one."""
        return self

    def narrowed(self, conditions: Conditions) -> Problem | None:
        """A problem over the same columns with the decisions that meet conditions; None if none do.

        By default by a list of all decisions or, where conditions say of single columns that they
        are 0 or 1, by prices.
        """
        from cfopt.problems.restricted import narrow

        return narrow(self, conditions)

    # What callers use.

    def restricted(self, foil: Foil) -> Problem:
        """The same problem, with the decisions of a foil only; InputError if it is empty."""
        from cfopt.problems.restricted import restrict

        return restrict(self, foil)

    def solve(self, costs: Tensor | ArrayLike) -> Tensor:
        """The best decisions, on the device and in the dtype of `costs`: `(B, n) -> (B, m)`."""
        costs = torch.as_tensor(costs)
        if costs.ndim != 2 or costs.shape[1] != self.num_costs:
            raise InputError(
                f"{type(self).__name__} needs costs of shape (rows, {self.num_costs}), got "
                f"{tuple(costs.shape)}."
            )
        if not costs.is_floating_point():
            costs = costs.to(torch.get_default_dtype())
        solved = self.attempt(self.prices(costs))
        if solved.failures:
            row, reason = next(iter(solved.failures.items()))
            count = len(solved.failures)
            raise SolverError(f"No optimum for {count} of {len(costs)} rows. Row {row}: {reason}")
        self.remember(solved.decisions.to("cpu", torch.float64).numpy())
        return solved.decisions

    def attempt(self, prices: Tensor) -> Solved:
        """Optimise whatever rows can be; a row that cannot fails alone: `(B, m) -> Solved`."""
        host = prices.detach().to("cpu", torch.float64).numpy()
        # A sum that overflows would do so inside the solver, too.
        with np.errstate(over="ignore"):
            sizes = np.abs(host)
            if np.isfinite(sizes.sum()):
                decisions, shortfall, failures = self._isolated(host)
            else:
                decisions, shortfall = np.full(host.shape, np.nan), np.zeros(len(host))
                finite = np.isfinite(sizes.sum(axis=1))
                bad, rows = np.flatnonzero(~finite).tolist(), np.flatnonzero(finite)
                decisions[rows], shortfall[rows], lost = self._isolated(host[rows])
                failures = dict.fromkeys(bad, "its costs are not finite")
                failures |= {int(rows[k]): why for k, why in lost.items()}
        known = torch.from_numpy(shortfall).to(prices.device) if shortfall.any() else None
        return Solved(torch.from_numpy(decisions).to(prices.device, prices.dtype), failures, known)

    def _isolated(self, prices: Array) -> tuple[Array, Array, dict[int, str]]:
        """`optimise_within` of all rows; where that fails of each alone, and why those fail."""
        decisions, shortfall = np.full(prices.shape, np.nan), np.zeros(len(prices))
        failures: dict[int, str] = {}

        def attempt(own: slice) -> None:
            rows = range(own.start, own.stop)
            if is_over(self.deadline):
                failures.update(dict.fromkeys(rows, TIME_IS_UP))
                return
            try:
                decisions[own], shortfall[own] = self.optimise_within(prices[own].copy())
            except SolverError as error:
                if len(rows) == 1:
                    failures[own.start] = str(error)
                    return
                for row in rows:
                    attempt(slice(row, row + 1))

        for own in self._together(len(prices)):
            attempt(own)
        return decisions, shortfall, failures

    def _together(self, count: int) -> Iterator[slice]:
        """Which rows are solved at once: all, or as many as take a moment if time is limited."""
        size = 1 if self.rowwise else count if self.deadline == math.inf else _AT_FIRST
        start = 0
        while start < count:
            began = clock.now()
            yield slice(start, min(start + size, count))
            start += size
            size *= 2 if not self.rowwise and clock.now() - began < _MOMENT else 1

    def is_feasible(self, decisions: Tensor | ArrayLike) -> Tensor:
        """Whether the problem could return each decision: `(B, m) -> (B,)`."""
        decisions = torch.as_tensor(decisions)
        faults = self.explain_faults(decisions)
        return torch.tensor([not fault for fault in faults], device=decisions.device)

    def explain_faults(self, decisions: Tensor) -> list[str]:
        """For each decision what keeps it out of Y, in words, or "": `(B, m) -> [str]`."""
        if decisions.ndim != 2 or decisions.shape[1] != self.num_columns:
            return [
                f"has shape {tuple(decisions.shape[1:])}, but a decision has shape "
                f"({self.num_columns},)"
            ] * len(decisions)
        host = decisions.detach().to("cpu", torch.float64).numpy()
        finite = np.isfinite(host).all(axis=1)
        faults = ["" if ok else "has entries that are not finite" for ok in finite]
        # Rows often share one alternative, and a check may cost a solve: look at each only once.
        rows_of: dict[bytes, list[int]] = {}
        keys = row_keys(host)
        for row in np.flatnonzero(finite).tolist():
            rows_of.setdefault(keys[row], []).append(row)
        first = [rows[0] for rows in rows_of.values()]
        known = self.faults(host[first]) if first else []
        for rows, fault in zip(rows_of.values(), known, strict=True):
            for row in rows:
                faults[row] = fault
        return faults

    def decisions(self, limit: int = 100_000) -> Tensor | None:
        """Every decision, `(D, m)` in float64; None if more than `limit` or not listable.

        Listed once: do not change the tensor in place.
        """
        if limit not in self._listed:
            listed = self.list_decisions(limit)
            self._listed[limit] = None if listed is None else torch.from_numpy(listed)
        return self._listed[limit]

    @cached_property
    def _listed(self) -> dict[int, Tensor | None]:
        return {}

    def runner_up(self, prices: Tensor, decisions: Tensor) -> Solved:
        """The best decision other than the given one: `(B, m), (B, m) -> Solved`.

        For problems that rank decisions. Binary ones that differ do so in some column, so each
        column in turn is forced to the other value by a price that outweighs all the rest: a
        batched solve of m rows for each row.
        """
        others, failures = torch.full_like(decisions, torch.nan), {}
        shortfall = torch.zeros(len(prices), dtype=torch.float64, device=prices.device)
        for row, (price, decision) in enumerate(zip(prices, decisions.round(), strict=True)):
            columns = self.distinguishing_columns(decision)
            forced = price.expand(len(columns), -1).clone()
            each = torch.arange(len(columns), device=price.device)
            flipped = self.sense.sign * (2 * decision[columns] - 1)
            total = price.abs().sum()
            forced[each, columns] += flipped * torch.where(total > 0, 2 * total, 1.0)
            solved = self.attempt(forced)
            found, value = solved.decisions, self.sense.sign * solved.decisions @ price
            value[(found[each, columns] == decision[columns]) | value.isnan()] = torch.inf
            if value.isinf().all():
                failures[row] = next(iter(solved.failures.values()), NO_OTHER)
            else:
                others[row] = found[value.argmin()]
                if solved.shortfall is not None:
                    shortfall[row] = value.min() - (value - solved.shortfall).min()
        return Solved(others, failures, shortfall if shortfall.any() else None)

    def has_equal(self, prices: Tensor, decisions: Tensor, tolerance: float) -> Tensor:
        """Whether another decision is as good as the best one: `(B, m), (B, m) -> (B,)`.

        As good is `<theta, y - y*> <= tolerance * sum_j |theta_j (y_j - y*_j)|`. One solve decides
        it, where decisions are ranked: y* is charged that fraction more of what it takes, the rest
        that much less. For columns of 0 and 1 another decision is then the best if, and only if, it
        was as good. Where they are not ranked, nothing is known: False.
        """
        if not self.ranks_decisions:
            return torch.zeros(len(prices), dtype=torch.bool, device=prices.device)
        sizes = prices.abs()
        # What costs nothing but for rounding makes no difference.
        least = ROUNDING * sizes.amax(1, keepdim=True)
        extra = torch.where(decisions > 0.5, tolerance * sizes + least, -tolerance * sizes)
        solved = self.attempt(prices + self.sense.sign * extra)
        difference = solved.decisions.to(decisions) - decisions
        terms = prices * difference
        level = self.sense.sign * terms.sum(1) <= tolerance * terms.abs().sum(1) + least[:, 0]
        level &= ~same_decision(solved.decisions.to(decisions), decisions)
        # Not known in time: then the solver may go either way.
        level[[row for row, why in solved.failures.items() if why == TIME_IS_UP]] = True
        return level

    def distinguishing_columns(self, decision: Tensor) -> Tensor:
        """Columns of which every other decision has one different: `(m,) -> (k,)`."""
        return torch.arange(self.num_columns, device=decision.device)
