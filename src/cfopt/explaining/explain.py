"""explain(): check the input, search, verify every answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cfopt import clock
from cfopt._typing import Array
from cfopt.clock import Limit, part_of
from cfopt.engine.encoding import encode
from cfopt.engine.progress import Points, Progress
from cfopt.engine.recall import Recall
from cfopt.engine.task import Task
from cfopt.errors import CfoptError
from cfopt.exact.affine_task import AffineTask
from cfopt.exact.tree_task import trees_of
from cfopt.explaining.options import with_options
from cfopt.explaining.pose import (
    check_question,
    pose,
    surroundings_of,
    variation_of,
)
from cfopt.generative.protocol import GenerativeModel
from cfopt.pipeline import Pipeline
from cfopt.pipeline.contexts import Contexts
from cfopt.pipeline.eval_mode import eval_mode
from cfopt.problems.base import Problem
from cfopt.problems.solved import TIME_IS_UP
from cfopt.question import Criterion, Question
from cfopt.question.features import Features
from cfopt.question.plausibility import CodePenalty, Plausibility
from cfopt.question.prices import Prices
from cfopt.question.proximity import L2, Proximity
from cfopt.question.quantifier import Quantifier
from cfopt.question.robustness import Robustness
from cfopt.result.explanation import Explanation
from cfopt.result.outcomes import RowOutcomes
from cfopt.result.radius import quick_radii
from cfopt.result.settle import settle, settle_at_start
from cfopt.result.typical import with_likeness, with_typical
from cfopt.search import (
    Auto,
    DerivativeFree,
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
from cfopt.search.few_changes import with_few_changes
from cfopt.search.one_plan import standing_up

#: The fraction of the time that is kept for the question about prices.
_FOR_PRICES = 0.25


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
    time_limit: float | None = None,
    robust: Robustness | Sequence[Robustness] | None = None,
    options: int = 1,
    prices: Prices | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Explanation:
    """Find, for each context, the nearest one in which the criterion holds, and verify it.

    Arguments:
        x0: contexts as a tensor, an array or a DataFrame: a batch, or a single one.
        pipeline: predictor and problem.
        criterion: `Relative`, `Absolute`, `Epsilon`, or another one.
        generative: a model of plausible contexts: anything with `encode`, `decode` and
            `latent_dim`. Its codes are searched, and the answer is what it decodes.
        proximity: what to keep small; by default the squared Euclidean distance. Features count in
            units of their scales: the proximity's own or those of `features`, else their usual
            changes in the reference, else as they are. `Latent(L2())` measures codes.
        plausibility: what codes should be like, `Sphere(beta)` or `LogLikelihood(beta)`; added to
            the proximity. `LocalOutlier()`: answers are where the reference is, contexts that are
            no more of an outlier than 95% of it.
        search: how to search; by default `Auto()`: exact where possible, else the best effort.
        features: names and scales of the features, and what they may be.
        reference: known contexts, such as the training data, in any form that x0 can have. Where
            the search finds nothing, the nearest of them that is allowed and valid is the start.
            Unless `features` has scales, distances count in the usual changes of these contexts:
            `Features.usual`.
        margin: by what fraction of its own value the alternative must win (for `Epsilon`: by what
            fraction of its value the factual decision must lose more); 0 admits ties.
        time_limit: seconds for all rows together and all that is asked, from the call on; rows
            without an answer by then end as best effort, and those whose factual decision is not
            known are rejected. A solve or a prediction that has begun is not stopped, and a second,
            or 5% of the limit, may be added to verify what was found. What the search over trees
            compiles, once for a machine, comes on top.
        robust: what answers have to stand up to: `Ball(0.1)`, every context within 0.1 of the
            answer; `Models([...])`, each of several predictors; or both, in a list. Of a wish, one
            and the same plan is to do in all of them.
        options: how many answers to each context, at most, that differ in kind: other
            plans take over (`Epsilon`), they leave different features as they are or, among codes
            and images, are a distance apart. With more than one, `Explanation.options` has them,
            the best first.
        prices: `Prices()` asks besides what the costs themselves would have had to be; the answer
            is `e.prices`.
        on_progress: called with each report of the search.

    Returns one row for each context. A row with bad input is rejected; the others go on.
    """
    features = Features() if features is None else features
    question = Question(
        criterion,
        margin,
        proximity,
        plausibility,
        search,
        features,
        generative,
        reference,
        time_limit,
        robust=Robustness.of(robust),
        options=options,
        prices=prices,
    )
    return answer(x0, pipeline, question, on_progress)


def answer(
    x0: Any,
    pipeline: Pipeline,
    question: Question,
    on_progress: Callable[[Progress], None] | None = None,
    deadline: float = math.inf,
) -> Explanation:
    """What `explain` does, for a question that is one object.

    Arguments:
        x0, pipeline, on_progress: as for `explain`.
        question: everything else.
        deadline: when a call that this is a part of is to end.
    """
    began = clock.now()
    proximity = L2() if question.proximity is None else question.proximity
    search = Auto() if question.search is None else question.search
    question = replace(question, proximity=proximity, search=search)
    check_question(pipeline, question)
    began += _seconds_to_compile(pipeline, question)
    limit = Limit.of(question.time_limit, began, deadline)
    question = replace(question, margin=float(question.margin))
    generative = question.generative
    # Gradients are needed even where the caller has switched them off.
    further = () if question.robust is None else question.robust.predictors
    with torch.inference_mode(False), pipeline.eval_mode(), eval_mode(generative, *further):
        shape = getattr(generative, "context_shape", None)
        contexts = Contexts.of(x0, pipeline, question.features, shape=shape)
        contexts, known = contexts.beside(question.reference, pipeline)
        question = replace(question, features=contexts.features)
        outcomes = RowOutcomes(contexts, pipeline.problem)
        posed = clock.now()
        latest = limit.end + limit.grace
        task = pose(outcomes, pipeline, question, latest)
        # What all rows take once, answers take to be verified, and again to see whether they tie.
        reserve = 2 * (clock.now() - posed)
        variation = variation_of(question, pipeline, contexts)
        task = replace(task, variation=variation)
        if generative is not None:
            penalty = question.plausibility
            penalty = penalty if isinstance(penalty, CodePenalty) else None
            task = encode(outcomes, task, generative, penalty)
        settle_at_start(outcomes, task.until(latest))
        surroundings = surroundings_of(question, known)
        task = replace(task, space=replace(task.space, surroundings=surroundings))

        met: dict[int, Array] = {}

        def work(outcomes: RowOutcomes, task: Task) -> Explanation:
            open_rows = outcomes.open_rows()
            if len(open_rows):
                part = task[open_rows]
                using = standing_up(with_few_changes(search, part), part)
                using = _with_reference(using, known, part)
                left = part_of(limit.end, 1.0 if question.prices is None else 1 - _FOR_PRICES)
                searching = part.until(max(left - reserve, part_of(left, 1 / 2)))
                points = _run(using, searching, open_rows, on_progress)
                settle(outcomes, part.until(limit.closing), open_rows, points, _unproved(part))
                if question.options > 1 and Quantifier.EVERY in task.rules.criterion.multiples:
                    met.update(_decisions(points, open_rows))
            return outcomes.close(task, question)

        def again(other: Task, rows: Tensor) -> Explanation:
            none = np.empty((0, pipeline.problem.num_columns))
            known = tuple(met.get(row, none) for row in range(len(other)))
            return work(outcomes.anew(rows), replace(other, known=known))[rows]

        e = work(outcomes, task)
        if question.options > 1:
            e = with_options(e, task, question.options, again, limit.end)
        if generative is not None:
            e = with_typical(e, generative, known)
        if surroundings is not None:
            e = with_likeness(e, surroundings)
    pipeline.problem.remember(outcomes.decisions.numpy())
    e = _with_radii(e, pipeline, task.recall, latest)
    if question.prices is None:
        return e
    return replace(e, prices=_prices(e, pipeline.problem, question.prices, limit.end))


def _decisions(points: Points, rows: Tensor) -> dict[int, Array]:
    """The decisions that the proofs of rows are about, by the rows' numbers outside."""
    given = zip(points.rows.tolist(), points.certificates, strict=False)
    found = {int(rows[row]): proof.decisions() for row, proof in given if proof is not None}
    return {row: np.stack(decisions) for row, decisions in found.items() if decisions}


