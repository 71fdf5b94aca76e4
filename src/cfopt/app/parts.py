"""Finished rows on disk, exact to the last digit, and how they are put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfopt import weights
from cfopt.app.work import Work
from cfopt.errors import CfoptError, InputError
from cfopt.explanation import Explanation
from cfopt.latent import Codes
from cfopt.question import Criterion
from cfopt.serial import clash_from_dict, clash_to_dict
from cfopt.types import Status

_TENSORS = (
    *("x", "loss", "bound", "violation", "tie", "steps", "solves", "passes"),
    *("factual", "decision", "costs_before", "costs"),
)
_CODES = tuple(field.name for field in fields(Codes))


def write_part(path: Path, part: Explanation, seconds: float) -> None:
    """Write some rows, whole or not at all.

    Arguments:
        path: of the file.
        part: the rows.
        seconds: that they took.
    """
    tensors = {name: getattr(part, name) for name in _TENSORS}
    if part.criterion.contrasts:
        tensors["alternative"] = part.alternative
    if part.latent is not None:
        tensors |= {f"codes.{name}": getattr(part.latent, name) for name in _CODES}
    about = {
        "seconds": seconds,
        "status": [str(status) for status in part.status],
        "message": list(part.message),
        "method": list(part.method),
        "clash": [clash_to_dict(clash) for clash in part.clash],
    }
    weights.write(path, tensors, about)


def read_part(path: Path, work: Work, rows: range) -> tuple[Explanation, float]:
    """The rows that `write_part` wrote, and the seconds that they took.

    Arguments:
        path: of the file.
        work: that they are rows of.
        rows: which ones.
    """
    try:
        tensors, about = weights.read(path)
        if len(tensors["x"]) != len(rows):
            raise ValueError(f"it has {len(tensors['x'])} rows, not {len(rows)}")
        columns: dict[str, Any] = {name: tensors[name] for name in _TENSORS}
        part = Explanation(
            x0=work.contexts.x[rows.start : rows.stop],
            **columns,
            status=tuple(Status(status) for status in about["status"]),
            message=tuple(about["message"]),
            method=tuple(about["method"]),
            clash=tuple(clash_from_dict(clash) for clash in about["clash"]),
            latent=_codes(tensors),
            **_shared(work, rows, tensors.get("alternative")),
        )
        return part, float(about["seconds"])
    except (InputError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"The rows in {path} cannot be read: {error}. Delete it to have them made again."
        ) from error


def each_alone(
    work: Work, rows: range, ask: Callable[[range], Explanation]
) -> tuple[Explanation, int]:
    """Rows of which some raise an error, each on its own, and how many of them raised one.

    Arguments:
        work: that they are rows of.
        rows: which ones.
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
    return join(found), failed


def _failed_row(work: Work, row: int, reason: str) -> Explanation:
    """A row that could not be explained, since something raised an error with this text."""
    x, problem = work.contexts.x[row : row + 1], work.pipeline.problem
    nothing, none = x.new_full((1,), torch.nan), torch.zeros(1, dtype=torch.long)
    decision = x.new_full((1, problem.num_columns), torch.nan)
    costs = x.new_full((1, problem.num_costs), torch.nan)
    latent = None
    if work.generative is not None:
        code = x.new_full((1, work.generative.latent_dim), torch.nan)
        latent = Codes(code, code, torch.full_like(x, torch.nan), decision)
    rows = range(row, row + 1)
    criterion = work.criterion[torch.tensor([row])]
    alternative = criterion.pivot(decision).to(x) if criterion.contrasts else None
    return Explanation(
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
        decision=decision,
        costs_before=costs,
        costs=costs,
        status=(Status.REJECTED,),
        message=(f"the explanation failed: {reason}",),
        method=("",),
        clash=(None,),
        latent=latent,
        **_shared(work, rows, alternative),
    )


def join(parts: Sequence[Explanation]) -> Explanation:
    """All rows of some explanations of one question, in their order."""
    first = parts[0]
    if len(parts) == 1:
        return first
    tensors: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts]) for name in ("x0", *_TENSORS)
    }
    latent = None
    if first.latent is not None:
        codes = [part.latent for part in parts if part.latent is not None]
        latent = Codes(*(torch.cat([getattr(one, name) for one in codes]) for name in _CODES))
    alternative = None
    if first.criterion.contrasts:
        alternative = torch.cat([part.alternative for part in parts])
    labels = [label for part in parts for label in part.labels or ()]
    return replace(
        first,
        **tensors,
        status=tuple(status for part in parts for status in part.status),
        message=tuple(message for part in parts for message in part.message),
        method=tuple(method for part in parts for method in part.method),
        clash=tuple(clash for part in parts for clash in part.clash),
        criterion=_asking(first.criterion, alternative),
        labels=tuple(labels) or None,
        traces=(),
        latent=latent,
    )


def _shared(work: Work, rows: range, alternative: Tensor | None) -> dict[str, Any]:
    """What explanations know beside their rows."""
    labels = work.contexts.labels
    return {
        "criterion": _asking(work.criterion, alternative),
        "margin": float(work.config.question.margin),
        "sense": work.pipeline.problem.sense,
        "features": work.contexts.features,
        "labels": None if labels is None else labels[rows.start : rows.stop],
        "problem": work.pipeline.problem,
    }


def _asking(criterion: Criterion, alternative: Tensor | None) -> Criterion:
    rows: dict[str, Any] = {} if alternative is None else {"alternative": alternative}
    return replace(criterion, **rows) if rows else criterion


def _codes(tensors: dict[str, Tensor]) -> Codes | None:
    if "codes.z" not in tensors:
        return None
    return Codes(*(tensors[f"codes.{name}"] for name in _CODES))
