"""explain(): check the input, search, verify every answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from cfopt.engine.encoding import check_latent, encode
from cfopt.engine.progress import Points, Progress
from cfopt.engine.recall import Recall
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.errors import CfoptError, InputError
from cfopt.exact.affine_task import AffineTask
from cfopt.generative.protocol import GenerativeModel
from cfopt.pipeline import Pipeline
from cfopt.pipeline.contexts import Contexts, check_predictor
from cfopt.pipeline.eval_mode import eval_mode
from cfopt.question import Criterion, Question
from cfopt.question.domain import Domain
from cfopt.question.features import Features
from cfopt.question.plausibility import Plausibility
from cfopt.question.proximity import L2, Latent, Proximity
from cfopt.question.quantifier import Quantifier
from cfopt.result.explanation import Explanation
from cfopt.result.outcomes import RowOutcomes
from cfopt.result.settle import settle, settle_at_start
from cfopt.search import (
    Auto,
    Enumeration,
    Fallback,
    LatentReference,
    Reference,
    Refined,
    Search,
    Sequential,
    Tangents,
    TreeCells,
)


def explain(
    x0: Any,
    pipeline: Pipeline,
    criterion: Criterion,
    *,
    generative: GenerativeModel | None = None,
    proximity: Proximity | None = None,
    plausibility: Plausibility | None = None,
    search: Search | None = None,
    features: Features | None = None,
    reference: Any = None,
    margin: float = 0.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Explanation:
    """Find, for each context, the nearest one in which the criterion holds, and verify it.

    Arguments:
        x0: contexts as a tensor, an array or a DataFrame: a batch, or a single one.
        pipeline: predictor and problem.
        criterion: `Relative`, `Absolute`, `Epsilon`, or another one.
        generative: a model of plausible contexts: anything with `encode`, `decode` and
            `latent_dim`. Its codes are searched, and the answer is what it decodes.
        proximity: what to keep small; by default the squared Euclidean distance, in units of the
            features' scales. `Latent(L2())` measures codes.
        plausibility: what codes should be like, `Sphere(beta)` or `LogLikelihood(beta)`; added to
            the proximity.
        search: how to search; by default `Auto()`: exact where possible, else the best effort.
        features: names and scales of the features, and what they may be.
        reference: known contexts, such as the training data, in any form that x0 can have. Where
            the search finds nothing, the nearest of them that is allowed and valid is the start.
        margin: by what fraction of its own value the alternative must win (for `Epsilon`: by what
            fraction of its value the factual decision must lose more); 0 admits ties.
        on_progress: called with each report of the search.

    Returns one row for each context. A row with bad input is rejected; the others go on.
    """
    features = Features() if features is None else features
    question = Question(
        criterion, margin, proximity, plausibility, search, features, generative, reference
    )
    return answer(x0, pipeline, question, on_progress)


def answer(
    x0: Any,
    pipeline: Pipeline,
    question: Question,
    on_progress: Callable[[Progress], None] | None = None,
) -> Explanation:
    """What `explain` does, for a question that is one object.

    Arguments:
        x0, pipeline, on_progress: as for `explain`.
        question: everything else.
    """
    proximity = L2() if question.proximity is None else question.proximity
    search = Auto() if question.search is None else question.search
    question = replace(question, proximity=proximity, search=search)
    _check(pipeline, question)
    question = replace(question, margin=float(question.margin))
    generative = question.generative
    # Gradients are needed even where the caller has switched them off.
    with torch.inference_mode(False), pipeline.eval_mode(), eval_mode(generative):
        shape = getattr(generative, "context_shape", None)
        contexts = Contexts.of(x0, pipeline, question.features, shape=shape)
        known = None
        if question.reference is not None:
            known = contexts.alike(question.reference, pipeline)
        outcomes = RowOutcomes(contexts, pipeline.problem)
        near = _scaled(proximity, contexts)
        task = _pose(outcomes, pipeline, question.criterion, near, question.margin)
        if generative is not None:
            task = encode(outcomes, task, generative, question.plausibility)
        settle_at_start(outcomes, task)
        open_rows = outcomes.open_rows()
        if len(open_rows):
            remaining = task[open_rows]
            search = _with_reference(search, known, remaining)
            points = _run(search, remaining, open_rows, on_progress)
            settle(outcomes, remaining, open_rows, points, _unproved(remaining))
    pipeline.problem.remember(outcomes.decisions.numpy())
    return outcomes.close(task, question)


def _check(pipeline: Pipeline, question: Question) -> None:
    """Raise InputError unless the question can be asked."""
    needs: list[tuple[object, type, str]] = [
        (pipeline, Pipeline, "a Pipeline(predictor, problem)"),
        (question.criterion, Criterion, "a criterion such as Absolute(y_alt) or Epsilon(eps)"),
        (question.proximity, Proximity, "a proximity such as L2() or L1()"),
        (question.search, Search, "a search such as Auto() or MDMM()"),
        (question.features, Features, "features as Features(names, scale, ...)"),
    ]
    for given, kind, need in needs:
        if not isinstance(given, kind):
            raise InputError(f"explain needs {need}, got {given!r:.80}.")
    margin = question.margin
    if not (isinstance(margin, Real) and math.isfinite(margin) and margin >= 0):
        raise InputError(f"margin needs to be a finite number >= 0, got {margin!r}.")
    question.criterion.check(pipeline.problem, margin)
    check_latent(question)


def _scaled(proximity: Proximity, contexts: Contexts) -> Proximity:
    """The proximity, with the features' scales where it has none of its own."""
    if isinstance(proximity, Latent):
        return proximity
    scale = contexts.features.scales
    if proximity.scale is None and scale is not None:
        shaped = torch.as_tensor(scale, dtype=torch.float64).reshape(contexts.x.shape[1:])
        proximity = replace(proximity, scale=shaped)
    return proximity.bind(contexts.x)


