"""explain_group(): one change of some features, the same for many contexts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cfopt import clock
from cfopt._typing import Array
from cfopt.clock import Limit, part_of
from cfopt.engine.progress import Points
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.exact.exact_task import NORMS
from cfopt.exact.shared_change import SharedTask, Truths
from cfopt.exact.verify import verify
from cfopt.explaining.explain import answer
from cfopt.explaining.pose import check_question, pose
from cfopt.names import counted
from cfopt.pipeline import Pipeline
from cfopt.pipeline.contexts import Contexts
from cfopt.question import Criterion, Question
from cfopt.question.features import Features
from cfopt.question.proximity import L2, Proximity
from cfopt.result.explanation import Explanation
from cfopt.result.group import GroupExplanation
from cfopt.result.outcomes import RowOutcomes
from cfopt.result.settle import settle
from cfopt.result.wording import rounded_down
from cfopt.search import Auto
from cfopt.search.group import shared_search

#: How many sets of rows are looked at where not all need be met.
_NODES = 5000
#: By which fractions of their terms cuts are overfulfilled where the boundary cannot be resolved.
_INSIDE = (0.0, -1e-9, -1e-7, -2e-6)
#: The same the other way: more than verification grants.
_EASE = 4e-6


def explain_group(
    x0: Any,
    pipeline: Pipeline,
    criterion: Criterion,
    *,
    change: Sequence[str | int] | None = None,
    share: float = 1.0,
    proximity: Proximity | None = None,
    features: Features | None = None,
    reference: Any = None,
    margin: float = 0.0,
    time_limit: float | None = None,
    most_sets: int = _NODES,
) -> GroupExplanation:
    """The one change of some features, the same for all rows, after which a criterion holds.

    A price, a policy or a capacity is the same for all: by how much would it have to differ for the
    wish to come true in every row, or in a share of them? For affine predictors and `Absolute` or
    `Relative` questions about whole plans the nearest such change is found with a proof, or that
    there is none: the decisions that stand in the way in any row are cuts of one change, and which
    rows are met is found by branch and bound. Otherwise changes are tried, and nothing is proved.

    Arguments:
        x0, pipeline, criterion, proximity, reference, margin: as for `explain`.
        change: the features that change, by name or number; all that may change by default.
        share: the least fraction of the rows in which the criterion has to hold.
        features: as for `explain`; the change has to be allowed in every row.
        time_limit: as for `explain`; after it, the best change so far is returned.
        most_sets: how many sets of rows are looked at, at most, where not all need be met.
    """
    began = clock.now()
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share <= 1:
        raise InputError(f"explain_group needs a share above 0 and up to 1, got {share!r}.")
    question = Question(
        criterion,
        float(margin),
        L2() if proximity is None else proximity,
        search=Auto(),
        features=Features() if features is None else features,
        reference=reference,
        time_limit=time_limit,
    )
    check_question(pipeline, question)
    limit = Limit.of(time_limit, began)
    with torch.inference_mode(False), pipeline.eval_mode():
        contexts = Contexts.of(x0, pipeline, question.features, "explain_group")
        contexts, _ = contexts.beside(reference, pipeline)
        question = replace(question, features=contexts.features)
        outcomes = RowOutcomes(contexts, pipeline.problem)
        task = pose(outcomes, pipeline, question, limit.closing)
        rows = outcomes.open_rows()
        needed = math.ceil(float(share) * len(contexts.x) - 1e-9)
        if len(rows) < needed:
            raise InputError(
                f"explain_group needs {counted(needed, 'row')} that can be asked about; only "
                f"{len(rows)} of {len(contexts.x)} can. Ask about the others with explain, which "
                "says why."
            )
        asked = _Group(task[rows].until(limit.end), _free(contexts, change), needed, most_sets)
        u, bound, method = asked.solve(question, contexts, pipeline, rows)
        if u is None:
            u_found, points = np.zeros(asked.size), task.space.origin[rows]
        else:
            u_found, points = u, asked.contexts(u)
        found = Points(
            rows=rows,
            x=points,
            found=torch.ones(len(rows), dtype=torch.bool),
            steps=torch.ones_like(rows),
            solves=torch.ones_like(rows),
            passes=torch.zeros_like(rows),
            methods=(method,) * len(rows),
        )
        settle(outcomes, task[rows].until(limit.closing), rows, found, "")
        e = outcomes.close(task, question)
    loss = math.nan if u is None else asked.cost(u_found)
    return _result(e, asked, u, u_found, needed, loss, bound)


def _free(contexts: Contexts, change: Sequence[str | int] | None) -> Truths:
    """Which entries of a context may change, `(p,)`."""
    size = contexts.x[0].numel()
    if change is None:
        return np.ones(size, dtype=bool)
    if isinstance(change, str) or not len(change):
        raise InputError(
            f"explain_group needs change as a list of features, by name or number; got {change!r}."
        )
    return contexts.features.mask("change", list(change), size)


class _Group:
    """The rows of a task, and one change of them all."""

    def __init__(self, task: Task, free: Truths, needed: int, most_sets: int) -> None:
        self.task, self.free, self.needed, self.most_sets = task, free, needed, most_sets
        self.deadline = task.rules.problem.deadline
        origin = task.space.origin
        self.size = origin[0].numel()
        self._origin = origin.flatten(1).double().cpu().numpy()
        kind = type(task.space.proximity)
        if kind not in NORMS:
            raise InputError(
                f"explain_group needs L2, L1 or LInf as its proximity, got {kind.__name__}."
            )
        self._scale = task.space.proximity.units(self.size)
        self._norm = NORMS[kind]

    def cost(self, u: Array) -> float:
        return float(self._norm(u))

    def contexts(self, u: Array) -> Tensor:
        """All rows after a change, as they are returned."""
        origin = self.task.space.origin
        moved = torch.from_numpy(self._origin + self._scale * u).reshape(origin.shape).to(origin)
        still = torch.from_numpy(u == 0).reshape(origin.shape[1:]).to(origin.device)
        x = torch.where(still, origin, moved)
        domain = self.task.space.domain
        return domain.round(x) if domain is not None and domain.discrete else x

    def holds(self, u: Array) -> Truths:
        """In which rows the criterion holds after a change that is allowed there."""
        x = self.contexts(u)
        found: Truths = verify(self.task, x).valid.numpy()
        return found

    def solve(
        self, question: Question, contexts: Contexts, pipeline: Pipeline, rows: Tensor
    ) -> tuple[Array | None, float, str]:
        """A change, what every other costs at least (NaN if unknown), and how it was found."""
        if SharedTask.refusal(self.task):
            return self._search(question, contexts, pipeline, rows), math.nan, "trial of changes"
        bound = 0.0
        for ease in _INSIDE:
            shared = SharedTask(self.task, self.free, self.needed, ease)
            found = shared.solve(self.most_sets)
            if ease == 0.0:
                bound = found.bound
            if found.u is None:
                return self._impossible(bound)
            if int(self.holds(found.u).sum()) >= self.needed:
                return found.u, bound, "shared cuts"
        return None, bound, "shared cuts"

    def _impossible(self, bound: float) -> tuple[Array | None, float, str]:
        """That there is none, if cuts clash by more than verification could overlook."""
        eased = SharedTask(self.task, self.free, self.needed, _EASE)
        found = eased.solve(self.most_sets)
        if found.u is None:
            return None, min(bound, found.bound), "shared cuts"
        enough = int(self.holds(found.u).sum()) >= self.needed
        return found.u if enough else None, math.nan, "shared cuts"

    def _search(
        self, question: Question, contexts: Contexts, pipeline: Pipeline, rows: Tensor
    ) -> Array | None:
        """By what helps single rows, and each feature alone."""
        names = contexts.features.labels(self.size)
        locked = [name for name, free in zip(names, self.free, strict=True) if not free]
        features = contexts.features
        if locked:
            # Of categories and one-hot groups, the column itself is what is locked.
            size = self.size
            held = replace(features, names=names) if features.layout is None else features
            features = replace(held, immutable=[*held.immutable, *locked])
            features.check(size)
        own = replace(question, features=features, criterion=question.criterion)
        # Half of the time is for making one change of what helps each row alone.
        share = part_of(self.deadline, 1 / 2)
        alone = answer(contexts.x, pipeline, own, deadline=share)[rows]
        moved = (alone.x - alone.x0).flatten(1).double().cpu().numpy() / self._scale
        starts = moved[alone.valid.cpu().numpy()]
        starts = starts[np.abs(starts).sum(axis=1) > 0] if len(starts) else np.zeros((0, self.size))
        low, high = self._box()
        return shared_search(
            self.holds,
            self.cost,
            lambda u: np.clip(np.where(self.free, u, 0.0), low, high),
            starts[:64],
            self.needed,
            self.deadline,
        )

    def _box(self) -> tuple[Array, Array]:
        """Between which changes every row stays within its bounds."""
        domain = self.task.space.domain
        if domain is None:
            return np.full(self.size, -np.inf), np.full(self.size, np.inf)
        lower = (domain.lower.double().cpu().numpy() - self._origin).max(axis=0)
        upper = (domain.upper.double().cpu().numpy() - self._origin).min(axis=0)
        return np.minimum(lower, 0.0) / self._scale, np.maximum(upper, 0.0) / self._scale


def _result(
    e: Explanation,
    asked: _Group,
    u: Array | None,
    found: Array,
    needed: int,
    loss: float,
    bound: float,
) -> GroupExplanation:
    change = torch.from_numpy(found * asked._scale).to(e.x)
    group = GroupExplanation(e, change, needed, loss, bound, "")
    if u is None:
        message = "no such change was found"
        if bound == math.inf:
            message = f"it was proved that no change is enough in {counted(needed, 'row')}"
    elif group.optimal:
        message = "proved to be the smallest change that is enough"
    elif math.isnan(bound):
        message = "found by trying changes; nothing is proved about smaller ones"
    else:
        near = asked.task.space.proximity
        least = rounded_down(float(near.length(torch.tensor(bound))), 4)
        message = f"found; every change that is enough has at least a distance of {least}"
    return replace(group, message=message)
