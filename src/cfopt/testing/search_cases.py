"""Tasks of every kind that the contract of a search poses, and brute force to judge them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

import torch
from torch import Tensor, nn

from cfopt.engine.progress import Points, Progress
from cfopt.engine.task import Task
from cfopt.errors import InputError
from cfopt.explaining.explain import answer
from cfopt.generative.pca import PCA
from cfopt.pipeline import Pipeline
from cfopt.problems.base import Problem
from cfopt.problems.finite import Finite
from cfopt.problems.shortest_path import GridShortestPath
from cfopt.question import Absolute, Criterion, Epsilon, Question, Relative
from cfopt.question.domain import Domain
from cfopt.question.features import Features, LinearLimit
from cfopt.question.plausibility import Sphere
from cfopt.question.proximity import L1
from cfopt.result.explanation import Explanation
from cfopt.search.base import Search
from cfopt.testing.draws import normal

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
        contexts: the contexts to explain, `(B, 4)`.
        asked: arguments of `Question` beside the criterion and the search.
    """

    pipeline: Pipeline
    contexts: Tensor
    asked: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def samples(self) -> Tensor:
        """Random points of each row that are allowed: contexts or codes, `(S, B, n)`."""
        model = self.asked.get("generative")
        if isinstance(model, PCA):
            return 2 * normal(_SAMPLES, _ROWS, model.latent_dim, seed=6)
        drawn = self.contexts + 3 * normal(_SAMPLES, _ROWS, 4, seed=6)
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


class RefusalError(InputError):
    """A search does not serve a task; the message says why."""


class Watched(Search):
    """A search, with the task that it was given and the points that it claims."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.task: Task | None = None
        self.claims: list[Points] = []

    def refusal(self, task: Task) -> str:
        return self.search.refusal(task)

    def steps(self, task: Task) -> Iterator[Progress]:
        if reason := self.search.refusal(task):
            raise RefusalError(reason)
        self.task = task
        for progress in self.search.steps(task):
            if progress.finished is not None:
                self.claims.append(progress.finished)
            yield progress


def truly_holds(
    problem: Problem,
    costs: Tensor,
    criterion: Criterion,
    factual: Tensor,
    margin: float = 0.0,
    noise: float = 0.0,
) -> Tensor:
    """Whether a criterion holds for costs, by brute force over all decisions: `(B, n) -> (B,)`.

    `h <= 1e-6 sum_j |price_j d_j|`, as for every answer, where the rival is an exact optimum; for
    `Epsilon` another decision must win, by more than rounding.

    Arguments:
        problem: an exact problem whose decisions can be listed.
        costs: `(B, n)`, such as the predictor's output.
        criterion: `Relative`, `Absolute` or `Epsilon`, bound to the rows.
        factual: the decisions that were taken, `(B, m)`.
        margin: the fraction by which it must hold.
        noise: the most by which entries of a solver's answers may be off; its cost is allowed for.
    """
    listed = problem.decisions()
    assert listed is not None
    prices = problem.sense.sign * problem.prices(costs.detach().to("cpu", torch.float64))
    values, wanted = prices @ listed.T, criterion.pivot(factual)
    if margin > 0 and isinstance(criterion, Absolute):  # the best of the others
        values = values.masked_fill((listed[None] == wanted[:, None]).all(2), torch.inf)
    best, rivals = listed[values.argmin(1)], 1.0
    if isinstance(criterion, Epsilon):
        rivals += criterion.epsilon
        sign = (prices * best).sum(1, keepdim=True).sign()
        direction = (1 + criterion.epsilon * sign) * best - factual
    elif isinstance(criterion, Relative):
        rivals = 2.0  # both may be answers of the solver
        direction = wanted - factual
    else:
        direction = wanted - best
    terms, size = prices * direction, prices.abs()
    asked = margin * (prices * wanted).sum(1).abs()
    rounding = 1e-12 * size.amax(1) * direction.abs().sum(1)
    granted = 1e-6 * terms.abs().sum(1) + rivals * noise * size.sum(1)
    holds = terms.sum(1) + asked <= granted + rounding
    if isinstance(criterion, Epsilon):
        lead = 1e-9 * size.amax(1) * (factual - best).abs().sum(1)
        holds &= (prices * (factual - best)).sum(1) > lead - rivals * noise * size.sum(1)
    return holds


def least_loss(
    task: Task, known: Iterable[Tensor], problem: Problem, criterion: Criterion
) -> Tensor:
    """The least loss of known points that are truly valid, inf where none is: `(B,)`.

    Arguments:
        task: what is asked.
        known: points of every row, `(B, n)` each.
        problem, criterion: as for `truly_holds`.
    """
    rules = task.rules
    least = torch.full((len(task),), torch.inf, dtype=torch.float64)
    for points in known:
        costs = task.pipeline.costs(task.space.context(points))
        holds = truly_holds(problem, costs, criterion, rules.factual, rules.margin)
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
    bundles = Pipeline(_linear(6, bias=1.0), Finite(_BUNDLES, "max"))
    small, contexts = grid(), normal(_ROWS, 4, seed=4)
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
    data = normal(200, 3, seed=9) @ normal(3, 4, seed=10)
    plausible = {"generative": PCA.fit(data, 3).double(), "plausibility": Sphere(0.1)}
    return {
        "limits": Case(small, inside, {"features": limits}),
        "whole numbers": Case(small, counted, {"features": whole}),
        "a maximising problem": Case(bundles, contexts),
        "L1": Case(small, contexts, {"proximity": L1(_SCALE)}),
        "a margin": Case(small, contexts, {"margin": 0.02}),
        "codes": Case(small, data[:_ROWS], plausible),
    }


def grid() -> Pipeline:
    """A linear predictor in float64 on a small grid; costs rise with every feature."""
    problem = GridShortestPath(3, 3)
    return Pipeline(_linear(problem.num_costs, bias=3.0), problem)


def _linear(costs: int, bias: float) -> nn.Linear:
    """A predictor in float64 whose costs rise with every feature."""
    predictor = nn.Linear(4, costs).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        predictor.weight.copy_(torch.rand(predictor.weight.shape, generator=generator))
        predictor.bias.fill_(bias)
    return predictor.requires_grad_(False)