def _seconds_to_compile(pipeline: Pipeline, question: Question) -> float:
    """Compile what the cells of trees need before a time limit runs; how long that took."""
    behind_trees = trees_of(pipeline.predictor) is not None
    if question.time_limit is None or not behind_trees or find_spec("numba") is None:
        return 0.0
    from cfopt.trees.warm_up import warm_up

    start = clock.now()
    warm_up()
    return clock.now() - start


def _with_radii(
    e: Explanation, pipeline: Pipeline, recall: Recall | None, deadline: float
) -> Explanation:
    """With how far each option may be off, if that is quick; else it is measured when asked for."""
    every = e.every_option()
    every = replace(every, radii=quick_radii(every, pipeline, recall, deadline), pipeline=pipeline)
    if e.options is None:
        return every
    counts = [len(one) for one in e.options]
    first = torch.tensor(counts).cumsum(0) - torch.tensor(counts)
    own = None if every.radii is None else every.radii[first]
    return replace(e, radii=own, pipeline=pipeline, options=tuple(every.split(counts)))


def _prices(e: Explanation, problem: Problem, prices: Prices, deadline: float) -> Explanation:
    """The same question about the costs that were predicted in the factual contexts."""
    question = Question(e.criterion, e.margin, prices.proximity, features=prices.entries(problem))
    pipeline = Pipeline(nn.Identity(), problem)
    found = answer(e.costs_before.double(), pipeline, question, deadline=deadline)
    return replace(found, labels=e.labels)


