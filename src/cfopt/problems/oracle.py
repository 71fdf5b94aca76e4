"""A user's own solver as a problem."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cfopt._typing import Array
from cfopt.errors import InputError, SolverError
from cfopt.problems.base import Problem
from cfopt.problems.sense import Sense
from cfopt.problems.solved import FEASIBILITY_TOLERANCE

Solver = Callable[[Any], Any]


class Oracle(Problem):
    """Any function that returns a best decision for given costs.

    The function takes one row `(n,)` or a batch `(B, n)`, in NumPy or torch, and answers in the
    same shape. An error or an answer of the wrong kind fails the row, not the batch; so does, when
    a result is verified, an answer that is worse than a decision known to be feasible.

    Arguments:
        function: the solver.
        num_costs: n.
        sense: "min" or "max".
        is_feasible: says of one decision, an array `(n,)`, whether the solver could return it.
            Without it, decisions that `solve` or `decide` returned are recognised (the latest
            ones, up to a million numbers), and a binary decision is tried: costs `1 - 2 y` make it
            the only optimum.
        batched: whether the function takes a batch; else it is called row by row.
        tensors: whether the function takes torch tensors (float64, on the CPU); else NumPy arrays.
        time_limit: seconds for one call. A call that takes longer is abandoned, not stopped:
            Python cannot end it, so the function must allow another call in the meantime.
        binary: whether every decision is 0 or 1 in every column; margins depend on it.
        tolerance: the fraction of its value by which an answer may fall short of the best, such as
            the gap at which the solver stops.
    """

    def __init__(
        self,
        function: Solver,
        num_costs: int,
        sense: Sense | str = Sense.MIN,
        is_feasible: Callable[[Array], bool] | None = None,
        *,
        batched: bool = False,
        tensors: bool = False,
        time_limit: float | None = None,
        binary: bool = False,
        tolerance: float = 0.0,
    ) -> None:
        if num_costs < 1:
            raise InputError(f"Oracle needs at least one cost, got num_costs={num_costs}.")
        if not 0 <= tolerance < 1:
            raise InputError(f"Oracle needs 0 <= tolerance < 1, got {tolerance!r}.")
        self.num_costs = num_costs
        self.sense = Sense(sense)
        self.time_limit = time_limit
        self.tolerance = float(tolerance)
        self.binary = binary
        self._function = function
        self._is_feasible = is_feasible
        self._batched = batched
        self.rowwise = not batched
        self._tensors = tensors
        self._returned = Returned()

    def optimise(self, prices: Array) -> Array:
        """The function's answers, checked for shape and finiteness."""
        if self._batched:
            return self._ask(prices)
        return np.stack([self._ask(row) for row in prices])

    def faults(self, decisions: Array) -> list[str]:
        """By the user's test; without one it must have been returned, or be binary to be tried."""
        if self._is_feasible is not None:
            return [self._test(row) for row in decisions]
        known = self._returned.knows(decisions)
        return [
            "" if returned else try_binary(self, decision)
            for decision, returned in zip(decisions, known, strict=True)
        ]

    def remember(self, decisions: Array) -> None:
        self._returned.add(decisions)

    def renew(self) -> None:
        self._returned = Returned()

    def audit(self, decisions: Array) -> dict[int, str]:
        if self._is_feasible is None:
            return {}
        tests = {row: self._test(decision) for row, decision in enumerate(decisions)}
        return {row: f"the solver's answer {fault}" for row, fault in tests.items() if fault}

    def _test(self, decision: Array) -> str:
        assert self._is_feasible is not None
        try:
            return "" if self._is_feasible(decision.copy()) else "is refused by is_feasible"
        except Exception as error:
            return f"cannot be tested: is_feasible raised {type(error).__name__}: {error}"

    def _ask(self, prices: Array) -> Array:
        given: Any = torch.from_numpy(prices.copy()) if self._tensors else prices.copy()
        answer = _within(self.time_limit, self._function, given)
        try:
            if isinstance(answer, Tensor):
                answer = answer.detach().cpu().numpy()
            decision = np.array(answer, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SolverError(f"the solver returned no array of numbers ({error})") from error
        if decision.shape != prices.shape:
            raise SolverError(
                f"the solver returned shape {decision.shape} for costs of shape {prices.shape}"
            )
        if not np.isfinite(decision).all():
            raise SolverError("the solver returned values that are not finite")
        return decision


class Returned:
    """A bounded memory of decisions: a solver's own answers are feasible by definition.

    Arguments:
        most: how many numbers are kept in all; the oldest decisions go first.
    """

    def __init__(self, most: int = 2**20) -> None:
        self._most = most
        self._known: dict[bytes, Array] = {}

    def add(self, decisions: Array) -> None:
        """Keep the finite ones of some decisions, `(B, m)`."""
        for one in decisions[np.isfinite(decisions).all(axis=1)] + 0.0:
            key = one.tobytes()
            self._known.pop(key, None)  # so that it becomes the newest
            self._known[key] = one
        kept = max(1, self._most // max(1, decisions.shape[1]))
        for key in list(self._known)[: max(0, len(self._known) - kept)]:
            del self._known[key]

    def knows(self, decisions: Array) -> NDArray[np.bool_]:
        """Which decisions agree with a known one up to the tolerance: `(B, m) -> (B,)`."""
        same = np.array([one.tobytes() in self._known for one in decisions + 0.0], dtype=np.bool_)
        if self._known and not same.all():
            known = np.stack(list(self._known.values()))
            slack = FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(known))
            for row in np.flatnonzero(~same):
                same[row] = (np.abs(known - decisions[row]) <= slack).all(axis=1).any()
        return same


def try_binary(problem: Problem, decision: Array) -> str:
    """Why a decision `(m,)` is not in Y, or "", by making it the only optimum: prices `1 - 2 y`.

    For binary y and y' between 0 and 1, `<1 - 2 y, y'>` is the distance of y' from y less the sum
    of y: smallest at y' = y, and nowhere else.
    """
    tolerance = FEASIBILITY_TOLERANCE
    unknown = (
        "and whether it is feasible is not known: it would have to be one that this problem has "
        "returned (by solve, or a pipeline's decide), or to be tested by is_feasible of an Oracle"
    )
    if (np.abs(decision * (1 - decision)) > tolerance).any():
        return f"is not binary, {unknown}"
    try:
        best = problem.optimise(problem.sense.sign * (1 - 2 * decision.round())[None])[0]
    except SolverError as error:
        return f"cannot be tried: {error}"
    if np.abs(best - decision).max() <= tolerance:
        return ""
    if (best < -tolerance).any() or (best > 1 + tolerance).any():
        return f"is one of others that are not binary, {unknown}"
    return "is never returned by the solver, whatever the costs"


def _within(seconds: float | None, function: Solver, argument: Any) -> Any:
    """Call a user's function; whatever it raises, or its silence, becomes a SolverError."""
    answer: list[Any] = []
    errors: list[Exception] = []

    def call() -> None:
        try:
            answer.append(function(argument))
        except Exception as error:
            errors.append(error)

    if seconds is None:
        call()
    else:
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(seconds)
    if errors:
        error = errors[0]
        raise SolverError(f"the solver raised {type(error).__name__}: {error}") from error
    if not answer:
        raise SolverError(f"the solver gave no answer within {seconds:g} seconds")
    return answer[0]
