"""What is asked, checked and posed: from a question and contexts to a task of all rows."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real

import torch
from torch import Tensor

from cfopt.engine.encoding import check_latent
from cfopt.engine.recall import Recall
from cfopt.engine.rules import Rules
from cfopt.engine.space import Space
from cfopt.engine.task import Task
from cfopt.engine.variation import OffBy, Variation
from cfopt.errors import InputError, PredictorError
from cfopt.pipeline import Pipeline
from cfopt.pipeline.contexts import Contexts, check_predictor
from cfopt.question import Contrastive, Criterion, Question
from cfopt.question.domain import Domain
from cfopt.question.features import Features
from cfopt.question.local_outlier import LocalOutlier, Surroundings
from cfopt.question.prices import Prices
from cfopt.question.proximity import Proximity
from cfopt.question.robustness import Robustness
from cfopt.result.outcomes import RowOutcomes
from cfopt.search import Auto, Search
from cfopt.search.dry_run import DryRun


def check_question(pipeline: Pipeline, question: Question) -> None:
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
    if not isinstance(question.prices, Prices | None):
        raise InputError(f"explain needs prices as Prices(), got {question.prices!r:.80}.")
    if not isinstance(question.robust, Robustness | None):
        raise InputError(
            f"explain needs a Robustness such as Ball(0.1), got {question.robust!r:.80}."
        )
    criterion = question.criterion
    wish = isinstance(criterion, Contrastive) and criterion.foil is not None
    if question.robust is not None and wish and margin != 0:
        raise InputError(
            f"Robust answers to a wish need a margin of 0, got {margin!r}. Ask for the wish first, "
            "then for its plan, explain(...).wanted, with robust and the margin."
        )
    if not (isinstance(margin, Real) and math.isfinite(margin) and margin >= 0):
        raise InputError(f"margin needs to be a finite number >= 0, got {margin!r}.")
    limit = question.time_limit
    if limit is not None and not (isinstance(limit, Real) and limit > 0):
        raise InputError(f"explain needs a time_limit > 0 in seconds, or None; got {limit!r}.")
    options = question.options
    if isinstance(options, bool) or not isinstance(options, int) or options < 1:
        raise InputError(f"explain needs a whole number >= 1 of options, got {options!r}.")
    question.criterion.check(pipeline.problem, margin)
    check_latent(question)
    _check_likeness(question)


def _check_likeness(question: Question) -> None:
    """Raise InputError if answers cannot be kept where the data are."""
    asked, search = question.plausibility, question.search
    if not isinstance(asked, LocalOutlier):
        return
    if question.generative is not None:
        raise InputError(
            "LocalOutlier is about contexts themselves, and a generative model makes them from "
            "codes. Leave out generative=..., or ask for Sphere(beta)."
        )
    if question.reference is None:
        raise InputError(
            "LocalOutlier needs known contexts to compare with, got none. Pass the training data: "
            "explain(reference=...), or [reference] in a configuration."
        )
    if question.robust is not None:
        raise InputError(
            "LocalOutlier and robust cannot be asked for together. Ask for one of them; "
            "cfopt.metrics.evaluate measures the other."
        )
    if search is not None and not search.heeds_surroundings:
        raise InputError(
            f"{type(search).__name__} cannot keep to contexts like known ones. Use Auto(), "
            "DerivativeFree() or MDMM() with LocalOutlier, or leave it out."
        )


def to_try(question: Question) -> Question:
    """The same question without a search, to see whether it can be asked.

    Known contexts are left out: to start from them, or to stay near them, takes a search.
    """
    _check_likeness(question)
    asked = question.plausibility
    return replace(
        question,
        search=DryRun(question.search or Auto()),
        plausibility=None if isinstance(asked, LocalOutlier) else asked,
        reference=None,
    )


def surroundings_of(question: Question, known: Tensor | None) -> Surroundings | None:
    """The known contexts that answers must be like; None if they need not."""
    asked = question.plausibility
    if not isinstance(asked, LocalOutlier) or known is None:
        return None
    return asked.among(known, question.features.scales)


def pose(outcomes: RowOutcomes, pipeline: Pipeline, question: Question, deadline: float) -> Task:
    """The task of all rows; those whose input cannot be used are rejected on the way.

    So are those whose factual decision is not known by a deadline.
    """
    x, problem, margin = outcomes.contexts.x, pipeline.problem, question.margin
    outcomes.reject_each(outcomes.contexts.not_finite())
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
    solved, recall = problem.until(deadline).attempt(prices), Recall()
    if problem.exact() is problem:
        recall.keep(prices, solved)
    failures = problem.audit(solved.decisions.numpy()) | solved.failures
    outcomes.reject_each(failures, "the factual decision is unknown: ")
    problem.remember(solved.decisions.numpy())
    factual = solved.decisions.to(costs)
    bound = question.criterion.asked_of(problem).bind(len(x), factual)
    faults = dict(enumerate(bound.faults(problem, factual, margin)))
    outcomes.reject_each({row: fault for row, fault in faults.items() if fault})
    outcomes.costs = costs
    size = problem.prices(costs).abs().amax(1)
    rules = Rules(problem, factual, bound, margin, size, solved.decisions, x.dtype)
    space = Space(x, question.near(x), domain)
    return Task(rules, space, pipeline.predictor, differentiable, recall)


def variation_of(question: Question, pipeline: Pipeline, contexts: Contexts) -> Variation | None:
    """What the answers have to stand up to, in terms of contexts' entries; None if nothing."""
    robust = question.robust
    if robust is None:
        return None
    off_by, size = None, contexts.x[0].numel()
    if (ball := robust.ball) is not None:
        off_by = OffBy(ball.radius, ball.norm, ball.units(contexts.features, size))
        off_by = off_by if off_by.units.any() else None
    others = tuple(Pipeline(one, pipeline.problem) for one in robust.predictors)
    for k, other in enumerate(others):
        try:
            other.deployed(contexts.x[contexts.finite][:1])
        except PredictorError as error:
            raise InputError(f"Predictor {k} of Models does not fit: {error}") from error
    if off_by is None and not others:
        return None  # nothing can be off
    return Variation(off_by, tuple(other.predictor for other in others), robust.words)
