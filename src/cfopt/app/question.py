"""The criterion of a configuration, with the alternatives that it names."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfopt.app.config import CriterionSource
from cfopt.app.tables import read_numbers
from cfopt.errors import InputError
from cfopt.pipeline import Pipeline
from cfopt.pipeline.contexts import Contexts
from cfopt.problems import Problem
from cfopt.question import Criterion


def build_criterion(
    source: CriterionSource, pipeline: Pipeline, contexts: Contexts, rows: list[int]
) -> Criterion:
    """The criterion of the chosen rows, with its alternatives or its wish.

    Arguments:
        source: its name, and where its alternatives come from.
        pipeline: whose decisions may be alternatives.
        contexts: all those of the file.
        rows: the rows that are explained.
    """
    kind = source.target
    wish = source.wish()
    if wish is not None or not kind.contrasts:
        return kind.of(source.settings, wish).asked_of(pipeline.problem)
    return kind.of(source.settings, _alternatives(source, pipeline, contexts, rows))


def _alternatives(
    source: CriterionSource, pipeline: Pipeline, contexts: Contexts, rows: list[int]
) -> Tensor:
    """A decision for each of the chosen rows, `(R, m)`."""
    problem, total = pipeline.problem, len(contexts.x)
    if source.alternatives is not None:
        names, width = problem.decision_names, problem.num_columns
        alternatives = _of_rows(source.alternatives, names, width, total, rows)
    elif source.decision_of_row is not None:
        wanted = _wanted("decision_of_row", source.decision_of_row, contexts.x, rows)
        broken = contexts.not_finite()
        if all(row in broken for row in wanted):
            raise InputError(
                f"In row {wanted[0]}, whose decision is asked for, {broken[wanted[0]]}."
            )
        alternatives = _decided(problem, _costs(pipeline, contexts.x[wanted]))
    else:
        assert source.costs is not None
        names = problem.cost_names
        if source.optimum_of_row == "own":
            costs = _of_rows(source.costs, names, problem.num_costs, total, rows)
        else:
            costs = torch.as_tensor(read_numbers(source.costs, names), dtype=torch.float64)
            _check_width(source.costs, costs, problem.num_costs)
            costs = costs[_wanted("optimum_of_row", source.optimum_of_row, costs, rows)]
        alternatives = _decided(problem, costs)
    return alternatives.expand(len(rows), -1) if len(alternatives) == 1 else alternatives


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


def _of_rows(
    path: Path, names: tuple[str, ...] | None, width: int, total: int, rows: list[int]
) -> Tensor:
    """Lines of a file: one for all contexts, one for each of the file, or one for each chosen."""
    values = torch.as_tensor(read_numbers(path, names), dtype=torch.float64)
    if values.ndim == 1:
        values = values[None]
    _check_width(path, values, width)
    if len(values) == total:
        return values[rows]
    if len(values) not in (1, len(rows)):
        raise InputError(
            f"{path} needs one row for all contexts or one for each of the {total}; got "
            f"{len(values)}."
        )
    return values


def _check_width(path: Path, values: Tensor, width: int) -> None:
    if values.ndim != 2 or values.shape[1] != width:
        raise InputError(
            f"{path} needs {width} columns, as the problem has; got shape {tuple(values.shape)}."
        )


def _wanted(key: str, given: Any, among: Tensor, rows: list[int]) -> list[int]:
    """Row numbers: one for all contexts, or one for each that is explained."""
    wanted = given if isinstance(given, list) else [given]
    if not all(type(row) is int and 0 <= row < len(among) for row in wanted):
        raise InputError(f"{key} needs row numbers from 0 to {len(among) - 1}; got {given!r:.60}.")
    if len(wanted) not in (1, len(rows)):
        raise InputError(f"{key} needs one row number, or {len(rows)}; got {len(wanted)}.")
    return wanted
