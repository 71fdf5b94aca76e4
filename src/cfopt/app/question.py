"""The objects of a question: features, criterion, proximity, plausibility and search."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from cfopt import search as searches
from cfopt.app.config import Question
from cfopt.app.section import Section
from cfopt.app.tables import read_numbers
from cfopt.criteria import Absolute, Criterion, Epsilon, Relative
from cfopt.errors import InputError
from cfopt.features import Features, LinearLimit
from cfopt.pipeline import Pipeline
from cfopt.plausibility import LogLikelihood, Plausibility, Sphere
from cfopt.problems import MILP, Problem
from cfopt.proximity import L1, L2, Latent, Proximity
from cfopt.search import Search

_SEARCHES = (
    "Auto",
    "MDMM",
    "Sequential",
    "LatentSequential",
    "CuttingPlane",
    "Enumeration",
    "ClosedForm",
)
_CONTRASTIVE: dict[str, type[Relative] | type[Absolute]] = {
    "Relative": Relative,
    "Absolute": Absolute,
}


def build_features(section: Section) -> Features:
    """Names, scales and limits, as the arguments of `Features`.

    In `lower`, `upper` and coefficients, features without a name go by their number: "0", "1".
    """
    names = [field.name for field in fields(Features)]
    given = dict(section.only(*names).content)
    for key in ("lower", "upper"):
        value = given.get(key)
        if isinstance(value, dict):
            value = given[key] = _by_feature(value)
        every = value.values() if isinstance(value, dict) else value
        if any(isinstance(one, bool) for one in (every if np.iterable(every) else [every])):
            raise section.error(f"{key} needs numbers, got true or false.")
    try:
        given["linear"] = [_limit(section, one) for one in given.get("linear", [])]
        return Features(**given)
    except InputError as error:
        raise section.error(str(error)) from error
    except TypeError as error:
        raise section.error(f"features cannot be read: {error}") from error


def _limit(section: Section, content: Any) -> LinearLimit:
    if not isinstance(content, dict):
        raise section.error(f"linear needs tables with coefficients, got {content!r:.60}.")
    inner = Section(content, section.file, "features.linear")
    inner.only("coefficients", "lower", "upper")
    coefficients = inner.any("coefficients")
    if isinstance(coefficients, dict):
        coefficients = _by_feature(coefficients)
    lower, upper = inner.take("lower", float, -np.inf), inner.take("upper", float, np.inf)
    return LinearLimit(coefficients, lower, upper)


def _by_feature(values: dict[str, Any]) -> dict[Any, Any]:
    """TOML has only text for keys: digits are the number of a feature."""
    return {int(key) if key.isdigit() else key: value for key, value in values.items()}


def build_search(section: Section) -> Search:
    """A search by its name, with its knobs."""
    name = section.pick("search", section.take("kind", str, "Auto"), _SEARCHES)
    knobs = {key: value for key, value in section.content.items() if key != "kind"}
    default = getattr(searches, name)()
    return cast(Search, _with_knobs(default, Section(knobs, section.file, section.name)))


def _with_knobs(default: Any, section: Section) -> Any:
    """An object like a default one, with some knobs set; knobs may have knobs of their own."""
    known = [field.name for field in fields(default)]
    given: dict[str, Any] = dict(section.only(*known).content)
    for key, value in given.items():
        current = getattr(default, key)
        if isinstance(value, bool) and not isinstance(current, bool):
            raise section.error(f"{key} cannot be true or false.")
        if is_dataclass(current):
            given[key] = _with_knobs(current, section.section(key))
        elif isinstance(current, Enum):
            choices = [str(one) for one in type(current)]
            given[key] = type(current)(section.pick(key, str(value), choices))
    try:
        return type(default)(**given)
    except (InputError, TypeError, ValueError) as error:
        raise section.error(str(error)) from error


def build_proximity(section: Section) -> Proximity:
    """`L2`, `L1` or `Latent`, with scales for the first two."""
    section.only("kind", "scale", "of")
    kind = section.pick("proximity", section.take("kind", str, "L2"), ("L2", "L1", "Latent"))
    scale = section.take("scale", list, None)
    if kind == "Latent":
        if scale is not None:
            raise section.error("scale is for L2 and L1; codes have none.")
        of = section.pick("proximity", section.take("of", str, "L2"), ("L2", "L1"))
        return Latent(of=L2() if of == "L2" else L1())
    section.only("kind", "scale")
    try:
        return L2(scale) if kind == "L2" else L1(scale)
    except (TypeError, ValueError) as error:  # InputError among them
        raise section.error(f"scale: {error}") from error


def build_plausibility(section: Section) -> Plausibility | None:
    """`Sphere` or `LogLikelihood` with its beta; None where the table is missing."""
    if not section.content:
        return None
    section.only("kind", "beta")
    kind = section.pick("plausibility", section.take("kind", str), ("Sphere", "LogLikelihood"))
    beta = section.take("beta", float)
    try:
        return Sphere(beta) if kind == "Sphere" else LogLikelihood(beta)
    except InputError as error:
        raise section.error(str(error)) from error


def build_criterion(
    question: Question, pipeline: Pipeline, contexts: Tensor, rows: list[int]
) -> Criterion:
    """The criterion of the chosen rows, with its alternatives.

    Arguments:
        question: which, and where its alternatives come from.
        pipeline: whose decisions may be alternatives.
        contexts: all those of the file, `(N, ...)`.
        rows: which of them are explained.
    """
    section = question.section
    try:
        if question.kind == "Epsilon":
            return Epsilon(cast(float, question.epsilon))
        return _CONTRASTIVE[question.kind](_alternatives(question, pipeline, contexts, rows))
    except InputError as error:
        said = str(error)
        raise error if said.startswith(section.place) else section.error(said) from error


def _alternatives(
    question: Question, pipeline: Pipeline, contexts: Tensor, rows: list[int]
) -> Tensor:
    """A decision for each of the chosen rows, `(R, m)`."""
    section, problem = question.section, pipeline.problem
    if question.file is not None:
        names, width = problem.decision_names, problem.num_columns
        alternatives = _of_rows(question.file, names, width, len(contexts), rows)
    elif question.decision_of_row is not None:
        wanted = _wanted(section, "decision_of_row", question.decision_of_row, contexts, rows)
        alternatives = _decided(problem, _costs(pipeline, contexts[wanted]))
    else:
        assert question.costs is not None
        names = cost_names(problem)
        if question.optimum_of_row == "own":
            costs = _of_rows(question.costs, names, problem.num_costs, len(contexts), rows)
        else:
            costs = torch.as_tensor(read_numbers(question.costs, names), dtype=torch.float64)
            _check_width(question.costs, costs, problem.num_costs)
            wanted = _wanted(section, "optimum_of_row", question.optimum_of_row, costs, rows)
            costs = costs[wanted]
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


def cost_names(problem: Problem) -> tuple[str, ...] | None:
    """What predicted costs are called, where each belongs to one entry of a decision."""
    names = problem.decision_names
    # Of a MILP, the predicted columns come first.
    known = isinstance(problem, MILP) or problem.num_costs == problem.num_columns
    return names[: problem.num_costs] if names is not None and known else None


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


def _wanted(section: Section, key: str, given: Any, among: Tensor, rows: list[int]) -> list[int]:
    """Row numbers: one for all contexts, or one for each that is explained."""
    wanted = given if isinstance(given, list) else [given]
    if not all(type(row) is int and 0 <= row < len(among) for row in wanted):
        raise section.error(
            f"{key} needs row numbers from 0 to {len(among) - 1}; got {given!r:.60}."
        )
    if len(wanted) not in (1, len(rows)):
        raise section.error(f"{key} needs one row number, or {len(rows)}; got {len(wanted)}.")
    return wanted