def _with_reference(search: Search, known: Tensor | None, task: Task) -> Search:
    """The search, with reference contexts for the rows to which it finds no answer."""
    if known is None:
        return search
    informed = search.knowing(known)
    if search.stands_alone:
        return informed
    last: Search
    if not task.differentiable or task.space.surroundings is not None:
        if informed is not search:
            return informed
        last = with_few_changes(DerivativeFree().knowing(known), task)
    elif task.space.latent is not None:
        last = LatentReference(known)
    else:
        polish: Search = Sequential(restarts=0)
        polish = Tangents() if polish.refusal(task) else polish
        last = with_few_changes(Refined(Reference(known), polish), task)
    return Fallback((informed, standing_up(last, task)))


def _run(
    search: Search,
    task: Task,
    numbers: Tensor,
    on_progress: Callable[[Progress], None] | None,
) -> Points:
    """What a search finds; its reports are passed on with the numbers that rows have outside."""
    parts = []
    for progress in search.attempt(task):
        if progress.finished is not None:
            parts.append(progress.finished)
        if on_progress is not None:
            on_progress(progress.of(numbers, progress.running, progress.total))
    rows = [row for part in parts for row in part.rows.tolist()]
    if sorted(rows) != list(range(len(task))):
        raise CfoptError(
            f"{type(search).__name__} must return each of the {len(task)} rows once; it handed "
            f"over {len(rows)}."
        )
    points = Points.gather(parts)
    if not task.late:
        return points
    ended = zip(points.notes, points.found.tolist(), strict=True)
    notes = tuple(note if found else note or TIME_IS_UP for note, found in ended)
    return replace(points, notes=notes)


def _unproved(task: Task) -> str:
    """Why nothing is proved about nearer contexts although such predictors allow it; else "".

    To follow an answer.
    """
    some = Quantifier.SOME in task.rules.criterion.multiples
    unread = getattr(task.predictor, "unread", "")
    reason = f"the trees could not be read: {unread}" if unread else ""
    if (some or task.rules.wish is not None) and trees_of(task.predictor) is not None:
        reason = TreeCells().refusal(task)
    elif some and not AffineTask.refusal(task):
        reason, *_ = Enumeration().refusal(task).split("; use")
    return f"; nothing is proved about nearer ones, since {reason}" if reason else ""
