"""The criterion of a configuration, with the alternatives that it names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfopt.app.criterion_source import CriterionSource
from cfopt.errors import InputError
from cfopt.fleet.source import ContextSource
from cfopt.pipeline import Pipeline
from cfopt.problems import Problem
from cfopt.question import Criterion
from cfopt.storage.rows import RowsInMemory, open_rows
from cfopt.storage.tables import numbers_of


class Asked:
    """The criterion of a configuration, bound to any of the rows that are explained.

    Arguments:
        source: its name, and where its alternatives come from.
        pipeline: the pipeline whose decisions may be alternatives.
        contexts: all those of the file.
        rows: the numbers there of the rows that are explained.
    """

    def __init__(
        self,
        source: CriterionSource,
        pipeline: Pipeline,
        contexts: ContextSource,
        rows: Sequence[int],
    ) -> None:
        self._source, self._pipeline = source, pipeline
        self._contexts, self._rows = contexts, rows
        problem = pipeline.problem
        self._plans = self._true_costs = None
        if source.alternatives is not None:
            names, width = problem.decision_names, problem.num_columns
            self._plans = _Lines(source.alternatives, names, width)
        if source.costs is not None:
            self._true_costs = _Lines(source.costs, problem.cost_names, problem.num_costs)
        for key in ("decision_of_row", "optimum_of_row"):
            self._check(key, getattr(source, key))

    def criterion(self, part: range) -> Criterion:
        """The criterion of some of the rows, with its alternatives or its wish."""
        kind, source = self._source.target, self._source
        wish = source.wish()
        if wish is not None or not kind.contrasts:
            return kind.of(source.settings, wish).asked_of(self._pipeline.problem)
        alternatives = self._alternatives(part)
        if len(alternatives) == 1:
            alternatives = alternatives.expand(len(part), -1)
        return kind.of(source.settings, alternatives)

    def _alternatives(self, part: range) -> Tensor:
        """A decision for each row of a part, `(R, m)`, or one for all."""
        source, problem = self._source, self._pipeline.problem
        total = len(self._contexts)
        if self._plans is not None:
            return self._plans.of_rows(part, self._rows, total)
        if source.decision_of_row is not None:
            wanted = _picked(source.decision_of_row, part)
            contexts = self._contexts.read(wanted)
            broken = contexts.not_finite()
            if len(broken) == len(wanted):
                raise InputError(f"In row {wanted[0]}, whose decision is asked for, {broken[0]}.")
            return _decided(problem, _costs(self._pipeline, contexts.x))
        assert self._true_costs is not None
        if source.optimum_of_row == "own":
            return _decided(problem, self._true_costs.of_rows(part, self._rows, total))
        return _decided(problem, self._true_costs.read(_picked(source.optimum_of_row, part)))

    def _check(self, key: str, given: Any) -> None:
        """Raise InputError unless it is one row number for all, or one for each row explained."""
        if given is None or (key == "optimum_of_row" and given == "own"):
            return
        lines = self._true_costs if key == "optimum_of_row" else None
        among = len(self._contexts) if lines is None else len(lines)
        wanted = given if isinstance(given, list) else [given]
        if not all(type(row) is int and 0 <= row < among for row in wanted):
            raise InputError(f"{key} needs row numbers from 0 to {among - 1}; got {given!r:.60}.")
        if len(wanted) not in (1, len(self._rows)):
            raise InputError(
                f"{key} needs one row number, or {len(self._rows)}; got {len(wanted)}."
            )


def _picked(given: Any, part: range) -> list[int]:
    """The row numbers that are meant for a part: one for all, or one for each."""
    wanted = given if isinstance(given, list) else [given]
    return wanted if len(wanted) == 1 else [wanted[row] for row in part]


class _Lines:
    """Numbers in a file, read when they are needed.

    Arguments:
        path: the file.
        names: the names of its columns, if they have any.
        width: how many columns there must be.
    """

    def __init__(self, path: Path, names: tuple[str, ...] | None, width: int) -> None:
        self._path, self._names, self._width = path, names, width
        rows = open_rows(path)
        if isinstance(rows, RowsInMemory):
            values = numbers_of(rows.table, path, names)
            rows = RowsInMemory(str(path), values[None] if values.ndim == 1 else values)
        self._rows = rows
        self.read([0])

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, rows: Sequence[int]) -> Tensor:
        """Some lines, `(R, width)`."""
        values = numbers_of(self._rows.read(rows), self._path, self._names)
        found = torch.tensor(values, dtype=torch.float64)  # of its own, as files are read-only
        if found.ndim != 2 or found.shape[1] != self._width:
            raise InputError(
                f"{self._path} needs {self._width} columns, as the problem has; got shape "
                f"{(len(self), *found.shape[1:])}."
            )
        return found

    def of_rows(self, part: range, rows: Sequence[int], total: int) -> Tensor:
        """One line for all, or those of a part: of each context of the file, or of each chosen."""
        if len(self) == total:
            return self.read([rows[row] for row in part])
        if len(self) not in (1, len(rows)):
            raise InputError(
                f"{self._path} needs one row for all contexts or one for each of the {total}; got "
                f"{len(self)}."
            )
        return self.read([0] if len(self) == 1 else part)


def _costs(pipeline: Pipeline, x: Tensor) -> Tensor:
    """Predicted costs; NaN in rows for which the predictor raises an error, unless all do."""
    try:
        with torch.no_grad():
            return pipeline.costs(x)
    # Any: it is the user's model. Alone, a row that it cannot read does not stop the others.
    except (Exception, SystemExit):
        if len(x) == 1:
            raise
    costs = torch.full((len(x), pipeline.problem.num_costs), torch.nan, dtype=torch.float64)
    for row in range(len(x)):
        with suppress(Exception, SystemExit), torch.no_grad():
            costs[row] = pipeline.costs(x[row : row + 1])[0].to(costs)
    return costs


def _decided(problem: Problem, costs: Tensor) -> Tensor:
    """The best decisions; NaN in rows that have none, which will be rejected, unless all do."""
    solved = problem.attempt(problem.prices(costs.to("cpu", torch.float64)))
    if len(solved.failures) == len(costs):
        raise InputError(f"The alternative is unknown: {solved.failures[0]}.")
    decisions = solved.decisions.clone()
    decisions[list(solved.failures)] = torch.nan
    return decisions
