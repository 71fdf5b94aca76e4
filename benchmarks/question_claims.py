"""Random tasks of every kind of question, each claim checked by brute force.

`python -m benchmarks claims --rows 3000 --seed 0`: partial wishes, few changes, several options,
balls, models, prices and remedies behind affine predictors, on the 5x5 grid and for 16 items. The
nearest answer is found anew by quadprog over all decisions, plans, sets of features or limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Any

import numpy as np
import torch

import cfopt
from benchmarks.few_changes import nearest_with_few_rows
from benchmarks.independent import Array, affine
from benchmarks.questions_wishes import wishes
from cfopt.datasets import synthetic

#: Contexts of one task, how far they may be off, and by what fraction losses may differ.
_ROWS, _RADIUS, _SAME = 5, 0.1, 1e-5
#: What is counted of each kind, beside rows.
_COLUMNS = ("optimal", "proved infeasible", "already valid", "open", "refuted")


@dataclass(frozen=True)
class _Made:
    """A pipeline with contexts, as arrays too: costs are `weight @ x + bias`, less is better."""

    name: str
    pipeline: cfopt.Pipeline
    x0: torch.Tensor
    listed: Array
    rng: np.random.Generator

    @property
    def wanted(self) -> torch.Tensor:
        """A decision for each row that is best somewhere."""
        elsewhere = torch.from_numpy(self.rng.normal(size=tuple(self.x0.shape)) * 1.5)
        return self.pipeline.decide(elsewhere)

    def nearest(
        self,
        row: int,
        directions: Array,
        radius: float = 0.0,
        may: list[int] | None = None,
        others: list[cfopt.Pipeline] | None = None,
    ) -> float:
        """The least `|u|^2` for which all `<theta(x0 + u), d> <= 0`, by brute force.

        Within a ball of this radius, by changes of some features alone, under other predictors too.
        """
        x = self.x0[row].numpy()
        free = list(range(len(x))) if may is None else may
        parts = []
        for pipeline in [self.pipeline, *(others or [])]:
            weight, bias = affine(pipeline)
            g = directions @ weight
            h = -directions @ (weight @ x + bias) - radius * np.linalg.norm(g, axis=1)
            parts.append((g[:, free], h))
        g, h = (np.concatenate(part) for part in zip(*parts, strict=True))
        flat = np.abs(g).max(axis=1, initial=0.0) <= 1e-12
        if (h[flat] < -1e-9).any():
            return np.inf
        return nearest_with_few_rows(g[~flat], h[~flat]) if (~flat).any() else 0.0

    def bounds(self, row: int, directions: Array, radius: float = 0.0) -> Array:
        """The least `|u|^2` for which each direction alone has `<theta(x0 + u), d> <= 0`."""
        weight, bias = affine(self.pipeline)
        g = directions @ weight
        length = np.linalg.norm(g, axis=1)
        excess = directions @ (weight @ self.x0[row].numpy() + bias) + radius * length
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(excess > 1e-12, (excess / length) ** 2, 0.0)


def claims(rows: int = 3000, seed: int = 0, report: Callable[[str], None] = print) -> list[Any]:
    """A table with a line for each kind of question and problem.

    Arguments:
        rows: how many answers are checked, in tasks of a few rows each.
        seed: the seed of the tasks.
        report: called with each claim that is refuted, in words.
    """
    counts: dict[tuple[str, str], Counter[str]] = {}
    done = 0
    for number in range(10**9):
        made = _make(seed, number)
        kind = list(_KINDS)[number // 2 % len(_KINDS)]
        count = counts.setdefault((kind, made.name), Counter())
        for e, row, best in _KINDS[kind](made):
            ended = _judge(e, row, best)
            count["rows"] += 1
            count[ended] += 1
            done += 1
            if ended == "refuted":
                report(
                    f"refuted: seed {seed}, task {number}, row {row}, {kind}, {made.name}: "
                    f"{e.status[row]}, loss {float(e.loss[row]):.9g}, bound "
                    f"{float(e.bound[row]):.9g}, but {best:.9g} by brute force"
                )
        if done >= rows:
            break
    return [
        {"question": kind, "tasks": name, "rows": count["rows"]}
        | {column: count[column] for column in _COLUMNS}
        for (kind, name), count in counts.items()
    ]


def _judge(e: cfopt.Explanation, row: int, best: float) -> str:
    """How a row ended, beside the least loss there is: inf if there is none."""
    status, loss = e.status[row], float(e.loss[row])
    slack = _SAME * max(best, 1e-6)
    if status is cfopt.Status.PROVED_INFEASIBLE:
        return "proved infeasible" if best == np.inf else "refuted"
    if float(e.bound[row]) > best + slack or (status.is_valid and loss < best - slack):
        return "refuted"
    if status is cfopt.Status.ALREADY_VALID:
        return "already valid"
    if e.optimal[row]:
        return "optimal" if abs(loss - best) <= slack else "refuted"
    return "open"


def _make(seed: int, number: int) -> _Made:
    rng = np.random.default_rng([seed, number])
    name, data = (
        ("grid 5x5", synthetic.grid(1, 10, 5, 5, seed=1)),
        ("knapsack 16", synthetic.knapsack(1, 5, 16, seed=1)),
    )[number % 2]
    size = data.contexts.shape[1]
    pipeline = _random(rng, size, data.problem)
    x0 = torch.from_numpy(rng.normal(size=(_ROWS, size)))
    return _Made(name, pipeline, x0, data.problem.decisions().numpy(), rng)


def _random(rng: np.random.Generator, size: int, problem: cfopt.Problem) -> cfopt.Pipeline:
    layer = torch.nn.Linear(size, problem.num_costs).double()
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(rng.normal(size=layer.weight.shape) * 0.4))
        layer.bias.copy_(torch.from_numpy(2 + rng.normal(size=problem.num_costs)))
    return cfopt.Pipeline(layer, problem)


#: The answers of a task, each with its row and the least loss by brute force.
_Checked = Iterator[tuple[cfopt.Explanation, int, float]]


def _wish(made: _Made, kind: type[cfopt.Contrastive], radius: float) -> _Checked:
    problem = made.pipeline.problem
    foil = next(islice(wishes(problem, int(made.rng.integers(10**6))), 1))
    plans = made.listed[foil.conditions(problem).met(made.listed)]
    robust = cfopt.Ball(radius) if radius else None
    e = cfopt.explain(made.x0, made.pipeline, kind(foil), robust=robust)
    for row in range(_ROWS):
        factual = e.factual[row].numpy()
        rivals = factual[None] if kind is cfopt.Relative else made.listed
        best = np.inf
        bounds = made.bounds(row, plans - factual, radius)
        for k in bounds.argsort(kind="stable"):
            if bounds[k] >= best:
                break
            best = min(best, made.nearest(row, plans[k] - rivals, radius))
        yield e, row, best


def _few(made: _Made) -> _Checked:
    most, wanted = int(made.rng.integers(1, 4)), made.wanted
    features = cfopt.Features(max_changes=most)
    e = cfopt.explain(made.x0, made.pipeline, cfopt.Absolute(wanted), features=features)
    size = made.x0.shape[1]
    for row in range(_ROWS):
        directions = wanted[row].numpy() - made.listed
        every = combinations(range(size), most)
        yield e, row, min(made.nearest(row, directions, may=list(some)) for some in every)


def _options(made: _Made) -> _Checked:
    wanted = made.wanted
    e = cfopt.explain(made.x0, made.pipeline, cfopt.Absolute(wanted), options=3)
    size = made.x0.shape[1]
    for row, options in enumerate(e.options):
        directions, main = wanted[row].numpy() - made.listed, []
        for k in range(len(options)):
            # An option leaves a main feature of each earlier one as it is.
            cases = [[j for j in range(size) if j not in held] for held in product(*main)]
            yield options, k, min(made.nearest(row, directions, may=free) for free in cases)
            parts = (options.x[k] - options.x0[k]).square().numpy()
            order = np.argsort(-parts, kind="stable")
            needed = int(np.searchsorted(np.cumsum(parts[order]), 0.5 * parts.sum())) + 1
            main.append(order[:needed].tolist())


def _ball(made: _Made, kind: type[cfopt.Contrastive]) -> _Checked:
    wanted = made.wanted
    e = cfopt.explain(made.x0, made.pipeline, kind(wanted), robust=cfopt.Ball(_RADIUS))
    for row in range(_ROWS):
        rivals = e.factual[row : row + 1].numpy() if kind is cfopt.Relative else made.listed
        yield e, row, made.nearest(row, wanted[row].numpy() - rivals, _RADIUS)


def _epsilon_ball(made: _Made) -> _Checked:
    """Epsilon in a ball: is it so, and is any mixture of decisions nearer than is said possible?

    With `a = 1 + eps` and `1 - eps`, contexts that are not explained are those with
    `<theta, a y - y0> > 0` for every y: answers are to be a radius away from both. Mixtures of
    decisions make half-spaces that are: those of one and of two decisions are tried, the nearest
    ones first.
    """
    epsilon = float(made.rng.choice([0.1, 0.5, 1.0]))
    e = cfopt.explain(made.x0, made.pipeline, cfopt.Epsilon(epsilon), robust=cfopt.Ball(_RADIUS))
    weight, bias = affine(made.pipeline)
    for row in range(_ROWS):
        factual, here = e.factual[row].numpy(), weight @ e.x[row].numpy() + bias
        every = [a * made.listed - factual for a in (1 + epsilon, 1 - epsilon)]
        away = [nearest_with_few_rows(-(d @ weight), d @ here) for d in every]
        holds = min(away) >= (_RADIUS * (1 - 1e-5)) ** 2
        best = float(e.loss[row]) if e.status[row].is_valid and holds else np.inf
        order = made.bounds(row, every[0], _RADIUS).argsort(kind="stable")
        order = order[(made.listed[order] != factual).any(axis=1)][:6]
        for one, other in product(order, repeat=2):
            for share in (1.0,) if one == other else (0.5, 0.8, 0.95):
                mixed = share * every[0][one] + (1 - share) * every[0][other]
                for second in {int(one), int(order[0])}:
                    both = np.stack([mixed, every[1][second]])
                    best = min(best, made.nearest(row, both, _RADIUS))
        yield e, row, best


def _models(made: _Made) -> _Checked:
    wanted, size = made.wanted, made.x0.shape[1]
    other = _random(made.rng, size, made.pipeline.problem)
    with torch.no_grad():
        for mine, own in zip(
            other.predictor.parameters(), made.pipeline.predictor.parameters(), strict=True
        ):
            mine.copy_(own + 0.1 * mine)
    robust = cfopt.Models([other.predictor])
    e = cfopt.explain(made.x0, made.pipeline, cfopt.Absolute(wanted), robust=robust)
    for row in range(_ROWS):
        directions = wanted[row].numpy() - made.listed
        yield e, row, made.nearest(row, directions, others=[other])


def _prices(made: _Made) -> _Checked:
    costs, wanted = made.pipeline.costs(made.x0).detach(), made.wanted
    problem = made.pipeline.problem
    e = cfopt.explain_costs(costs, problem, cfopt.Absolute(wanted), proximity=cfopt.L2())
    same = torch.nn.Linear(problem.num_costs, problem.num_costs).double()
    with torch.no_grad():
        same.weight.copy_(torch.eye(problem.num_costs))
        same.bias.zero_()
    alike = _Made(made.name, cfopt.Pipeline(same, problem), costs, made.listed, made.rng)
    for row in range(_ROWS):
        yield e, row, alike.nearest(row, wanted[row].numpy() - made.listed)


def _remedy(made: _Made) -> _Checked:
    """Of rows that locks make impossible: the fewest to lift, and the nearest answer then."""
    wanted, size = made.wanted, made.x0.shape[1]
    locked = sorted(made.rng.choice(size, size - 2, replace=False).tolist())
    features = cfopt.Features(immutable=locked)
    e = cfopt.explain(made.x0, made.pipeline, cfopt.Absolute(wanted), features=features)
    e = cfopt.remedies(e, made.pipeline)
    for row, found in enumerate(e.remedy):
        directions = wanted[row].numpy() - made.listed
        may = [j for j in range(size) if j not in locked]
        yield e, row, made.nearest(row, directions, may=may)
        if found is None:
            continue
        left = found.answer.features.immutable
        lifted = [j for j in locked if j not in left]
        assert len(lifted) == len(found.limits), "limits are lifted that are not named"
        yield found.answer, 0, made.nearest(row, directions, may=sorted(may + lifted))
        if found.smallest and len(lifted) > 1:
            fewer = combinations(locked, len(lifted) - 1)
            least = min(made.nearest(row, directions, may=sorted([*may, *one])) for one in fewer)
            assert least == np.inf, f"fewer than {lifted} will do"


_KINDS: dict[str, Callable[[_Made], _Checked]] = {
    "a wish, absolute": lambda made: _wish(made, cfopt.Absolute, 0.0),
    "a wish, relative": lambda made: _wish(made, cfopt.Relative, 0.0),
    "a wish in a ball": lambda made: _wish(made, cfopt.Absolute, _RADIUS),
    "few changes": _few,
    "three options": _options,
    "a ball, absolute": lambda made: _ball(made, cfopt.Absolute),
    "a ball, relative": lambda made: _ball(made, cfopt.Relative),
    "a ball, epsilon": _epsilon_ball,
    "two models": _models,
    "prices": _prices,
    "remedies": _remedy,
}