def _pose(
    outcomes: RowOutcomes,
    pipeline: Pipeline,
    criterion: Criterion,
    proximity: Proximity,
    margin: float,
) -> Task:
    """The task of all rows; those whose input cannot be used are rejected on the way."""
    x, problem = outcomes.contexts.x, pipeline.problem
    outcomes.reject(~outcomes.contexts.finite, "the context has values that are not finite")
    domain = Domain.of(outcomes.contexts.features, x)
    if domain is not None:
        outside = {row: fault for row, fault in enumerate(domain.faults(x)) if fault}
        outcomes.reject_each(outside, "the context itself is not allowed: ")
    usable = outcomes.open_rows()
    costs = torch.full((len(x), problem.num_costs), torch.nan, dtype=x.dtype, device=x.device)
    differentiable = True
    if len(usable):
        found, differentiable = check_predictor(x[usable], pipeline)
        costs = costs.to(found).index_copy(0, usable, found)
    outcomes.reject(
        ~costs.isfinite().all(1), "the predictor's costs for this context are not finite"
    )
    prices = problem.prices(costs).to("cpu", torch.float64)
    solved, recall = problem.attempt(prices), Recall()
    if problem.exact() is problem:
        recall.keep(prices, solved)
    failures = problem.audit(solved.decisions.numpy()) | solved.failures
    outcomes.reject_each(failures, "the factual decision is unknown: ")
    problem.remember(solved.decisions.numpy())
    factual = solved.decisions.to(costs)
    bound = criterion.bind(len(x), factual)
    faults = dict(enumerate(bound.faults(problem, factual, margin)))
    outcomes.reject_each({row: fault for row, fault in faults.items() if fault})
    outcomes.costs = costs
    size = problem.prices(costs).abs().amax(1)
    rules = Rules(problem, factual, bound, margin, size, solved.decisions, x.dtype)
    space = Space(x, proximity, domain)
    return Task(rules, space, pipeline.predictor, differentiable, recall)


def _with_reference(search: Search, known: Tensor | None, task: Task) -> Search:
    """The search, with reference contexts for the rows to which it finds no answer."""
    if known is None:
        return search
    if task.space.latent is not None:
        return Fallback((search, LatentReference(known)))
    if isinstance(search, Auto) and not search.trees.refusal(task):
        return replace(search, trees=replace(search.trees, contexts=known))
    if isinstance(search, TreeCells):
        return replace(search, contexts=known)
    polish: Search = Sequential(restarts=0)
    polish = Tangents() if polish.refusal(task) else polish
    return Fallback((search, Refined(Reference(known), polish)))


def _run(
    search: Search,
    task: Task,
    numbers: Tensor,
    on_progress: Callable[[Progress], None] | None,
) -> Points:
    """What a search finds; its reports are passed on with the numbers that rows have outside."""
    parts = []
    for progress in search.steps(task):
        if progress.finished is not None:
            parts.append(progress.finished)
        if on_progress is not None:
            done, moving = progress.finished, progress.moving
            finished = None if done is None else replace(done, rows=numbers[done.rows])
            moved = None if moving is None else moving.of(numbers)
            on_progress(replace(progress, finished=finished, moving=moved))
    rows = [row for part in parts for row in part.rows.tolist()]
    if sorted(rows) != list(range(len(task))):
        raise CfoptError(
            f"{type(search).__name__} must return each of the {len(task)} rows once; it handed "
            f"over {len(rows)}."
        )
    return Points.gather(parts)


def _unproved(task: Task) -> str:
    """Why nothing is proved about nearer contexts although the predictor is affine; else "".

    To follow an answer.
    """
    if Quantifier.SOME not in task.rules.criterion.multiples or AffineTask.refusal(task):
        return ""
    reason, *_ = Enumeration().refusal(task).split("; use")
    return f"; nothing is proved about nearer ones, since {reason}" if reason else ""
