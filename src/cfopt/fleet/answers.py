"""The answers of one part: rows that fail are explained alone, and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor

from cfopt.engine.latent import Codes
from cfopt.errors import CfoptError, in_words
from cfopt.fleet.work import Asked, OnProgress, Work
from cfopt.question import LocalOutlier, Question
from cfopt.result.explanation import Explanation
from cfopt.result.radii import Radii
from cfopt.result.status import Status
from cfopt.result.typical import Typical
from cfopt.search import Auto

#: What is said of a row on which processes end, whoever explains it.
LETHAL = "the process that explained this row ended without a word, each time"


def explain_part(
    work: Work,
    rows: range,
    lethal: Mapping[int, str] = MappingProxyType({}),
    on_batch: Callable[[int], None] | None = None,
    on_progress: OnProgress | None = None,
) -> Explanation:
    """The answers of a part, the same whatever was explained before.

    Arguments:
        work: the work whose rows they are.
        rows: the numbers of the rows.
        lethal: rows that are not to be touched, since they end the process, and what is said of
            them.
        on_batch: called with the number of rows of each batch that is done.
        on_progress: called with each report of the search.
    """
    found: list[Explanation] = []
    for part in _parts(work, rows, lethal, on_progress):
        found.append(part)
        if on_batch is not None:
            on_batch(len(part))
    return Explanation.concat(found)


def _parts(
    work: Work, rows: range, lethal: Mapping[int, str], on_progress: OnProgress | None
) -> Iterator[Explanation]:
    work.pipeline.problem.renew()
    try:
        work.load(rows)
    # Any: a value that cannot be read concerns its row alone, which is found below.
    except Exception:
        yield each_alone(work, rows, work.explain, lethal)[0]
        return
    for batch in work.batches(rows):
        if any(row in lethal for row in batch):
            yield each_alone(work, batch, work.explain, lethal)[0]
            continue
        try:
            yield work.explain(batch, on_progress)
        # Any: the user's models and solvers run here, and one row must not stop the others.
        except (Exception, SystemExit):
            yield each_alone(work, batch, work.explain)[0]


def each_alone(
    work: Work,
    rows: range,
    ask: Callable[[range], Explanation],
    lethal: Mapping[int, str] = MappingProxyType({}),
) -> tuple[Explanation, int]:
    """Rows of which some raise an error, each explained alone, and how many raised one.

    Arguments:
        work: the work whose rows they are.
        rows: the numbers of the rows.
        ask: explains, or tries, some rows.
        lethal: rows that are not to be touched, and what is said of them.
    """
    found, failed = [], 0
    for row in rows:
        if row in lethal:
            found.append(_failed(work, row, lethal[row]))
            failed += 1
            continue
        try:
            found.append(ask(range(row, row + 1)))
        # Any: the user's models and solvers run here, and one row must not stop the others.
        except (Exception, SystemExit) as error:
            known = isinstance(error, CfoptError)
            what = " ".join(str(error).split()) if known else in_words(error)
            found.append(_failed(work, row, what))
            failed += 1
    return Explanation.concat(found), failed


def _failed(work: Work, row: int, reason: str) -> Explanation:
    """A row that could not be explained, since something raised an error with this text."""
    try:
        asked = work.rows(range(row, row + 1))
    # Any: it cannot even be read.
    except Exception:
        contexts = replace(
            work.first.contexts, x=work.first.contexts.x * torch.nan, labels=(f"row {row}",)
        )
        asked = Asked(contexts, work.first.question)
    x, problem, question = asked.contexts.x, work.pipeline.problem, asked.question
    nothing, none = x.new_full((1,), torch.nan), torch.zeros(1, dtype=torch.long)
    decision = x.new_full((1, problem.num_columns), torch.nan)
    costs = x.new_full((1, problem.num_costs), torch.nan)
    latent = None
    if question.generative is not None:
        code = x.new_full((1, question.generative.latent_dim), torch.nan)
        latent = Codes(code, code, torch.full_like(x, torch.nan), decision, costs)
    # Of one row: also where a vector stands for all.
    given = question.criterion.row_values()
    fields = {name: values.to(x).reshape(1, -1) for name, values in given.items()}
    rated = latent is not None or isinstance(question.plausibility, LocalOutlier)
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
        wanted=fields.get("alternative", decision),
        decision=decision,
        costs_before=costs,
        costs=costs,
        status=(Status.REJECTED,),
        message=(f"the explanation failed: {reason}",),
        method=("",),
        clash=(None,),
        latent=latent,
        radii=Radii(nothing, ("",)),
        typical=Typical(nothing.double(), nothing.double()) if rated else None,
        remedy=(None,),
        **shared(work, asked.contexts.labels, fields),
    )
    if question.options > 1:
        failed = replace(failed, options=(replace(failed, remedy=()),))
    if question.prices is None:
        return failed
    criterion, proximity = failed.criterion, question.prices.proximity
    entries = question.prices.entries(problem)
    priced = Question(criterion, question.margin, proximity, None, Auto(), entries)
    return replace(failed, prices=replace(failed, x0=costs, x=costs, asked=priced, remedy=()))


def shared(work: Work, labels: Any, fields: dict[str, Tensor]) -> dict[str, Any]:
    """What explanations know besides the numbers of their rows.

    Arguments:
        work: the work whose rows they are.
        labels: the labels of the rows.
        fields: the criterion's fields that belong to rows, bound to these.
    """
    first, problem = work.first, work.pipeline.problem
    asked = first.question.criterion.asked_of(problem)
    criterion = replace(asked, **cast(dict[str, Any], fields))
    return {
        "asked": first.question.kept(criterion, first.question.features),
        "sense": problem.sense,
        "labels": labels,
        "problem": problem,
        "pipeline": work.pipeline,
        "columns": first.contexts.columns,
    }
