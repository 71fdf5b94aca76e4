"""Finished rows on disk, exact to the last digit, and how they are joined again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from cfopt._batch import Batch
from cfopt.app.job import Job
from cfopt.engine.latent import Codes
from cfopt.errors import CfoptError, InputError
from cfopt.result.explanation import Explanation
from cfopt.result.json import clash_from_dict, clash_to_dict, from_dict, to_dict
from cfopt.result.radii import Radii
from cfopt.result.status import Status
from cfopt.storage import weights


def write_part(path: Path, part: Explanation, seconds: float) -> None:
    """Write some rows, whole or not at all.

    Arguments:
        path: the file to write.
        part: the rows.
        seconds: the time that they took.
    """
    tensors, about = _split(replace(part, prices=None))
    about |= {"clash": [clash_to_dict(clash) for clash in part.clash], "seconds": seconds}
    if part.options is not None:
        about["options"] = [to_dict(options) for options in part.options]
    if part.prices is not None:
        about["prices"] = to_dict(part.prices)
    weights.write(path, tensors, about)


def _split(part: Batch, prefix: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The rows of a batch, and of those within it, as tensors and as lists of texts."""
    tensors: dict[str, Tensor] = {}
    about: dict[str, Any] = {}
    for name in part.row_fields():
        value = getattr(part, name)
        if isinstance(value, Tensor):
            tensors[prefix + name] = value
        elif isinstance(value, Batch):
            inner, said = _split(value, f"{prefix}{name}.")
            tensors, about = tensors | inner, about | said
        elif name in ("status", "message", "method", "kind"):
            about[prefix + name] = [str(entry) for entry in value]
    return tensors, about


def _own(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors of a batch within another."""
    inner = {name: value for name, value in tensors.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): value for name, value in inner.items()}


def read_part(path: Path, work: Job, rows: range) -> tuple[Explanation, float]:
    """The rows that `write_part` wrote, and the seconds that they took.

    Arguments:
        path: the file to read.
        work: the work whose rows they are.
        rows: the numbers of the rows.
    """
    try:
        tensors, about = weights.read(path)
        if len(tensors["x"]) != len(rows):
            raise ValueError(f"it has {len(tensors['x'])} rows, not {len(rows)}")
        own: dict[str, Any] = {name: value for name, value in tensors.items() if "." not in name}
        codes, radii = _own(tensors, "latent."), _own(tensors, "radii.")
        part = Explanation(
            **own,
            status=tuple(Status(status) for status in about["status"]),
            message=tuple(about["message"]),
            method=tuple(about["method"]),
            clash=tuple(clash_from_dict(clash) for clash in about["clash"]),
            latent=Codes(**codes) if codes else None,
            radii=Radii(**radii, kind=tuple(about["radii.kind"])) if radii else None,
            options=_options(about.get("options"), work),
            prices=from_dict(about["prices"], work.pipeline.problem) if "prices" in about else None,
            **_shared(work, rows, _own(tensors, "asked.criterion.")),
        )
        return part, float(about["seconds"])
    except (InputError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"The rows in {path} cannot be read: {error}. Delete it to compute them again."
        ) from error


def _options(content: list[Any] | None, work: Job) -> tuple[Explanation, ...] | None:
    if content is None:
        return None
    return tuple(from_dict(options, work.pipeline.problem) for options in content)


def each_alone(
    work: Job, rows: range, ask: Callable[[range], Explanation]
) -> tuple[Explanation, int]:
    """Rows of which some raise an error, each explained alone, and how many raised one.

    Arguments:
        work: the work whose rows they are.
        rows: the numbers of the rows.
        ask: explains, or tries, some rows.
    """
    found, failed = [], 0
    for row in rows:
        try:
            found.append(ask(range(row, row + 1)))
        # Any: the user's models and solvers run here, and one row must not stop the others.
        except (Exception, SystemExit) as error:
            known = isinstance(error, CfoptError)
            what = str(error) if known else f"{type(error).__name__}: {error}"
            found.append(_failed_row(work, row, " ".join(what.split())))
            failed += 1
    return Explanation.concat(found), failed


def _failed_row(work: Job, row: int, reason: str) -> Explanation:
    """A row that could not be explained, since something raised an error with this text."""
    x, problem = work.contexts.x[row : row + 1], work.pipeline.problem
    nothing, none = x.new_full((1,), torch.nan), torch.zeros(1, dtype=torch.long)
    decision = x.new_full((1, problem.num_columns), torch.nan)
    costs = x.new_full((1, problem.num_costs), torch.nan)
    latent = None
    if work.question.generative is not None:
        code = x.new_full((1, work.question.generative.latent_dim), torch.nan)
        latent = Codes(code, code, torch.full_like(x, torch.nan), decision, costs)
    rows = range(row, row + 1)
    criterion = work.question.criterion[torch.tensor([row])]
    asked = {name: values.to(x) for name, values in criterion.row_values().items()}
    failed = Explanation(
        x0=x,
        x=x,
        loss=nothing,
        bound=nothing,
        violation=nothing,
        tie=none.bool(),
        steps=none,
        solves=none,
        passes=none,
        factual=decision,
        wanted=asked.get("alternative", decision),
        decision=decision,
        costs_before=costs,
        radii=Radii(nothing, ("",)),
        costs=costs,
        status=(Status.REJECTED,),
        message=(f"the explanation failed: {reason}",),
        method=("",),
        clash=(None,),
        latent=latent,
        **_shared(work, rows, asked),
    )
    return failed if work.question.options == 1 else replace(failed, options=(failed,))


def _shared(work: Job, rows: range, asked: dict[str, Tensor]) -> dict[str, Any]:
    """What explanations know besides their rows.

    Arguments:
        work: the work whose rows they are.
        rows: the numbers of the rows.
        asked: the criterion's fields that belong to rows, bound to these.
    """
    labels, fields_of_rows = work.contexts.labels, cast(dict[str, Any], asked)
    criterion = replace(work.question.criterion, **fields_of_rows)
    return {
        "asked": replace(work.question, criterion=criterion, generative=None, reference=None),
        "sense": work.pipeline.problem.sense,
        "labels": None if labels is None else labels[rows.start : rows.stop],
        "problem": work.pipeline.problem,
        "pipeline": work.pipeline,
        "columns": work.contexts.columns,
    }
