"""Tasks of every kind that the contract of a search poses, and brute force to judge them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

import torch
from torch import Tensor, nn

from cfopt._explain import answer
from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.generative.pca import PCA
from cfopt.pipeline import Pipeline
from cfopt.problems.finite import Finite
from cfopt.problems.sense import Sense
from cfopt.problems.shortest_path import GridShortestPath
from cfopt.question import Absolute, Criterion, Epsilon, Question, Relative
from cfopt.question.domain import Domain
from cfopt.question.features import Features, LinearLimit
from cfopt.question.plausibility import Sphere
from cfopt.question.proximity import L1
from cfopt.result.explanation import Explanation
from cfopt.search.base import Search

_ROWS = 8
#: How many random contexts show what is possible.
_SAMPLES = 300
#: Units of features, in which L1 counts.
_SCALE = (1.0, 2.0, 0.5, 1.0)
#: Sets of items, of which the most valuable one is chosen.
_BUNDLES = (
    *((1, 1, 0, 0, 0, 0), (0, 1, 1, 0, 0, 1), (0, 0, 1, 1, 0, 0), (1, 0, 0, 1, 1, 0)),
    *((0, 0, 0, 0, 1, 1), (0, 0, 0, 0, 0, 0)),
)


@dataclass(frozen=True)
class Case:
    """A kind of task: whatever of a question differs from the plain one, by name.

    Arguments:
        pipeline: a predictor of 4 features, and a problem whose decisions can be listed.
        contexts: to explain, `(B, 4)`.
        asked: arguments of `Question` beside the criterion and the search.
    """

    pipeline: Pipeline
    contexts: Tensor
    asked: dict[str, object] = field(default_factory=dict)

    @cached_property
    def samples(self) -> Tensor:
        """Random points of each row that are allowed: contexts or codes, `(S, B, n)`."""
        model = self.asked.get("generative")
        if isinstance(model, PCA):
            return 2 * _normal(_SAMPLES, _ROWS, model.latent_dim, seed=6)
        drawn = self.contexts + 3 * _normal(_SAMPLES, _ROWS, 4, seed=6)
        features = self.asked.get("features")
        domain = Domain.of(features, self.contexts) if isinstance(features, Features) else None
        if domain is None:
            return drawn
        kept = [domain.round(domain.clamp(x)) for x in drawn]
        # A sample that breaks another limit stands for the row itself, which breaks none.
        return torch.stack([torch.where(domain.allows(x)[:, None], x, self.contexts) for x in kept])

    def criteria(self) -> list[Criterion]:
        """Every question; alternatives are best in some context that is allowed."""
        points, model = self.samples[0], self.asked.get("generative")
        wanted = self.pipeline.decide(model.decode(points) if isinstance(model, PCA) else points)
        return [Relative(wanted), Absolute(wanted), Epsilon(0.05)]

    def explain(self, criterion: Criterion, search: Search) -> tuple[Explanation, Watched]:
        """What a search answers, and what it saw and claimed."""
        watched = Watched(search)
        question = Question(criterion, search=watched, **self.asked)  # type: ignore[arg-type]
        return answer(self.contexts, self.pipeline, question), watched


class RefusalError(Exception):
    """A search does not serve a task; the message says why."""


class Watched(Search):
    """A search, with the task that it was given and the points that it claims."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.task: Task | None = None
        self.claims: list[Points] = []

    def refusal(self, task: Task) -> str:
        """That of the search."""
        return self.search.refusal(task)

    def steps(self, task: Task) -> Iterator[Progress]:
        """Those of the search."""
        if reason := self.search.refusal(task):
            raise RefusalError(reason)
        self.task = task
        for progress in self.search.steps(task):
            if progress.finished is not None:
                self.claims.append(progress.finished)
            yield progress


def truly_valid(
    pipeline: Pipeline, x: Tensor, criterion: Criterion, factual: Tensor, margin: float
) -> Tensor:
    """Whether a criterion holds, by its definition and all decisions: `(B, ...) -> (B,)`."""
    listed = pipeline.problem.decisions()
    assert listed is not None
    with torch.no_grad():
        prices = pipeline.problem.prices(pipeline.costs(x))
    prices = prices if pipeline.problem.sense is Sense.MIN else -prices
    every, old = prices @ listed.T, (prices * factual).sum(1)
    slack = 1e-5 * prices.abs().sum(1)
    best = every.min(1).values
    if isinstance(criterion, Epsilon):
        return best + criterion.epsilon * best.abs() + margin * old.abs() <= old + slack
    assert isinstance(criterion, (Relative, Absolute))
    new = (prices * criterion.alternative).sum(1)
    if isinstance(criterion, Relative):
        return new + margin * new.abs() <= old + slack
    same = (listed[None] == criterion.alternative[:, None]).all(2)
    others = every.masked_fill(same, torch.inf).min(1).values
    return new + margin * new.abs() <= others + slack


def least_loss(case: Case, task: Task) -> Tensor:
    """The least loss of the samples that are truly valid, inf where none is: `(B,)`."""
    least = torch.full((len(task),), torch.inf, dtype=torch.float64)
    everyone = (case.contexts[:, None] == task.space.origin[None]).all(2).int().argmax(0)
    for points in case.samples[:, everyone]:
        with torch.no_grad():
            x = task.space.context(points)
        rules = task.rules
        holds = truly_valid(case.pipeline, x, rules.criterion, rules.factual, rules.margin)
        least = torch.where(holds, least.minimum(task.space.loss(points)), least)
    return least


def least_l1(case: Case, e: Explanation) -> Tensor:
    """The least L1 distance of the answers to a relative question, in closed form: `(B,)`.

    `<g, x> + c <= 0`, with what the alternative's cost rises by beside the factual's, is reached
    first along the one feature whose weighted slope is the steepest.
    """
    layer, proximity = case.pipeline.predictor, case.asked["proximity"]
    assert isinstance(layer, nn.Linear)
    assert isinstance(proximity, L1)
    direction = e.alternative - e.factual
    slope = direction @ layer.weight
    excess = (case.pipeline.costs(case.contexts) * direction).sum(1)
    return excess.clamp(min=0) / (slope * torch.tensor(_SCALE).to(slope)).abs().amax(1)


@cache
def cases() -> dict[str, Case]:
    """All of them, by name."""
    grid, contexts = _grid(), _normal(_ROWS, 4, seed=4)
    limits = Features(
        lower=-3.0,
        upper=3.0,
        immutable=[0],
        only_increase=[1],
        linear=[LinearLimit({2: 1.0, 3: 1.0}, lower=-4.0, upper=4.0)],
    )
    whole = Features(lower=-6.0, upper=6.0, integer=[2])
    counted = contexts.clone()
    counted[:, 2] = (2 * counted[:, 2]).round()
    inside = contexts.clamp(-2.0, 2.0)
    data = _normal(200, 3, seed=9) @ _normal(3, 4, seed=10)
    plausible = {"generative": PCA.fit(data, 3).double(), "plausibility": Sphere(0.1)}
    return {
        "limits": Case(grid, inside, {"features": limits}),
        "whole numbers": Case(grid, counted, {"features": whole}),
        "a maximising problem": Case(_bundles(), contexts),
        "L1": Case(grid, contexts, {"proximity": L1(_SCALE)}),
        "a margin": Case(grid, contexts, {"margin": 0.02}),
        "codes": Case(grid, data[:_ROWS], plausible),
    }


def _grid() -> Pipeline:
    problem = GridShortestPath(3, 3)
    return Pipeline(_linear(problem.num_costs, bias=3.0), problem)


def _bundles() -> Pipeline:
    return Pipeline(_linear(6, bias=1.0), Finite(_BUNDLES, "max"))


def _linear(costs: int, bias: float) -> nn.Linear:
    """A predictor in float64 whose costs rise with every feature."""
    predictor = nn.Linear(4, costs).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        predictor.weight.copy_(torch.rand(predictor.weight.shape, generator=generator))
        predictor.bias.fill_(bias)
    return predictor.requires_grad_(False)


def _normal(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)
